"""The methods by name: a dict, a decorator and two good errors.

A method is a frozen dataclass of hyper-parameters under `@register("name")`. Files in baselines/ and fedrule/ are found
by reading their decorators, so that listing imports nothing and a missing optional package is a line in the list and
not an import error. A module outside joins by being imported (`--import my_module`), or by itself through an entry
point of the group "fedrule.methods".
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar, get_type_hints

from baselines.method import Method
from datasets.common.cli import EXTRAS
from datasets.common.errors import DataError, unknown
from datasets.common.options import read_options

# --- Which methods the files of our folders register, found by reading them: nothing is imported.

FOLDERS = ("baselines", "fedrule")


@dataclass(frozen=True, slots=True)
class Listed:
    """A method as its file declares it."""

    name: str
    module: str
    summary: str  # the first line of its docstring
    packages: frozenset[str]  # what its file imports


@cache
def listed() -> dict[str, Listed]:
    """Every `@register("name")` in our folders, by name."""
    found: dict[str, Listed] = {}
    for folder in FOLDERS:
        for root in importlib.util.find_spec(folder).submodule_search_locations or ():  # type: ignore[union-attr]
            for path in sorted(Path(root).rglob("*.py")):
                module = ".".join([folder, *path.relative_to(root).with_suffix("").parts])
                found |= {method.name: method for method in _declared(path, module.removesuffix(".__init__"))}
    return found


def _declared(path: Path, module: str) -> list[Listed]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    classes = [(node, name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for name in _names(node)]
    if not classes:
        return []
    packages = _needed(path)
    return [
        Listed(name, module, (ast.get_docstring(node) or "").partition("\n")[0], packages) for node, name in classes
    ]


def _names(node: ast.ClassDef) -> list[str]:
    """The names under which a class is registered."""
    calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return [
        str(call.args[0].value)
        for call in calls
        if getattr(call.func, "id", getattr(call.func, "attr", "")) == "register"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]


def files_of(path: Path) -> list[Path]:
    """A method's file and what it imports, directly or through others, of its package; of both ours if it is in one."""
    package = next((folder for folder in path.parents if folder.name in FOLDERS), path.parent)
    packages = FOLDERS if package.name in FOLDERS else (package.name,)
    waiting, seen = [path], {path}
    while waiting:
        for module in _imports(waiting.pop().read_text(encoding="utf-8")):
            file = package.parent.joinpath(*module.split(".")).with_suffix(".py")
            if module.partition(".")[0] in packages and file not in seen and file.is_file():
                seen.add(file)
                waiting.append(file)
    return sorted(seen)


def code_of(method: type) -> str:
    """12 hex digits that change with a method's file and those of our packages that it imports, see `files_of`.

    Empty where there is no such file, as in a notebook. `datasets` is not included: homes have a fingerprint, but a
    change in how negatives are drawn is not noticed.
    """
    try:
        files = files_of(Path(inspect.getfile(method)))
        content = [part for file in files for part in (file.name.encode(), file.read_bytes())]
    except (OSError, TypeError, SyntaxError):
        return ""
    return hashlib.sha256(b"\0".join(content)).hexdigest()[:12]


def _needed(path: Path) -> frozenset[str]:
    """The packages that a file imports, itself or through other files of ours."""
    texts = (file.read_text(encoding="utf-8") for file in files_of(path))
    return frozenset(module.partition(".")[0] for text in texts for module in _imports(text))


@cache
def _imports(source: str) -> frozenset[str]:
    """The modules that a file's text imports, at the top or inside a function; names in them that may be modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


M = TypeVar("M", bound=type[Method])

_METHODS: dict[str, type[Method]] = {}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One hyper-parameter of a method, as `show` prints it."""

    name: str
    type: str
    default: object
    meaning: str


def register(name: str) -> Callable[[M], M]:
    """Make a frozen dataclass available under a name."""

    def add(method: M) -> M:
        if not (dataclasses.is_dataclass(method) and method.__dataclass_params__.frozen):
            raise TypeError(f"method {name!r}: {method.__name__} must be a frozen dataclass of its hyper-parameters")
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
            raise DataError(f'method {name!r} needs the extra {extra}: pip install "fedrule[{extra}]"')
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever a module of somebody else does when it is imported
            raise DataError(f"method {name!r}: its module {module} cannot be imported ({error!r})") from error
        if name not in _METHODS:
            raise DataError(f"method {name!r}: its module {module} does not register it; add @register({name!r})")
    return _METHODS[name]


def build(name: str, **parameters: object) -> Method:
    """A method with these hyper-parameters and its defaults for the rest."""
    method = get(name)
    return method(**read_options(method, parameters, where=name))


def missing_extra(name: str) -> str:
    """The extra that a method needs and that is not installed; empty if it can run."""
    packages = listed()[name].packages if name in listed() else frozenset()
    absent = [EXTRAS[p] for p in packages if p in EXTRAS and importlib.util.find_spec(p) is None]
    return min(absent, default="")


def parameters(name: str) -> list[Parameter]:
    """The hyper-parameters of a method with type, default and meaning (the comment on its line in the source)."""
    method = get(name)
    comments = _field_comments(method)
    hints = get_type_hints(method)
    found = []
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        hint = hints[field.name]
        kind = hint.__name__ if isinstance(hint, type) else str(hint).removeprefix("typing.")
        found.append(Parameter(field.name, kind, field.default, comments.get(field.name, "")))
    return found


def summary(name: str) -> str:
    """The first line of a method's docstring; ours are read without importing them."""
    if name in listed() and name not in _METHODS:
        return listed()[name].summary
    return (get(name).__doc__ or "").strip().partition("\n")[0]


def _entry_points() -> dict[str, str]:
    return {point.name: point.module for point in entry_points(group="fedrule.methods")}


def _field_comments(method: type) -> dict[str, str]:
    """Field name -> the comment behind it, its own or inherited; none where the source is gone, as in a notebook."""
    comments = {}
    for cls in reversed(method.__mro__):  # what a subclass says of a field goes before what its parent says
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
