"""A page per method: what it is, its numbers beside its paper's, and links there and back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.results.records import STUDIES, STUDY_FORMAT, Confirmation, Study, Trial, write_record
from benchmarks.runs.suite import suites
from datasets.common.training_warnings import TrainingWarning
from reports.inputs import Inputs
from reports.methods import SUITES, by_formulation, page_paths
from reports.outputs import Output
from reports.site import render_method_pages, site
from reports.tables.results import leaderboard
from tests.reports.test_page import Read, visible
from tests.support.made_runs import keep, keep_failure, rounds, run, small_results

LIST = (Output("leaderboard", "Leaderboard", "The list", "table", leaderboard),)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """`small_results`, in which homes of fedrank send something, and a study of ease."""
    folder = small_results(tmp_path_factory.mktemp("results"))
    wrong = (TrainingWarning("diverged", 7, 1, "diverged in round 7"),)
    keep(folder, "fedgnn", 0.12, history=rounds(10, sends=100.0), warnings=wrong, seeds=(0,))
    trials = Trial({}, 0.2, [0.2], 1.0), Trial({"regularization": 9.0}, 0.25, [0.25], 1.0)
    source = {"data": "wyze-synthetic", "options": {}, "track": "types", "split": "holdout", "split_options": {}}
    sources = (source | {"fingerprint": "f" * 16, "metric": "mrr"},)
    made = Study(
        "ease", {}, (100,), (101,), 0, {}, {"regularization": 1.0}, sources, "mrr", trials, Confirmation(*trials)
    )
    write_record(folder / STUDIES / made.file, made, STUDY_FORMAT)
    return folder


@pytest.fixture(scope="module")
def built(results):
    return site(LIST, Inputs.read(results)).files


@pytest.fixture(scope="module")
def pages(built):
    """The text of each page, by the name of its file."""
    return {Path(path).stem: content.decode() for path, content in built.items() if path.startswith("methods/")}


def section(text, anchor):
    """The words of a section."""
    part = text[text.index(f'<section id="{anchor}"') :]
    return visible(part[: part.index("</section>")])


def test_every_method_that_was_run_or_failed_has_a_page(pages):
    assert pages.keys() == {
        "ease",
        "fedgnn",
        "fedrank",
        "gcmc",
        "graphrank",
        "graphrule",
        "popularity",
        "their-b-own-b",
    }


def test_the_leaderboard_links_to_each_page_and_each_page_links_back(built, pages):
    index = built["index.html"].decode()
    board = index[index.index('id="leaderboard"') : index.index('id="page-methods"')]
    linked = set(re.findall(r'<a href="(methods/[^"]+)"', board))
    assert linked == {f"methods/{name}.html" for name in pages} - {"methods/gcmc.html"}  # whose only run failed
    assert '<a href="methods/gcmc.html">gcmc</a>' in index
    for text in pages.values():
        assert '<a href="../index.html#leaderboard">' in text


def test_pages_are_whole_and_their_links_lead_somewhere(built, pages):
    for text in pages.values():
        read = Read(text)
        ids = {attributes["id"] for _, attributes in read.elements if "id" in attributes}
        for link in read.all("a", "href"):
            path, _, anchor = link.partition("#")
            if path == "../index.html":
                assert f'id="{anchor}"' in built["index.html"].decode() or not anchor
            elif path:
                assert f"methods/{path}" in built
            else:
                assert anchor in ids
        assert read.all("script", "src") == []
        assert "url(" not in text


def test_a_page_says_what_the_method_is_and_what_leaves_a_home(pages):
    words = visible(pages["fedrank"])
    assert "Ranks possible rules as graphrank does, trained in the homes" in words
    assert "Formulation evidence ranking" in words
    assert "Trained in the homes, one home per client" in words
    assert "Leaves a home counts of patterns in its rules, once; then updates of their weights" in words
    assert '<a href="graphrank.html">graphrank</a>' in pages["fedrank"]
    assert "Trained with all data in one place Leaves a home all devices and rules" in visible(pages["ease"])


def test_its_numbers_stand_on_each_board_with_interval_place_and_group(pages):
    words = section(pages["ease"], "ranking")
    # On smart homes third of six, less than graphrank in every home; on recipes the first of three.
    assert re.search(
        r"wyze-synthetic 0\.2500 \[0\.\d+, 0\.\d+\] 3 of 6 3 of 6 \S+ graphrank 0\.300 40 2 1\.5 s 100 MB", words
    )
    assert re.search(r"ifttt-synthetic 0\.3500 \[0\.\d+, 0\.\d+\] 1 of 3 1 of 3 \S+ itself 40 2", words)


def test_bytes_are_those_of_the_whole_training(pages):
    # 10 rounds of 100 bytes from each home.
    assert "Sent by a home 1 kB in a whole training" in visible(pages["fedgnn"])
    assert "1 kB" in section(pages["fedgnn"], "ranking")
    assert "sent by a home" not in section(pages["ease"], "ranking")


def test_the_number_of_its_paper_stands_beside_ours_or_is_said_not_to_be_known(pages):
    words = section(pages["graphrule"], "published")
    assert "HR@40 about 0.91 Wyze, private, 76,218 users" in words
    assert "AUC 0.977" in words
    assert "not run in this setting" in words
    assert "no number that its paper reports" in section(pages["ease"], "published")


def test_parameters_have_their_default_and_meaning_tuned_ones_first(pages):
    words = section(pages["ease"], "parameters")
    assert words.index("regularization") < words.index("popularity")
    assert "7 in all" in words
    assert "python -m benchmarks show ease" in words
    assert "Not known without a finished run." in section(pages["gcmc"], "parameters")


def test_a_study_is_told_with_its_trials_best_and_confirmation(pages):
    words = section(pages["ease"], "tuning")
    assert "2 trials on validation rules" in words
    assert "better than the defaults at the time, also on splits that no trial has seen" in words
    assert "0.2000 0.2500 0.0500 0.0500 regularization=9" in words
    assert "No study of it" in section(pages["graphrank"], "tuning")


def test_what_went_wrong_is_told(pages):
    assert "† fedgnn on wyze-synthetic: 1 of 1 seed diverged (seed 0, round 7)" in section(pages["fedgnn"], "warnings")
    assert "MemoryError: 12 GB are not there" in section(pages["gcmc"], "warnings")
    assert "Warnings" not in visible(pages["ease"])


def test_commands_name_the_method_and_suites_that_there_are(pages):
    assert set(SUITES) <= set(suites())
    words = section(pages["fedrank"], "commands")
    for command in (
        "python -m benchmarks show fedrank",
        "python -m benchmarks run default --methods fedrank",
        "python -m benchmarks tune fedrank --suite tuning",
        "python -m benchmarks compare fedrank graphrank",
    ):
        assert command in words


def test_a_method_without_parameters_to_tune_has_no_command_that_tunes_it(tmp_path):
    keep(tmp_path, "random", 0.01)
    (text,) = (content.decode() for content in render_method_pages(Inputs.read(tmp_path)).values())
    assert "It has no parameters to tune." in section(text, "tuning")
    assert "benchmarks tune" not in text


def test_a_method_that_nobody_knows_has_a_page_and_its_name_stays_text(pages):
    text = pages["their-b-own-b"]
    assert "their-<b>" not in text
    assert "A method of another package." in text
    assert "Formulation not known here" in visible(text)
    assert "0.3100" in section(text, "ranking")


def test_commands_of_a_method_of_another_package_are_said_to_need_its_module(pages):
    assert "add --import MODULE to each command" in section(pages["their-b-own-b"], "commands")
    assert not [name for name, text in pages.items() if "--import" in text and name != "their-b-own-b"]


def test_names_that_would_give_one_file_get_two():
    runs = tuple(run(method) for method in ("a/b", "a b", "A-b", "..", "é"))
    paths = page_paths(Inputs(runs=runs))
    assert len({path.lower() for path in paths.values()}) == 5
    assert all(re.fullmatch(r"methods/[\w-][\w.-]*\.html", path, flags=re.ASCII) for path in paths.values())


def test_methods_are_listed_by_formulation_federated_ones_last():
    assert by_formulation(["fcf", "my-own", "mf", "ease"]) == [
        ("user-item, linear", [("ease", False)]),
        ("user-item, factors", [("mf", False), ("fcf", True)]),
        ("other", [("my-own", False)]),
    ]


def test_results_of_different_data_leave_the_rest_of_the_page(tmp_path):
    keep(tmp_path, "graphrule", 0.2)
    keep(tmp_path, "graphrule", 0.2, fingerprint="e" * 16, summary={"hr@40": 0.5}, seeds=(5, 6))
    keep(tmp_path, "graphrule", 0.2, summary={"hr@40": 0.5}, seeds=(7,))
    (text,) = (content.decode() for content in render_method_pages(Inputs.read(tmp_path)).values())
    assert "different data" in section(text, "published")
    assert "graphrule" in text


def test_the_same_results_give_the_same_pages(results, built):
    again = site(LIST, Inputs.read(results)).files
    assert again == built


def test_a_failed_method_alone_has_a_page(tmp_path):
    keep_failure(tmp_path, "gcmc", "ValueError: <none>")
    (text,) = (content.decode() for content in render_method_pages(Inputs.read(tmp_path)).values())
    assert "No run of it is on a leaderboard." in text
    assert "ValueError: &lt;none&gt;" in text
