"""Methods: `list`, `show`, `describe` and `check`."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence

from baselines import registry
from benchmarks.results.descriptions import FILE as DESCRIPTIONS
from benchmarks.results.descriptions import MethodDescription, ParameterDescription, write_descriptions
from benchmarks.results.formulations import FORMULATIONS, OTHER, federated_method, formulation_of
from benchmarks.results.papers import published_numbers
from datasets.common.cli import say
from datasets.common.errors import DataError, install_hint


def list_methods(chosen: argparse.Namespace) -> int:
    """Every method, one line each, by formulation; those trained in the homes behind those with all data in one place.

    Methods that `benchmarks.results.formulations` does not know come last.
    """
    del chosen
    groups: dict[str, list[str]] = {name: [] for name in (*(each.name for each in FORMULATIONS), OTHER)}
    for name in registry.names():
        formulation = formulation_of(name)
        groups[formulation.name if formulation else OTHER].append(name)
    for group, names in groups.items():
        if not names:
            continue
        say(group)
        for name in sorted(names, key=lambda name: (federated_method(name) is not None, name)):
            federated = " (federated)" if federated_method(name) else ""
            say(f"    {name}{federated}: {_about(name)}")
    return 0


def _about(name: str) -> str:
    """What a method is, or why it cannot be used."""
    extra = registry.missing_extra(name)
    try:
        return f"needs {install_hint(extra)}" if extra else registry.summary(name)
    except (DataError, ImportError) as error:  # a package that none of our extras installs
        return f"cannot be imported: {error}"


def show_method(chosen: argparse.Namespace) -> int:
    """A method: what its module says of it, published numbers, and its parameters, those that are tuned first."""
    cls = registry.get(chosen.method)
    parameters = registry.parameters(chosen.method)
    tuned, available = _tuned(cls), _available(cls, parameters)
    say(f"{chosen.method}: {registry.summary(chosen.method)}")
    if formulation := formulation_of(chosen.method):
        federated = federated_method(chosen.method)
        more = f"; all data in one place: {', '.join(federated.twins)}" if federated else ""
        place = f"federated; leaves a home: {federated.leaves}{more}" if federated else "all data in one place"
        say(f"    {formulation.name}, {place}")
    for line in _module_doc(cls).splitlines():
        say(f"    | {line}".rstrip())
    none = [] if formulation_of(chosen.method) is None else ["none on rules of homes that we know of"]
    for number in published_numbers(chosen.method) or none:
        say(f"    published, on other data: {number}")
    for each in sorted(available, key=lambda each: each.name not in tuned):  # those that are tuned first
        say(f"    {each.name}: {each.type} = {each.default!r}" + (f"  {each.meaning}" if each.meaning else ""))
        if each.name in tuned:
            say(f"        tuned: {tuned[each.name]}")
    if unavailable := sorted({each.name for each in parameters} - {each.name for each in available}):
        say(f"    not available for {chosen.method}: {', '.join(unavailable)}")
    if not parameters:
        say("    no parameters")
    return 0


def _available(cls: type, parameters: Sequence[registry.Parameter]) -> list[registry.Parameter]:
    """The parameters that a method has a use for."""
    refused: dict[str, str] = getattr(cls, "UNAVAILABLE", {})
    return [each for each in parameters if each.name not in refused]


def _tuned(cls: type) -> dict[str, str]:
    """Parameter -> the range in which `tune` searches, in words."""
    space: dict[str, tuple[object, ...]] = getattr(cls, "SPACE", {})
    return {
        name: f"{kind}, " + (" or " if kind == "choice" else " to ").join(map(str, bounds))
        for name, (kind, *bounds) in space.items()
    }


def _module_doc(cls: type) -> str:
    return inspect.getdoc(sys.modules[cls.__module__]) or ""


def describe_methods(chosen: argparse.Namespace) -> int:
    """Write the docstrings and parameters of the methods of this repository to a file, for readers of results."""
    file = chosen.out or DESCRIPTIONS
    found = method_descriptions()
    write_descriptions(found, file)
    say(f"{file}: {len(found)} methods")
    return 0


def method_descriptions() -> dict[str, MethodDescription]:
    """Of every method of this repository; they are imported."""
    return {name: _description(name) for name in sorted(registry.listed())}


def _description(name: str) -> MethodDescription:
    cls = registry.get(name)
    tuned = _tuned(cls)
    parameters = {
        each.name: ParameterDescription(each.type, each.meaning, tuned.get(each.name, ""))
        for each in _available(cls, registry.parameters(name))
    }
    return MethodDescription(registry.summary(name), _module_doc(cls), parameters)


def check(chosen: argparse.Namespace) -> int:
    """Check that a method satisfies the contract of `baselines.contract`."""
    from baselines.contract import check_method
    from benchmarks.commands.options import settings_of

    problems = check_method(registry.build(chosen.method, **settings_of(chosen, "check")))
    for problem in problems:
        say(f"{chosen.method}: {problem}")
    found = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    say(f"{chosen.method}: " + (found if problems else "satisfies the contract"))
    return 1 if problems else 0
