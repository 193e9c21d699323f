"""`python -m fedrule hass`: what a Home Assistant could automate next, as automations that one can switch on."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.common.cli import count
from datasets.common.errors import DataError
from datasets.common.files import Json, atomic_file, write_json
from fedrule.homeassistant import read_folder, read_home, read_live

if TYPE_CHECKING:
    from fedrule.homeassistant import InstalledHome
    from fedrule.homeassistant.suggestions import Suggestion, Suggestions
    from fedrule.inference.recommender import Recommender

TOKEN_BYTES = 10_000
HEADER = "# Recommended by fedrule"  # of a file that may be written again
REASONS = 8  # why candidates were left out, that are printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    about = "the address of a running Home Assistant, e.g. http://homeassistant.local:8123, or its configuration folder"
    add("home", metavar="URL|FOLDER", help=about)
    about = "a file with a long-lived access token, made on your profile page; - reads it from the standard input"
    add("--token-file", metavar="FILE", help=about)
    add("--model", type=Path, metavar="MODEL", help="a model file; `fedrule train --data home-assistant` makes one")
    add("-k", type=count, default=10, help="how many recommendations (default: %(default)s)")
    about = "only those with a device of this area, or with this word in a name"
    add("--area", type=_name, metavar="NAME", help=about)
    about = "rules that need a value which you have to choose, such as a time: with a guess, or left out"
    add("--values", choices=("guess", "skip"), default="guess", help=f"{about} (default: %(default)s)")
    add("--without", type=Path, metavar="FILE", help="ids of automations not to recommend again, one in a line")
    add("--out", type=Path, metavar="FILE.yaml", help="write the automations to a file")
    add("--html", type=Path, metavar="FILE.html", help="write a page with copy buttons and a drawing of the home")
    add("--json", action="store_true", help="print JSON")
    about = "write the home for `fedrule recommend`, and stop without --model"
    add("--export", type=Path, metavar="HOME.json", help=about)
    add("--install", action="store_true", help="save the automations on the server, switched off; needs URL")
    add("--ca-file", type=Path, metavar="FILE", help="certificate authority of the server, in PEM format")
    about = "do not check the server's certificate: whoever is between can read the token"
    add("--no-certificate-check", dest="check_certificate", action="store_false", help=about)


def _name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected the name of an area")
    return text


def run(chosen: argparse.Namespace) -> int:
    """Read the home, print the list, and write what was asked for."""
    _check(chosen)
    token = _token(chosen.token_file) if _is_address(chosen.home) else ""
    home = _read(chosen, token)
    if chosen.export is not None:
        write_json(chosen.export, home.to_json())
        _note(f"The home was written to {chosen.export}. It has the names of your devices and rooms.")
    if chosen.model is None:
        sys.stdout.write(home.coverage() + "\n")
        return 0
    # Here, as numba and the model take longer to load than a home to be read, whose errors come first.
    from fedrule.homeassistant.suggestions import suggest
    from fedrule.inference.recommender import Recommender

    recommender = Recommender.load(chosen.model)
    _refuse_other_words(recommender, chosen.model)
    suggestions = suggest(
        recommender,
        home,
        chosen.k,
        values=chosen.values,
        area=chosen.area or "",
        without=_ids(chosen.without),
    )
    if chosen.json:
        sys.stdout.write(json.dumps(_as_json(suggestions), indent=1, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(_text(suggestions, yaml=not (chosen.out or chosen.html or chosen.install))) + "\n")
    if chosen.out is not None:
        _write_yaml(suggestions, chosen.out)
    if chosen.html is not None:
        from fedrule.homeassistant.page import write_page

        write_page(suggestions, chosen.html)
        _note(f"The page is {chosen.html}: open it in a browser.")
    return _install(suggestions, chosen, token) if chosen.install else 0


def _is_address(home: str) -> bool:
    return "://" in home


def _check(chosen: argparse.Namespace) -> None:
    """Raise for what cannot be, before a server is asked or a model is loaded."""
    live = _is_address(chosen.home)
    if live and chosen.token_file is None:
        raise DataError(
            "a running Home Assistant needs --token-file FILE: make a long-lived access token on your profile page, "
            "under security, and save it in a file that only you can read"
        )
    if not live and chosen.token_file is not None:
        raise DataError(
            f"{chosen.home}: --token-file is for a running server; give its address with http://, or a folder alone"
        )
    if chosen.install and not live:
        raise DataError("--install saves automations on a running server: give its address instead of a folder")
    if chosen.model is None:
        if chosen.out or chosen.html or chosen.install or chosen.json:
            raise DataError(
                "recommendations need --model MODEL; docs/home-assistant.md says how to make one from real homes"
            )
    elif not chosen.model.is_file():
        raise DataError(f"{chosen.model}: there is no such model; docs/home-assistant.md says how to make one")
    secure = chosen.home.startswith(("https:", "wss:"))
    if not secure and (chosen.ca_file is not None or not chosen.check_certificate):
        raise DataError("--ca-file and --no-certificate-check are for an address that begins with https://")
    for path in (chosen.out, chosen.html, chosen.export):
        if path is not None:
            _refuse_unwritable(path)
    if chosen.out is not None and chosen.out.is_file() and not _is_ours(chosen.out):
        raise DataError(f"{chosen.out}: this file is there and is not one of ours; give another name")


def _refuse_unwritable(path: Path) -> None:
    """Raise before anything is done if no file can be written there; a misspelled folder is not made."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise DataError(f"{path}: cannot be written (no permission)")


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()


def _refuse_other_words(recommender: Recommender, model: Path) -> None:
    """Raise for a model of other homes: it would know no state of this one."""
    if not any(relation.trigger.startswith("state:") for relation in recommender.card.relations):
        data = recommender.card.trainings[-1].data
        raise DataError(
            f"{model}: a model of {data}, which has other words than Home Assistant; train one on home-assistant "
            "(docs/home-assistant.md)"
        )


def _read(chosen: argparse.Namespace, token: str) -> InstalledHome:
    if _is_address(chosen.home):
        return read_home(
            read_live(chosen.home, token, ca_file=chosen.ca_file, check_certificate=chosen.check_certificate)
        )
    if not Path(chosen.home).exists():
        raise DataError(
            f"{chosen.home}: there is no such folder; for a running server give an address that begins with http://"
        )
    return read_home(read_folder(chosen.home))


def _token(place: str) -> str:
    """The token of a file; its content is in no message."""
    try:
        if place == "-":
            return sys.stdin.readline().strip()
        with Path(place).open("rb") as file:
            content = file.read(TOKEN_BYTES)
    except OSError as error:
        raise DataError(f"{place}: the token cannot be read ({error.strerror})") from None
    return content.decode("utf-8-sig", "replace").strip()


def _ids(path: Path | None) -> frozenset[str]:
    if path is None:
        return frozenset()
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return frozenset(id_ for line in lines if (id_ := line.partition("#")[0].strip()))


def _text(suggestions: Suggestions, *, yaml: bool) -> Iterator[str]:
    from fedrule.homeassistant.writing.automation import to_yaml
    from fedrule.inference.sentences import without_marks

    yield str(suggestions.home.installation)
    yield suggestions.home.coverage()
    yield ""
    if not suggestions.lines:
        no_devices = "it has no device; a folder without .storage has only what its YAML names"
        yield "No recommendations for this home" + ("." if suggestions.home.devices else f": {no_devices}.")
    for rank, line in enumerate(suggestions.lines, start=1):
        yield f"{rank:>3}. {without_marks(line.text)}"
        yield f"     {line.why}"
        yield from (f"     guess: {guess}" for guess in line.written.guesses)
        yield from (f"     WARNING: {warning}" for warning in line.written.warnings)
        yield from (f"     or: {without_marks(similar.text)}" for similar in line.similar)
        if yaml:
            yield ""
            yield to_yaml([line.written])
    if suggestions.left_out:
        yield "Left out:"
        reasons = list(suggestions.left_out.items())
        yield from (f"  {many:,}: {reason}" for reason, many in reasons[:REASONS])
        if rest := sum(many for _, many in reasons[REASONS:]):
            yield f"  {rest:,}: for other reasons"


def _as_json(suggestions: Suggestions) -> dict[str, Json]:
    left_out: dict[str, Json] = dict(suggestions.left_out)
    return {
        "recommendations": [_line_as_json(line) for line in suggestions.lines],
        "left_out": left_out,
        "home": str(suggestions.home.installation),
        "not_read": [str(problem) for problem in suggestions.home.installation.problems],
    }


def _line_as_json(line: Suggestion) -> Json:
    why: Json = {"homes_with_rule": line.homes_with_rule, "homes_with_both": line.homes_with_both, "text": line.why}
    config: Json = json.loads(json.dumps(line.written.config))
    return {
        **line.rule._asdict(),
        "text": line.text,
        "why": why,
        "automation": config,
        "guesses": list(line.written.guesses),
        "warnings": list(line.written.warnings),
        "similar": [_line_as_json(similar) for similar in line.similar],
    }


def _write_yaml(suggestions: Suggestions, path: Path) -> None:
    from fedrule.homeassistant.writing.automation import to_yaml

    text = to_yaml([line.written for line in suggestions.lines])
    with atomic_file(path) as temporary:
        temporary.write_text(f"{HEADER}: paste what you like into automations.yaml\n{text}", "utf-8")
    _note(
        f"{len(suggestions.lines)} automations were written to {path}. Paste those that you like into "
        "automations.yaml; they are on as soon as Home Assistant has loaded them."
    )


def _install(suggestions: Suggestions, chosen: argparse.Namespace, token: str) -> int:
    """Save what the list shows on the server, switched off; the exit code is 1 if one was refused."""
    from fedrule.homeassistant.writing.install import install

    automations = [line.written for line in suggestions.lines]
    results = install(
        chosen.home, token, automations, ca_file=chosen.ca_file, check_certificate=chosen.check_certificate
    )
    for result in results:
        _note(str(result))
    if any(result.result == "installed" for result in results):
        _note("Installed automations are switched off. Look at each and switch it on under Settings, Automations.")
    return int(any(result.result == "refused" for result in results))


def _note(text: str) -> None:
    """To the standard error, so that what is printed can be piped."""
    sys.stderr.write(f"{text}\n")
