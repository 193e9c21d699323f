"""`python -m reports.curves`: curves by round of the runs in a folder, as one figure."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from datasets.common import cli

log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Draw the figure; bad input is one message and exit code 1."""
    given = _parser().parse_args(arguments)
    return cli.run(lambda: _draw(given))


def _draw(given: argparse.Namespace) -> int:
    from benchmarks.results.store import load_results, results_folder
    from datasets.common.errors import DataError
    from reports.drawing.curves import check_name, curves_layout, rows
    from reports.drawing.layout import METADATA, draw, render

    if given.out.suffix not in METADATA:
        raise DataError(f"--out {given.out}: must end in {', '.join(METADATA)}")
    runs = load_results(results_folder(given.results))
    if given.data:
        check_name("data set", given.data, {run.key.data for run in runs})
        runs = [run for run in runs if run.key.data == given.data]
    shown = [(given.part, row) for row in rows(runs, given.part, methods=given.methods, lines=given.line)]
    content = render(draw(curves_layout(shown, metrics=given.metric)), given.out.suffix)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_bytes(content)
    log.info("%s", given.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports.curves", description="Curves by round of the runs in a folder, as one figure."
    )
    add = parser.add_argument
    add("--results", type=Path, metavar="DIR", help="folder of the results (default $FEDRULE_RESULTS or results)")
    add("--out", type=Path, required=True, metavar="FILE", help="the figure: a name that ends in .svg, .png or .pdf")
    add("--data", metavar="NAME", help="this data set only, with all of its options")
    add("--methods", type=cli.comma_separated, default=[], metavar="A,B", help="all lines of these methods only")
    line = (
        "this line only, as the leaderboard names it, e.g. 'fedrule (preset=paper)'; may be "
        "repeated. A bare method name is the line with its defaults. Lines are added to those of --methods"
    )
    add("--line", action="append", default=[], metavar="LABEL", help=line)
    metrics, part = "a column for each (default loss,auc,mr)", "test, validation or train (default test)"
    add("--metric", type=cli.comma_separated, default=["loss", "auc", "mr"], metavar="A,B", help=metrics)
    add("--part", default="test", metavar="NAME", help=part)
    return parser


if __name__ == "__main__":
    sys.exit(main())
