"""The page needs its own folder only, says what is missing, and cannot be broken by what results say."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.figures import ranking as hit_rates
from reports.findings.questions import findings
from reports.inputs import Inputs
from reports.outputs import About, Cell, Missing, Output, Table
from reports.site import render_page, site
from tests.support.made_runs import run, small_results

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
NOT_CLOSED = {"meta", "link", "source", "img", "br", "input"}


class Read(HTMLParser):
    """Every element with its attributes, and that all are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in NOT_CLOSED:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def all(self, tag, name):
        """An attribute of every element of a kind that has it."""
        return [attributes[name] for each, attributes in self.elements if each == tag and name in attributes]


def board(_):
    about = About("Best first & <last>.", ("0.json", "1.json", "data/2.json"), "python -m benchmarks run smoke")
    return Table(("method", "MRR"), ((Cell("a<b"), Cell("0.5", 0.5)),), about, sortable=True)


def noted(_):
    return Table(("x",), ((Cell("1"),),), About("Notes.", ("0.json",), "run", tuple(f"note {n}" for n in range(6))))


def nothing(_):
    raise Missing("no runs of <gcmc>", "python -m benchmarks run paper")


OUTPUTS = (
    Output("hit-rate", "Hit rate", "The list", "figure", hit_rates.formulations),
    Output("noted", "With notes", "The rest", "table", noted),
    Output("leaderboard", "Leaderboard", "The list", "table", board),
    Output("lost", "Lost & gone", "The rest", "figure", nothing),
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return Inputs.read(small_results(tmp_path_factory.mktemp("results")))


@pytest.fixture(scope="module")
def built(inputs):
    return site(OUTPUTS, inputs)


@pytest.fixture(scope="module")
def text(built):
    return built.files["index.html"].decode()


def visible(text):
    """The words of a piece of the page without its marks."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_the_page_is_whole_and_its_links_lead_somewhere(text, built):
    read = Read(text)
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    inside = {link[1:] for link in read.all("a", "href") if link.startswith("#")}
    assert inside <= set(ids)
    assert {
        "page-findings",
        "page-summary",
        "leaderboard",
        "page-missing",
        "page-contents",
        "page-foot",
        "hit-rate",
    } <= inside
    beside = {link for link in read.all("a", "href") if not link.startswith("#")}
    assert beside == set(built.files) - {"index.html"}


def test_nothing_is_fetched_but_figures_of_the_same_folder(text, built):
    read = Read(text)
    assert {*read.all("img", "src"), *read.all("source", "srcset")} <= set(built.files)
    assert read.all("link", "href") == ["data:,"]
    assert read.all("script", "src") == []
    assert "url(" not in text
    assert "@import" not in text


def test_a_figure_is_there_for_both_widths_with_its_words(text, built):
    read = Read(text)
    ((tag, phone), (image, wide)) = [each for each in read.elements if each[0] in ("source", "img")]
    assert (tag, image) == ("source", "img")
    assert phone["media"] == "(max-width: 640px)"
    # 3.9 inches at 96 pixels an inch are 374; two panels side by side are 8.4 inches, 806 pixels.
    assert (int(phone["width"]), int(wide["width"])) == (374, 806)
    assert wide["alt"].startswith("Hit rate. On wyze-synthetic graphrank has a hit rate of ")
    assert (phone["srcset"], wide["src"]) == ("figures/hit-rate-phone.svg", "figures/hit-rate.svg")
    assert {phone["srcset"], wide["src"]} <= set(built.files)


def test_findings_come_first_as_a_sentence_each_with_its_numbers_or_what_makes_them(text):
    part = text[text.index('id="page-findings"') : text.index('id="page-summary"')]
    assert part.count("<dt>") == 10
    assert '<div id="finding-federation">' in part
    words = visible(part)
    # 0.27 / 0.30 = 90 % in the mean of the made-up homes, of which no two are the same.
    assert "3. What federation costs fedrank has 90 % [" in words
    assert "The numbers MRR of a federated method as a share of that of its central twin" in words
    assert "More: python -m benchmarks compare fedrank graphrank" in words
    assert part.count('<p class="headline">') == 2  # of formulation and of federation
    assert 'aria-label="What federation costs, table 1, scrolls sideways"' in part
    assert "These results do not say: no method was ranked on wyze-synthetic at more than one size" in words
    assert "How to get it python -m benchmarks run sizes" in words
    assert "--results published" not in part


def test_an_interval_is_never_broken_between_its_brackets(text):
    part = text[text.index('id="page-findings"') : text.index('id="page-summary"')]
    intervals = re.findall(r"\[\d[^]]*\]", part)
    assert intervals
    assert all("\N{NO-BREAK SPACE}" in each and " " not in each for each in intervals)


def test_the_leaderboard_comes_right_after_the_summary_and_what_is_missing_at_the_end(text):
    order = [
        "page-findings",
        "page-summary",
        "leaderboard",
        "page-contents",
        "section-the-list",
        "hit-rate",
        "section-the-rest",
        "noted",
        "page-glossary",
        "page-missing",
    ]
    positions = [text.index(f' id="{name}"') for name in order]
    assert positions == sorted(positions)
    assert text.count('id="leaderboard"') == 1


def test_what_is_missing_is_named_with_its_reason_and_remedy(text):
    part = text[text.index('id="page-missing"') :]
    words = visible(part)
    assert "Lost &amp; gone : no runs of &lt;gcmc&gt; To get it: python -m benchmarks run paper" in words
    assert "gcmc on wyze-synthetic, types, ranking, seed 0: MemoryError: 12 GB are not there" in words
    assert "Traceback" not in words
    assert "broken.json : " in words


def test_a_page_that_lacks_nothing_says_so(inputs):
    whole = render_page(Inputs(inputs.runs), []).decode()
    assert "Nothing: every figure and table is here, no run failed and every file could be read." in whole
    assert "Nothing: every figure" not in render_page(inputs, []).decode()


def test_an_output_says_how_to_make_it_again_and_of_what(text):
    part = text[text.index('id="leaderboard"') : text.index('id="page-contents"')]
    assert "Made from 2 runs and 1 other file; how to reproduce it" in visible(part)
    assert "<code>python -m reports.build --no-run --only leaderboard</code>" in part
    assert "<code>python -m benchmarks run smoke</code>" in part
    assert "Names of the files: under leaderboard in manifest.json" in visible(part)


def test_many_notes_are_folded_and_none_is_lost(text):
    part = text[text.index('id="noted"') :]
    assert re.findall(r"<li>(note \d)</li>", part) == [f"note {n}" for n in range(6)]
    assert part.index("note 2<") < part.index("3 more notes") < part.index("note 3<")


def test_what_results_say_cannot_become_part_of_the_page(text):
    assert "a&lt;b</td>" in text
    assert "Best first &amp; &lt;last&gt;." in text
    assert "their-<b>" not in text
    assert "their-&lt;b&gt;own&lt;/b&gt;" in text  # in the summary, as a method


def test_the_foot_says_when_and_with_what_the_runs_were_made(text):
    foot = visible(text[text.index("<footer") :])
    # Seeds 0 and 1 were written on the 10th and the 11th.
    assert "oldest run 2026-11-10T10:00:00+00:00 newest run 2026-11-11T10:00:00+00:00 commit 0123456789" in foot
    assert "numpy 2.4.6 python 3.11.7" in foot


def test_commits_are_listed_as_the_environment_lists_them():
    runs = tuple(run("ease", seed, commit="0123456789abcdef" + more) for seed, more in ((0, ""), (1, " with changes")))
    foot = visible(render_page(Inputs(runs), []).decode())
    assert "commit 0123456789ab, 0123456789ab with changes" in foot


def test_the_top_says_how_to_cite_and_on_which_lists_methods_were_run(text):
    head = visible(text[text.index("<header") : text.index("</header>")])
    version = tomllib.loads(PROJECT.read_text())["project"]["version"]
    assert "To cite: The fedrule maintainers. fedrule: a benchmark suite and system for rule recommendation" in head
    assert f"app automation, version {version}." in head
    data = visible(text[text.index('id="page-data"') : text.index('id="leaderboard"')])
    assert "wyze-synthetic synthetic 40 " in data
    assert "ifttt-synthetic synthetic 40 " in data


def test_the_summary_is_left_out_where_half_of_the_findings_are_known(inputs, monkeypatch):
    answers = findings(inputs)
    known = [replace(answer, sources=("0.json",)) for answer in answers[:5]]
    monkeypatch.setattr("reports.site.findings", lambda _: [*known, *answers[5:]])
    assert sum(answer.known for answer in [*known, *answers[5:]]) >= 5
    page = render_page(inputs, []).decode()
    assert "page-summary" not in page
    assert 'id="page-findings"' in page


def test_what_stands_between_backticks_is_code_in_notes_and_captions():
    about = About("Made by `run`.", ("0.json",), "run", ("See `tune`.",))
    output = Output("coded", "Coded", "The rest", "table", lambda _: Table(("x",), ((Cell("1"),),), about))
    page = site((output,), Inputs()).files["index.html"].decode()
    assert "<li>See <code>tune</code>.</li>" in page
    assert "Made by <code>run</code>." in page


def test_the_same_results_give_the_same_page(text, inputs):
    again = Inputs(inputs.runs, inputs.failed, unreadable=inputs.unreadable)
    assert site(OUTPUTS, again).files["index.html"].decode() == text


def test_a_page_of_nothing_is_a_page():
    empty = render_page(Inputs(), []).decode()
    Read(empty)
    assert "No run has finished." in empty
    assert "No method has been run yet" in empty
