"""The methods by name.

A method is a frozen dataclass of hyperparameters under `@register("name")`. Files in baselines/ and fedrule/methods/
are found by reading their decorators, so that listing imports nothing and a missing optional package is a line in the
list and not an import error. A module outside joins by being imported (`--import my_module`), or through an entry point
of the group "fedrule.methods".
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar, get_type_hints

from baselines.method import Method
from datasets.common.cli import EXTRAS
from datasets.common.errors import DataError, install_hint, unknown
from datasets.common.options import read_options

METHODS = ("baselines", "fedrule.methods")  # packages that are searched for methods
PACKAGES = ("datasets", "baselines", "fedrule")  # packages of ours that methods are made of
OF_OPTIONS = ("private", "secure")  # extras that methods need with some of their options only, and then ask for


@dataclass(frozen=True, slots=True)
class Declaration:
    """A method as its file declares it."""

    name: str
    module: str
    summary: str  # the first line of its docstring
    file: Path

    @property
    def packages(self) -> frozenset[str]:
        """The packages that its file imports, itself or through other files of ours."""
        modules = (module for file in files_of(self.file) for module in _imports(file.read_text(encoding="utf-8")))
        return frozenset(module.partition(".")[0] for module in modules)


@cache
def listed() -> dict[str, Declaration]:
    """Every `@register("name")` in our packages, by name; nothing is imported."""
    found: dict[str, Declaration] = {}
    for package in METHODS:
        for root in importlib.util.find_spec(package).submodule_search_locations or ():  # type: ignore[union-attr]
            for file in sorted(Path(root).rglob("*.py")):
                module = ".".join([package, *file.relative_to(root).with_suffix("").parts])
                found |= {each.name: each for each in _declarations(file, module.removesuffix(".__init__"))}
    return found


def _declarations(file: Path, module: str) -> Iterator[Declaration]:
    source = file.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(source, filename=str(file))) if "register(" in source else ()
    for node in (each for each in nodes if isinstance(each, ast.ClassDef)):
        for call in node.decorator_list:
            if (
                isinstance(call, ast.Call)
                and getattr(call.func, "id", getattr(call.func, "attr", "")) == "register"
                and call.args
                and isinstance(call.args[0], ast.Constant)
            ):
                summary = (ast.get_docstring(node) or "").partition("\n")[0]
                yield Declaration(str(call.args[0].value), module, summary, file)


def files_of(file: Path) -> list[Path]:
    """A method's file and all files of ours, or of its own folder, that it imports directly or through others."""
    roots = dict.fromkeys(PACKAGES, Path(__file__).parents[1])
    if not any(file.is_relative_to(root / package) for package, root in roots.items()):
        roots[file.parent.name] = file.parents[1]
    waiting, seen = [file], {file}
    while waiting:
        for module in _imports(waiting.pop().read_text(encoding="utf-8")):
            found = _file_of(module, roots)
            if found is not None and found not in seen:
                seen.add(found)
                waiting.append(found)
    return sorted(seen)


def _file_of(module: str, roots: Mapping[str, Path]) -> Path | None:
    """The file of a module, or of the module that a package takes a name from; None where it is not below the roots."""
    package, _, name = module.rpartition(".")
    root = roots.get(module.partition(".")[0])
    if root is None:
        return None
    place = root.joinpath(*module.split("."))
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            return file
    # Not a module, so a name in its package, which may import it on first use.
    exports = place.parent / "__init__.py"
    if package and exports.is_file():
        for source in _imports(exports.read_text(encoding="utf-8"), for_types=True):
            if source != module and source.endswith(f".{name}"):
                return _file_of(source.rpartition(".")[0], roots)
    return None


@cache
def _imports(source: str, *, for_types: bool = False) -> frozenset[str]:
    """The modules that a file's text imports, at the top or inside a function; names in them that may be modules.

    `for_types` includes what it imports for type checkers only.
    """
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING" and not for_types):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found)


M = TypeVar("M", bound=type[Method])

_METHODS: dict[str, type[Method]] = {}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One hyperparameter of a method, as `show` prints it."""

    name: str
    type: str
    default: object
    meaning: str


def register(name: str) -> Callable[[M], M]:
    """Make a frozen dataclass available under a name."""

    def add(method: M) -> M:
        if not (dataclasses.is_dataclass(method) and method.__dataclass_params__.frozen):
            raise TypeError(f"method {name!r}: {method.__name__} must be a frozen dataclass of its hyperparameters")
        known = _METHODS.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (method.__module__, method.__qualname__):
            raise TypeError(f"method {name!r} is registered twice: {known.__module__} and {method.__module__}")
        _METHODS[name] = method
        return method

    return add


def names() -> list[str]:
    """Every method, also those whose optional package is missing; sorted."""
    return sorted({*listed(), *_METHODS, *_entry_points()})


def get(name: str) -> type[Method]:
    """The dataclass registered under a name; its module is imported now."""
    if name not in _METHODS:
        module = listed()[name].module if name in listed() else _entry_points().get(name)
        if module is None:
            raise unknown("method", name, names())
        extra = missing_extra(name)
        if extra:
            raise DataError(f"method {name!r} needs {install_hint(extra)}")
        try:
            importlib.import_module(module)
        except Exception as error:  # a third party's module may raise anything
            raise DataError(f"method {name!r}: its module {module} cannot be imported ({error!r})") from error
        if name not in _METHODS:
            raise DataError(f"method {name!r}: its module {module} does not register it; add @register({name!r})")
    return _METHODS[name]


def build(name: str, **parameters: object) -> Method:
    """A method with these hyperparameters and its defaults for the rest."""
    method = get(name)
    return method(**read_options(method, parameters, where=name))


def packages_of(name: str) -> frozenset[str]:
    """The packages that a method of ours imports; none are known of others."""
    return listed()[name].packages if name in listed() else frozenset()


def missing_extra(name: str) -> str:
    """The extra that a method needs and that is not installed; empty if it can run, if not with every option."""
    absent = [EXTRAS[p] for p in packages_of(name) if p in EXTRAS and importlib.util.find_spec(p) is None]
    return min((extra for extra in absent if extra not in OF_OPTIONS), default="")


def parameters(name: str) -> list[Parameter]:
    """The hyperparameters of a method with type, default and meaning (the comment on its line in the source)."""
    method = get(name)
    comments = _field_comments(method)
    hints = get_type_hints(method)
    try:
        usual: object = method()  # a default may follow from other parameters
    except (DataError, TypeError):
        usual = method
    found = []
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        hint = hints[field.name]
        kind = hint.__name__ if isinstance(hint, type) else str(hint).removeprefix("typing.")
        default = getattr(usual, field.name, field.default)
        found.append(Parameter(field.name, kind, default, comments.get(field.name, "")))
    return found


def summary(name: str) -> str:
    """The first line of a method's docstring; ours are read without importing them."""
    if name in listed() and name not in _METHODS:
        return listed()[name].summary
    return (get(name).__doc__ or "").strip().partition("\n")[0]


def _entry_points() -> dict[str, str]:
    return {point.name: point.module for point in entry_points(group="fedrule.methods")}


def _field_comments(method: type) -> dict[str, str]:
    """Field name -> the comment behind it, its own or inherited; none where there is no source, as in a notebook."""
    comments = {}
    for cls in reversed(method.__mro__):  # a subclass overrides the comments of its parents
        try:
            source = inspect.getsource(cls)
        except (OSError, TypeError):  # TypeError: a class of Python itself
            continue
        for line in source.splitlines():
            code, hash_, comment = line.partition("  # ")
            name, colon, _ = code.strip().partition(":")
            if hash_ and colon and name.isidentifier():
                comments[name] = comment.strip()
    return comments


def fewest_parameters(method: type, full: Mapping[str, object]) -> dict[str, object]:
    """The parameters from which all others follow, as defaults or by a preset."""
    given = dict(full)
    for name in reversed(list(full)):  # options follow from those before them
        others = {other: value for other, value in given.items() if other != name}
        with suppress(DataError, TypeError):
            built = method(**others)
            if all(getattr(built, each) == value for each, value in full.items()):
                given = others
    return given
