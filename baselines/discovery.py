"""Which methods the files of our folders register, found by reading them: nothing is imported."""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
    """A method's file and what it imports, itself or through others, of its own folder and of those beside it.

    Beside it are our folders where it is in one of them: methods of fedrule use counts of baselines.
    """
    folders = {path.parent.name, *FOLDERS} if path.parent.name in FOLDERS else {path.parent.name}
    waiting, seen = [path], {path}
    while waiting:
        for module in _imports(waiting.pop().read_text(encoding="utf-8")):
            folder, *rest = module.split(".")
            beside = path.parents[1].joinpath(folder, *rest).with_suffix(".py")
            if folder in folders and beside not in seen and beside.is_file():
                seen.add(beside)
                waiting.append(beside)
    return sorted(seen)


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
