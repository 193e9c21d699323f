"""Methods are found by themselves, and a wrong name, parameter or class is answered with what would be right."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import datasets
from baselines import registry
from baselines.method import Method, ignore
from baselines.registry import build, files_of, get, listed, missing_extra, names, parameters, register, summary
from datasets import DataError

A_METHOD = '''
from dataclasses import dataclass
{imports}
from baselines.registry import register


@register("{name}")
@dataclass(frozen=True)
class Found:
    """Scores nothing.

    More of it.
    """

    size: int = 3  # how much of it
    speed: float = 0.5

    def fit(self, train, *, rng, on_round=None):
        return None
'''


pytestmark = pytest.mark.usefixtures("own_registry")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module that registers a method; returns where it is."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(path, *, name, imports=""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(A_METHOD.format(name=name, imports=imports))
        importlib.invalidate_caches()
        return file

    return write


@pytest.fixture
def folder(write, monkeypatch):
    """A folder that is searched, in place of ours."""

    def folder(package):
        write(f"{package}/__init__.py", name=f"of-{package}")
        monkeypatch.setattr(registry, "METHODS", (package,))
        registry.listed.cache_clear()
        return package

    return folder


def test_our_methods_are_there_and_are_methods():
    assert {"ease", "itemknn", "mf", "popularity", "random"} <= set(names())
    assert names() == sorted(names())
    assert isinstance(build("ease"), Method)


def test_a_wrong_name_is_answered_with_the_nearest_right_one():
    with pytest.raises(DataError, match=r"unknown method 'populrity'; did you mean 'popularity'\? Known: .*ease"):
        build("populrity")


def test_a_wrong_parameter_is_answered_with_the_right_ones():
    with pytest.raises(DataError, match=r"unknown parameter of ease 'regularisation'; did you mean 'regularization'"):
        build("ease", regularisation=3.0)
    with pytest.raises(DataError, match="Known: delta, dropout, epsilon, max_rules, ownership, popul"):
        build("ease", factors=3)


def test_parameters_that_are_given_are_kept_and_the_others_are_defaults():
    method = build("itemknn", neighbours=7)
    assert method.neighbours == 7
    assert method.shrinkage == build("itemknn").shrinkage


def test_parameters_are_listed_with_type_default_and_meaning(write):
    write("listed_method.py", name="listed")
    importlib.import_module("listed_method")
    size, speed = parameters("listed")
    assert (size.name, size.type, size.default, size.meaning) == ("size", "int", 3, "how much of it")
    assert (speed.name, speed.type, speed.default, speed.meaning) == ("speed", "float", 0.5, "")
    assert summary("listed") == "Scores nothing."


def test_inherited_parameters_keep_their_meaning_and_a_subclass_may_say_more(write, tmp_path):
    write("parent_method.py", name="parent")
    (tmp_path / "child_method.py").write_text(
        "from dataclasses import dataclass\nfrom baselines.registry import register\nfrom parent_method import Found\n"
        '@register("child")\n@dataclass(frozen=True)\nclass Child(Found):\n    """Another."""\n\n'
        "    size: int = 9\n    speed: float = 0.7  # faster\n"
    )
    importlib.import_module("child_method")
    listed = [(p.name, p.default, p.meaning) for p in parameters("child")]
    assert listed == [("size", 9, "how much of it"), ("speed", 0.7, "faster")]


@pytest.mark.parametrize("name", names())
def test_every_parameter_of_ours_says_what_it_means(name):
    if extra := missing_extra(name):
        pytest.skip(f"{name} needs the extra {extra}")
    assert summary(name)
    assert [p.name for p in parameters(name) if not p.meaning] == []


def test_a_choice_is_listed_with_all_its_values():
    by = next(p for p in parameters("popularity") if p.name == "by")
    assert by.type == "Literal['owners', 'type_pair', 'global']"


def test_a_file_in_a_folder_is_found_by_itself_and_imported_only_when_asked_for(write, folder):
    package = folder("methods_a")
    write(f"{package}/deep/inside.py", name="inside", imports="LOADED = True")
    write(f"{package}/deep/__init__.py", name="deep")
    assert set(names()) >= {"of-methods_a", "inside", "deep"}
    assert "inside" not in registry._METHODS
    assert build("inside", size=4).size == 4
    assert get("inside").__module__ == "methods_a.deep.inside"
    assert get("deep").__module__ == "methods_a.deep"


def test_a_method_whose_package_is_missing_is_listed_with_the_extra_it_needs(write, folder, monkeypatch):
    package = folder("methods_b")
    write(f"{package}/needy.py", name="needy", imports="import implicit")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "implicit" else find(name, *a))
    assert "needy" in names()
    assert missing_extra("needy") == "mf"
    assert missing_extra("of-methods_b") == ""
    with pytest.raises(
        DataError, match=r"method 'needy' needs the extra mf: pip install -c constraints.txt -e \"\.\[mf\]\""
    ):
        build("needy")


@pytest.mark.parametrize(
    ("package", "options", "extra"),
    [
        ("cryptography", {"secure_threshold": 0.7}, "secure"),
        ("opacus", {"epsilon": 2.0, "clip": 0.1, "participation": 0.5}, "private"),
    ],
)
def test_a_package_of_one_option_is_asked_for_with_the_option_and_not_before(package, options, extra, monkeypatch):
    pytest.importorskip("torch", reason="federated methods need the extra graph")
    pytest.importorskip("numba", reason="federated methods need the extra graph")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == package else find(name, *a))
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    assert missing_extra("fedgnn") == ""
    build("fedgnn", rounds=1).fit(small_homes(), rng=np.random.default_rng(0))
    with pytest.raises(DataError, match=rf"needs the extra {extra}: pip install"):
        build("fedgnn", rounds=1, **options).fit(small_homes(), rng=np.random.default_rng(0))


def small_homes():
    return datasets.load("wyze-synthetic", homes=20)


def test_a_module_outside_joins_by_being_imported(write):
    write("elsewhere.py", name="from-elsewhere")
    assert "from-elsewhere" not in names()
    importlib.import_module("elsewhere")
    assert "from-elsewhere" in names()
    assert missing_extra("from-elsewhere") == ""
    assert build("from-elsewhere").size == 3


def test_a_module_outside_joins_by_an_entry_point(write, monkeypatch):
    write("plugged.py", name="plugged-in")
    point = EntryPoint(name="plugged-in", value="plugged", group="fedrule.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    assert "plugged-in" in names()
    assert get("plugged-in").__module__ == "plugged"


def test_a_name_that_is_taken_is_refused_and_the_same_class_may_come_again(write):
    write("first_module.py", name="taken")
    write("second_module.py", name="taken")
    first = importlib.import_module("first_module")
    importlib.reload(first)
    with pytest.raises(TypeError, match=r"'taken' is registered twice: first_module and second_module"):
        importlib.import_module("second_module")


def test_a_class_that_is_no_frozen_dataclass_is_refused():
    class Plain:
        def fit(self, train, *, rng, on_round=ignore): ...

    @dataclass
    class Thawed(Plain):
        size: int = 1

    for wrong in (Plain, Thawed):
        with pytest.raises(TypeError, match=rf"'wrong': {wrong.__name__} must be a frozen dataclass"):
            register("wrong")(wrong)
    assert "wrong" not in names()


def test_a_package_that_is_needed_through_another_file_of_the_folder_counts():
    assert "torch_geometric" in registry.listed()["gcmc"].packages
    assert "torch" not in registry.listed()["ease"].packages


def used(method):
    """The files that a method depends on, by package and path."""
    root = Path(registry.__file__).parents[1]
    return {path.relative_to(root).as_posix() for path in files_of(listed()[method].file)}


def test_the_files_of_a_method_are_all_of_ours_that_it_imports_itself_or_through_others():
    # graphrule -> score -> terms -> counts, which use a module of the baselines and the data's
    ours = {
        "methods/graphrule",
        "methods/graph_method",
        "network/score",
        "network/terms",
        "evidence/counts",
        "__init__",
    }
    graph = {f"fedrule/{name}.py" for name in ours - {"__init__"}}
    assert graph | {"baselines/items.py", "datasets/homes.py", "datasets/negatives.py"} <= used("graphrule")
    assert {"baselines/gcmc.py", "baselines/items.py", "datasets/valid.py"} <= used("gcmc")


def test_the_files_of_a_method_leave_out_what_it_does_not_import():
    assert not any(name.startswith("fedrule/") for name in used("ease"))
    assert "baselines/mf.py" not in used("ease")
    assert "datasets/negatives.py" not in used("ease")
    assert not any(name.startswith("fedrule/serving/") for name in used("fedrule"))


def test_a_name_that_a_package_takes_from_a_module_leads_to_the_module(write):
    file = write("outside/method.py", name="outside", imports="from datasets import Homes, negatives")
    names = {path.relative_to(Path(registry.__file__).parents[1]).as_posix() for path in files_of(file) if path != file}
    assert {"datasets/homes.py", "datasets/negatives.py", "baselines/registry.py"} <= names
    assert "datasets/splits.py" not in names


def test_what_is_imported_for_type_checkers_only_does_not_count(write):
    lines = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import baselines.ease\nimport baselines.itemknn"
    names = {path.name for path in files_of(write("typed/method.py", name="typed", imports=lines))}
    assert "itemknn.py" in names
    assert "ease.py" not in names


def test_a_module_that_does_not_register_its_name_or_fails_is_named(monkeypatch, tmp_path):
    (tmp_path / "silent_module.py").write_text("")
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_entry_points", lambda: {"silent": "silent_module", "broken": "broken_module"})
    with pytest.raises(DataError, match=r"its module silent_module does not register it; add @register\('silent'\)"):
        registry.get("silent")
    with pytest.raises(DataError, match="its module broken_module cannot be imported"):
        registry.get("broken")


@pytest.mark.parametrize("wrong", [{"rounds": 2.5}, {"learning_rate": "x"}, {"hidden": "16"}, {"decay": 3}])
def test_a_parameter_of_the_wrong_type_is_named(wrong):
    (name,) = wrong
    with pytest.raises(DataError, match=f"graphrule.{name}=.*expected"):
        build("graphrule", **wrong)
