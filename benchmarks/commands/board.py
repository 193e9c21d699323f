"""A leaderboard as text, for every command that shows one."""

from __future__ import annotations

import math

from benchmarks.results.leaderboard import Board, interval_scope, leaderboard
from benchmarks.results.status import SIGN
from datasets.common.cli import say


def show_board(board: Board, metric: str) -> None:
    """A leaderboard as text."""
    table = leaderboard(board, metric)
    most, least = table["seeds"].max(), table["seeds"].min()
    seeds = "single run" if most == 1 else f"mean of {most if most == least else f'{least} to {most}'} seeds"
    spread = [
        f"{value:.4f}{SIGN if status else ''} [{low:.4f}, {high:.4f}]"
        for value, low, high, status in table[[metric, "low", "high", "status"]].to_numpy()
    ]
    shown = table.drop(columns=["low", "high", "hidden", "status"]).assign(**{metric: spread})
    shown["sd over seeds"] = [f"{sd:.4f}" if sd == sd else "unknown" for sd in table["sd over seeds"]]  # of one seed
    counts = table[["unanswered", "hidden"]].to_numpy()
    shown["unanswered"] = [f"{n:.0f}" + ("" if math.isnan(of) else f" of {of:.0f}") for n, of in counts]
    shown["seeds"] = ["single run" if count == 1 else str(count) for count in table["seeds"]]
    if "calibrated" in shown:
        shown["calibrated"] = ["yes" if value else "own" for value in table["calibrated"]]
    formats = {"fit s": "{:.2f}".format, "fit MB": "{:.0f}".format, "non-rules unanswered": "{:.1%}".format}
    say(f"\n{board.title}: {seeds}, [95 % {interval_scope(table['seeds'])}]")
    for warning in board.warnings():
        say(f"warning: {warning}")
    say(shown.to_string(index=False, float_format="{:.4f}".format, formatters=formats))
    for note in board.status_notes():
        say(note)
    if any(run.key.curves for _, run in board.runs):
        say("By round, on train, validation and test: `python -m benchmarks curves`")
