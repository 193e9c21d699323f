"""What commands say on the standard output: lists as text, failed runs, a line at a time."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from benchmarks.results.leaderboard import Board, leaderboard
from benchmarks.results.results import Result


class NoReader(Exception):
    """Who reads the output, such as `head`, has seen enough."""


def show_board(board: Board, metric: str) -> None:
    """One list as text."""
    table = leaderboard(board, metric)
    most, least = table["seeds"].max(), table["seeds"].min()
    several = f"{most}" if most == least else f"{least} to {most}"
    seeds = "single run" if most == 1 else f"mean of {several} seeds"
    spread = [f"{value:.4f} [{low:.4f}, {high:.4f}]" for value, low, high in table[[metric, "low", "high"]].to_numpy()]
    shown = table.drop(columns=["low", "high", "hidden"]).assign(**{metric: spread})
    counts = table[["unanswered", "hidden"]].to_numpy()
    shown["unanswered"] = [f"{n:.0f}" + ("" if math.isnan(of) else f" of {of:.0f}") for n, of in counts]
    shown["seeds"] = ["single run" if count == 1 else str(count) for count in table["seeds"]]
    if "calibrated" in shown:
        shown["calibrated"] = ["yes" if value else "own" for value in table["calibrated"]]
    formats = {"fit s": "{:.2f}".format, "fit MB": "{:.0f}".format}
    formats["non-rules unanswered"] = "{:.1%}".format
    say(f"\n{board.title}: {seeds}, [95 % over homes]")
    for warning in board.warnings():
        say(f"warning: {warning}")
    say(shown.to_string(index=False, float_format="{:.4f}".format, formatters=formats))
    if any(run.key.curves for _, run in board.runs):
        say("By round, on train, validation and test: `python -m benchmarks curves`")


def show_failures(failed: Sequence[Result]) -> int:
    """Name the runs that failed; the exit code."""
    for result in failed:
        say(f"failed: {result.key}: {result.error.splitlines()[-1]}")
    if failed:
        say("The whole errors are in the .failed.json files; the same command tries these runs again.")
    return 1 if failed else 0


def say(text: str) -> None:
    """To the standard output."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise NoReader from None
