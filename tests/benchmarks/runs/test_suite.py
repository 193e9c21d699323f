"""Suites: what a TOML file asks for, and what it gets told when it is wrong."""

from __future__ import annotations

import logging
from typing import Literal

import pytest

from baselines import registry
from benchmarks.runs.experiment import assignments
from benchmarks.runs.suite import read_examples, read_suite, suites
from datasets.common.errors import DataError
from datasets.common.options import read, read_text
from tests.support.toys import toys

assert toys  # a fixture

pytestmark = pytest.mark.usefixtures("toys")


def suite(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_suite_is_every_method_with_every_seed_on_every_data_set(tmp_path):
    text = """
    methods = ["toy-count", { name = "toy-count", noise = 2 }]
    seeds = 2
    [[data]]
    name = "wyze-synthetic"
    options = { homes = 50 }
    [[data]]
    name = "ifttt-synthetic"
    seeds = [7]
    methods = ["toy-log-odds"]
    track = "instances"
    split = "new_homes"
    split_options = { fraction = 0.5 }
    protocols = ["ranking"]
    """
    found = read_suite(suite(tmp_path, text))
    listed = [(e.method, e.parameters["noise"], e.source.data, e.seed) for e in found]
    assert listed == [
        ("toy-count", 0.1, "wyze-synthetic", 0),
        ("toy-count", 2.0, "wyze-synthetic", 0),
        ("toy-count", 0.1, "wyze-synthetic", 1),
        ("toy-count", 2.0, "wyze-synthetic", 1),
        ("toy-log-odds", 0.1, "ifttt-synthetic", 7),
    ]
    assert found[0].source.options["homes"] == 50
    assert (found[0].source.track, found[0].split, found[0].protocols) == ("types", "holdout", ("ranking", "paper"))
    last = found[-1]
    options = {"fraction": 0.5, "min_pair_count": 1}
    assert (last.source.track, last.split, last.split_options) == ("instances", "new_homes", options)
    assert last.protocols == ("ranking",)


def test_the_command_line_goes_before_the_file(tmp_path):
    path = suite(
        tmp_path, 'methods = [{ name = "toy-count", noise = 2 }]\nseeds = 3\n[[data]]\nname = "ifttt-synthetic"'
    )
    found = read_suite(path, given={"toy-count": {"noise": 5.0}}, seeds=[4])
    assert [(e.method, e.parameters["noise"], e.seed) for e in found] == [("toy-count", 5.0, 4)]
    assert [e.method for e in read_suite(path, methods=["toy-log-odds"], seeds=[0])] == ["toy-log-odds"]


def test_what_is_asked_for_twice_is_one_run(tmp_path):
    text = """
    methods = ["toy-count", { name = "toy-count", noise = 0.1 }, "toy-count"]
    seeds = [1, 1]
    [[data]]
    name = "ifttt-synthetic"
    [[data]]
    name = "ifttt-synthetic"
    """
    assert [(e.method, e.seed) for e in read_suite(suite(tmp_path, text))] == [("toy-count", 1)]


EXAMPLE = """
methods = ["toy-count"]
seeds = [7, 8]
[[data]]
name = "wyze-synthetic"
track = "instances"
example = ["toy-log-odds", { name = "toy-count", noise = 2 }]
[[data]]
name = "ifttt-synthetic"
"""


def test_an_example_is_its_methods_on_merged_types_with_the_first_seed(tmp_path):
    path = suite(tmp_path, EXAMPLE)
    (found,) = read_examples(path)
    assert [(e.method, e.parameters["noise"], e.seed) for e in found] == [
        ("toy-log-odds", 0.1, 7),
        ("toy-count", 2.0, 7),
    ]
    assert {(e.source.data, e.source.track) for e in found} == {("wyze-synthetic", "types")}
    without = suite(tmp_path, "\n".join(line for line in EXAMPLE.splitlines() if "example" not in line))
    assert read_examples(without) == []


def test_an_example_changes_no_run(tmp_path):
    with_it = read_suite(suite(tmp_path, EXAMPLE))
    without = "\n".join(line for line in EXAMPLE.splitlines() if "example" not in line)
    assert with_it == read_suite(suite(tmp_path, without))


def test_an_example_leaves_out_methods_whose_extra_is_missing_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("benchmarks.runs.suite.missing_extra", lambda name: "graph" if name == "toy-log-odds" else "")
    with caplog.at_level(logging.INFO):
        (found,) = read_examples(suite(tmp_path, EXAMPLE))
    assert [e.method for e in found] == ["toy-count"]
    assert "skipped: toy-log-odds needs the extra graph" in caplog.text


def test_all_leaves_out_methods_whose_extra_is_missing_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(registry, "names", lambda: ["toy-count", "toy-log-odds"])
    monkeypatch.setattr("benchmarks.runs.suite.names", registry.names)
    monkeypatch.setattr("benchmarks.runs.suite.missing_extra", lambda name: "graph" if name == "toy-log-odds" else "")
    with caplog.at_level(logging.INFO):
        found = read_suite(suite(tmp_path, 'methods = "all"\nseeds = 1\n[[data]]\nname = "ifttt-synthetic"'))
    assert [e.method for e in found] == ["toy-count"]
    assert "skipped: toy-log-odds needs the extra graph" in caplog.text


def test_optional_data_that_is_not_there_is_left_out_with_a_word(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path))
    text = 'methods = ["toy-count"]\n[[data]]\nname = "ifttt-fedrule"\n'
    with caplog.at_level(logging.INFO):
        assert read_suite(suite(tmp_path, text + "optional = true")) == []
    assert "skipped: ifttt-fedrule" in caplog.text
    with pytest.raises(DataError, match="does not exist"):
        read_suite(suite(tmp_path, text))[0].source.load()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("seed = 3\n[[data]]\nname='ifttt-synthetic'", "'seed'; did you mean 'seeds'"),
        ("[[data]]\nname='ifttt-synthetic'\nhoems = 3", "data 'ifttt-synthetic' 'hoems'"),
        (
            "[[data]]\nname='wyze-synthetic'\nhomes = 3",
            "data 'wyze-synthetic': homes is an option of the data set; write options = { homes = 3 }",
        ),
        ("[[data]]\nname='ifttt-sinthetic'", "did you mean 'ifttt-synthetic'"),
        ("[[data]]\nname='ifttt-synthetic'\noptions = { hoems = 3 }", "did you mean 'homes'"),
        ("[[data]]\nname='ifttt-synthetic'\noptions = 3", "options=3: expected a mapping"),
        ("[[data]]\noptional = true", "name is missing"),
        ("example = ['toy-count']\n[[data]]\nname='ifttt-synthetic'", "'example'"),
        ("[[data]]\nname='ifttt-synthetic'\nexample = 'toy-count'", "example='toy-count': expected a list"),
        ("seeds = 2", "name at least one data set"),
        ("data = ['ifttt-synthetic']", "data sets are tables, written [[data]]"),
        (
            "seeds = 0\n[[data]]\nname='ifttt-synthetic'",
            "seeds must be their number or a list of whole numbers, 0 or more; got 0",
        ),
        ("seeds = [-1]\n[[data]]\nname='ifttt-synthetic'", "0 or more; got [-1]"),
        ("methods = ['toy-cuont']\n[[data]]\nname='ifttt-synthetic'", "did you mean 'toy-count'"),
        ("methods = [{ name = 'toy-count', nosie = 1 }]\n[[data]]\nname='ifttt-synthetic'", "did you mean 'noise'"),
        ("methods = [3]\n[[data]]\nname='ifttt-synthetic'", 'a method is written "mf" or'),
        ("methods = []\n[[data]]\nname='ifttt-synthetic'", "methods is empty"),
        ("protocols = []\n[[data]]\nname='ifttt-synthetic'", "protocols is empty"),
        (
            "seeds = true\n[[data]]\nname='ifttt-synthetic'",
            "seeds=True: expected int (a whole number) or a list of int",
        ),
        ("[data]\nname='ifttt-synthetic'", "data sets are tables, written [[data]]"),
        ("this is not TOML", "mine.toml: "),
    ],
)
def test_a_wrong_suite_is_answered_with_what_would_be_right(tmp_path, text, complaint):
    if "methods" not in text:
        text = f"methods = ['toy-count']\n{text}"
    with pytest.raises(DataError) as error:
        read_suite(suite(tmp_path, text))
    assert complaint in str(error.value)


def test_no_method_on_the_command_line_is_nothing_to_run():
    with pytest.raises(DataError, match="methods is empty"):
        read_suite("smoke", methods=[])


def test_a_suite_that_is_not_there_is_answered_with_those_that_are(tmp_path):
    with pytest.raises(DataError, match="unknown suite 'smok'; did you mean 'smoke'"):
        read_suite("smok")
    with pytest.raises(DataError, match="no such file"):
        read_suite(str(tmp_path / "none.toml"))


@pytest.mark.parametrize("name", sorted(suites()))
def test_every_suite_of_ours_can_be_read(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path))
    found = read_suite(name, methods=["toy-count"])
    assert "wyze-synthetic" in {e.source.data for e in found}  # without files of others there is something to run


COMPARED = ("graphrule", "graphrank", "fedgnn", "fedrule", "mf", "gcmc", "ease", "popularity")


def test_the_suite_of_the_papers_size_has_what_the_paper_compares_and_what_we_recommend(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path))
    found = read_suite("paper")
    assert {e.source.options["preset"] for e in found} == {"paper"}
    for track in ("types", "instances"):
        assert {*COMPARED, "fedrank"} == {e.method for e in found if e.source.track == track}
    assert {"graphrule", "fedgnn", "fedrule"} == {e.method for e in found if e.curves}
    ((_, *_),) = read_examples("paper")


@pytest.mark.parametrize("name", ["smoke", "default"])
def test_the_suites_of_the_report_have_all_that_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path))
    found = read_suite(name)
    plain = {(e.source.data, e.method) for e in found if e.source.track == "types" and not e.curves}
    assert {("wyze-synthetic", m) for m in registry.names()} <= plain
    # In `smoke` only those that the paper's figures show, and what they are held against.
    assert {("ifttt-synthetic", m) for m in (COMPARED if name == "smoke" else registry.names())} <= plain
    curves = [e for e in found if e.curves]
    for data, track in (("wyze-synthetic", "types"), ("ifttt-synthetic", "types"), ("wyze-synthetic", "instances")):
        methods = {e.method for e in curves if (e.source.data, e.source.track) == (data, track)}
        assert {"graphrule", "fedgnn", "fedrule"} <= methods
    assert {"sage", "gcn", "gat"} == {e.parameters["encoder"] for e in curves if e.method == "graphrule"}
    for method in ("fedgnn", "fedrule"):
        assert {0.1, 1.0} <= {e.parameters["learning_rate"] for e in curves if e.method == method}
    ((_, *_),) = read_examples(name)


def test_settings_on_the_command_line_take_the_type_of_their_parameter():
    texts = ["toy-count.rounds=2", "toy-count.noise=3", "toy-large.megabytes=1"]
    assert assignments(texts) == {"toy-count": {"rounds": 2, "noise": 3.0}, "toy-large": {"megabytes": 1}}
    assert type(assignments(texts)["toy-count"]["noise"]) is float
    assert read_text(tuple[int, ...], "16, 32", where="x") == (16, 32)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("toy-count.nosie=2", "unknown parameter of toy-count 'nosie'; did you mean 'noise'"),
        ("toy-cuont.noise=2", "unknown method 'toy-cuont'; did you mean 'toy-count'"),
        ("toy-count.rounds=many", "toy-count.rounds='many': expected int"),
        ("noise=2", "write METHOD.PARAMETER=VALUE"),
        ("toy-count.noise", "write METHOD.PARAMETER=VALUE"),
    ],
)
def test_a_wrong_setting_is_answered_with_what_would_be_right(text, complaint):
    with pytest.raises(DataError) as error:
        assignments([text])
    assert complaint in str(error.value)


def test_values_of_files_are_held_to_the_type_of_their_parameter():
    assert read(tuple[int, ...], [16, 32], where="x") == (16, 32)
    assert read(int | None, None, where="x") is None
    assert read(float, "inf", where="x") == float("inf")
    assert read(tuple[float, ...] | None, [1, 2], where="x") == (1.0, 2.0)
    assert read(Literal["a", "b"] | None, "a", where="x") == "a"
    for value, annotation in ((True, int), ("1", int), (1.5, int), (None, float), (1, str)):
        with pytest.raises(DataError, match="expected"):
            read(annotation, value, where="x")
