"""`python -m datasets`: list, describe, check and generate data sets."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from datasets.common.cli import add_import, import_all, run, say
from datasets.common.errors import DataError
from datasets.common.options import read_assignments, spell_option
from datasets.describe import number
from datasets.homes import Homes
from datasets.readers.tables import TABLE_FILES, WYZE_FILES, detect_format
from datasets.registry import get, load, names


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    chosen = _parser().parse_args(arguments)

    def command() -> int:
        import_all(chosen.modules)
        return int(chosen.run(chosen))

    return run(command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m datasets", description="List, describe, check and make data sets.")
    add_import(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="every data set, what it is and its options")
    listing.set_defaults(run=_list)

    describe = commands.add_parser("describe", help="counts and distributions, compared with the published ones")
    _add_data(describe)
    describe.add_argument("--json", action="store_true", help="statistics as JSON")
    describe.add_argument("--merged", action="store_true", help="the `types` track: devices of one type merged")
    describe.set_defaults(run=_describe)

    check = commands.add_parser("check", help="read your own tables and list the first bad lines")
    check.add_argument("path", metavar="PATH", type=Path, help="a folder with tables, or a file")
    _add_set(check, "--set", "options", "an option, e.g. columns.user=household_id")
    check.set_defaults(run=_check)

    generate = commands.add_parser("generate", help="write a data set to one .parquet file or a folder of CSV files")
    _add_data(generate)
    generate.add_argument("--out", required=True, type=Path, metavar="FILE", help="FILE.parquet, or a folder for CSV")
    layouts = "of CSV files: wyze (that of the public data; default if all ids are whole numbers) or tables"
    generate.add_argument("--layout", choices=("wyze", "tables"), help=layouts)
    generate.set_defaults(run=_generate)

    fidelity = commands.add_parser("fidelity", help="how close a synthetic data set is to what it imitates")
    _add_data(fidelity)
    fidelity.add_argument("--real", metavar="NAME", help="also compare with this data set")
    fidelity.add_argument("--real-data", type=Path, metavar="PATH", help="where the files of --real are")
    _add_set(fidelity, "--real-set", "real_set", "an option of --real, e.g. part=test")
    fidelity.set_defaults(run=_fidelity)
    return parser


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--data", type=Path, metavar="PATH", help="where the files are, if not under $FEDRULE_DATA")
    _add_set(parser, "--set", "options", "an option of the data set, e.g. homes=1000; see `list`")


def _add_set(parser: argparse.ArgumentParser, flag: str, name: str, about: str) -> None:
    parser.add_argument(flag, dest=name, action="append", default=[], metavar="KEY=VALUE", help=about)


def _load(name: str, path: Path | None, assignments: list[str]) -> Homes:
    return load(name, path=path, **read_assignments(get(name).load, assignments, where=name))


def _list(_: argparse.Namespace) -> int:
    for name in names():
        found = get(name)
        needs = f"needs {', '.join(found.files)}" if found.files else "built in"
        say(f"{name}: {found.summary} ({needs})")
        for option in found.options.values():
            meaning = found.meanings.get(option.name, "")
            say(f"    {spell_option(option)}" + (f"  {meaning}" if meaning else ""))
    return 0


def _describe(chosen: argparse.Namespace) -> int:
    homes = _load(chosen.name, chosen.data, chosen.options)
    description = (homes.merged_types() if chosen.merged else homes).describe()
    if chosen.json:
        say(json.dumps({"fingerprint": description.fingerprint, **description.statistics}, indent=2))
        return 0
    say(str(description))
    table = description.compared().dropna()
    if len(table):
        say(f"\nCompared with {description.published.source}:")
        shown = table.assign(ours=table["ours"].map(number), published=table["published"].map(number))
        say(shown.to_string(formatters={"difference %": "{:+.2f}".format}))
    return 0


def _check(chosen: argparse.Namespace) -> int:
    name = detect_format(chosen.path)
    say(f"{chosen.path}: read as {name}")
    try:
        homes = _load(name, chosen.path, chosen.options)
    except DataError as error:
        if "on_error" not in get(name).options:
            raise
        say(str(error))
        try:
            homes = _load(name, chosen.path, [*chosen.options, "on_error=skip"])
        except DataError as again:  # skipping does not help
            if str(again) != str(error):
                raise
            return 1
        say(f"\nWithout the bad lines (on_error=skip): {_summary(homes)}")
        return 1
    # A saved file keeps what was skipped when it was made.
    if "on_error" in get(name).options and homes.provenance.skipped:
        say("\n".join(homes.provenance.skipped))
        say(f"\nWithout the bad lines: {_summary(homes)}")
        return 1
    say(f"No bad lines: {_summary(homes)}")
    return 0


def _generate(chosen: argparse.Namespace) -> int:
    homes = _load(chosen.name, chosen.data, chosen.options)
    if chosen.out.suffix == ".parquet":
        if chosen.layout:
            raise DataError(f"--layout {chosen.layout}: it is for CSV files; give a folder by --out")
        homes.save(chosen.out)
        say(f"{chosen.out}: {_summary(homes)}, fingerprint {homes.fingerprint}")
    elif chosen.out.suffix:
        raise DataError(f"{chosen.out}: write to a file that ends in .parquet, or to a folder for CSV files")
    else:  # no fingerprint: relations that no rule has are not in CSV files, so that theirs may differ
        _write_csv(homes, chosen.out, chosen.layout)
        say(f"{chosen.out}: {_summary(homes)}")
    return 0


def _write_csv(homes: Homes, folder: Path, layout: str | None) -> None:
    from datasets.readers.tables import write_tables
    from datasets.readers.wyze import write_wyze

    numeric = homes.users.dtype.kind == homes.device_ids.dtype.kind == "i"
    layout = layout or ("wyze" if numeric else "tables")
    other = TABLE_FILES if layout == "wyze" else WYZE_FILES
    found = sorted({entry.name for entry in folder.iterdir()} & other) if folder.is_dir() else []
    if found:
        raise DataError(f"{folder}: it has {found[0]}, which belongs to another layout; choose a new folder")
    (write_wyze if layout == "wyze" else write_tables)(homes, folder)


def _fidelity(chosen: argparse.Namespace) -> int:
    from datasets.describe import fidelity, report

    if not chosen.real and (chosen.real_data or chosen.real_set):
        raise DataError("--real-data and --real-set say how --real NAME is loaded; name it, e.g. --real wyze")
    real = _load(chosen.real, chosen.real_data, chosen.real_set) if chosen.real else None
    say(report(fidelity(_load(chosen.name, chosen.data, chosen.options), real)))
    return 0


def _summary(homes: Homes) -> str:
    words = "" if homes.words is None else f", {len(homes.words):,} words of devices"
    return f"{homes.n_homes:,} homes, {homes.n_devices:,} devices, {homes.n_rules:,} rules{words}"


if __name__ == "__main__":
    sys.exit(main())
