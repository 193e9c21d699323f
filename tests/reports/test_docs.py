"""What README.md and docs/ show of the results is made from them, and an edit by hand is noticed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from datasets.common.errors import DataError
from reports import docs, outputs
from reports.docs import blocks_text, digest, docs_files
from reports.figures import leaderboard as leaderboards
from reports.inputs import PLACES, Inputs
from reports.outputs import MAKE_DOCS, About, Cell, Missing, Output, Table
from reports.readme import SECTION
from reports.tables.formulations import formulations
from reports.text.formats import NONE
from tests.support.made_runs import keep, small_results

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"


def table(inputs):
    """One row, and notes of which the second is that of another table too."""
    return Table(("method", "MRR"), ((Cell("a_b"), Cell("0.5", 0.5)),), about(inputs, "Of a_b.", "Only here.", "Both."))


def other_table(inputs):
    return Table(("x",), ((Cell("1", 1.0),),), about(inputs, "The other.", "Both."))


def about(inputs, caption, *notes):
    return About(caption, tuple(sorted(f"{run.key.hash}.json" for run in inputs.runs)), "run", notes)


def nothing(_):
    raise Missing("no runs of `gcmc` & co.", "python -m benchmarks run paper")


def mixed(_):
    raise DataError("wyze: results of different data")


@pytest.fixture(autouse=True)
def named(monkeypatch):
    """Outputs by their names, whatever else is registered."""
    shown = (
        Output("leaderboard-intervals", "Intervals", "The list", "figure", leaderboards.intervals),
        *(Output(name, name, "Tables", "table", make) for name, make in TABLES.items()),
    )
    for module in (outputs, docs):
        monkeypatch.setattr(module, "all_outputs", lambda: shown)
    return shown


TABLES = {"ratios": table, "encoders": other_table, "nothing": nothing, "mixed": mixed}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "README.md").write_text(f"# Ours\n\nBefore.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    return tmp_path


def add_page(root, *names, name="page.md", content="old\n"):
    """A page with blocks of these names, and text around them."""
    (root / "docs").mkdir(exist_ok=True)
    blocks = "\nBetween.\n\n".join(f"<!-- {each}: begin -->\n{content}<!-- {each}: end -->\n" for each in names)
    (root / "docs" / name).write_text(f"# A page\n\n{blocks}\nAfter.\n")
    return root / "docs" / name


def block_of(text, name="leaderboard"):
    """The text of a block."""
    (found,) = [text[block.begin : block.end] for block in docs.blocks_of(text, "page") if block.name == name]
    return found


@pytest.fixture
def inputs(tmp_path):
    return Inputs.read(small_results(tmp_path / "results"))


def write(files):
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_the_lists_stand_between_the_markers_and_the_rest_is_left_alone(root, inputs):
    files = docs_files(inputs, root)
    assert sorted(str(path.relative_to(root)) for path in files) == [
        "README.md",
        "docs/report/leaderboard.md",
        "docs/report/leaderboard.svg",
        "docs/report/manifest.json",
    ]
    text = files[root / "README.md"].decode()
    assert text.startswith(f"# Ours\n\nBefore.\n\n{BEGIN}\n")
    assert text.endswith(f"\n{END}\n\nAfter.\n")
    assert "old" not in block_of(text).split()
    # 8 methods of two seeds; the newest was written on the 11th.
    assert f"Made by `{MAKE_DOCS}` from 16 runs, the newest of 2026-11-11 (2 seeds each)." in text
    assert "| method | formulation | wyze-synthetic (40 homes): MRR | ifttt-synthetic (40 homes): MRR |" in text
    assert "Brackets: 95 % interval over homes and seeds." in text
    lines = text.splitlines()
    first = next(line for line in lines if line.startswith("| graphrank |"))
    fields = [field.strip() for field in first.strip("|").split("|")]
    value, low, high = map(float, re.findall(r"[0-9.]+", fields[2]))
    assert (value, fields[1], fields[3:]) == (0.3, "graph", [NONE])  # it was not run on recipes
    assert fields[2].startswith("**0.300")
    assert "| fedrank | graph, federated | " in text
    everything = files[root / "docs" / "report" / "leaderboard.md"].decode()
    assert re.findall("^## (.*)$", everything, re.MULTILINE) == [
        "wyze-synthetic (40 homes)",
        "ifttt-synthetic (40 homes)",
    ]
    assert re.search(
        r"\| graphrank \| \*\*0\.300 .*\*\* \| 0\.000 \| 0\.599 \| 0\.300 \|", everything
    )  # 0.3 * 10^0.3 = 0.5986
    assert 0.28 <= low < 0.3 < high <= 0.32  # no home has less than 0.28 or more than 0.32
    assert "](docs/report/leaderboard.svg)" in text
    assert "](docs/report/leaderboard.md)" in text


def test_the_readme_has_the_best_of_each_formulation_and_the_papers_methods_and_the_full_table_all(root, tmp_path):
    others = {"rotate": 0.15, "complex": 0.14, "fedrank": 0.03} | {f"toy-{n}": 0.2 - n / 100 for n in range(12)}
    for method, mean in {"graphrank": 0.3, "graphrule": 0.05, "fedrule": 0.04, "popularity": 0.06, **others}.items():
        keep(tmp_path / "many", method, mean)
    files = docs_files(Inputs.read(tmp_path / "many"), root)

    def methods(text):
        return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][2:]

    # The best graph method, knowledge graph and federated one; the paper's methods and popularity.
    shown = ["graphrank", "rotate", "popularity", "graphrule", "fedrule"]
    assert methods(files[root / "README.md"].decode()) == shown
    assert len(methods(files[root / "docs" / "report" / "leaderboard.md"].decode())) == 19


def test_the_tables_of_formulations_stand_on_a_page_of_their_own_each_note_once(root, inputs, monkeypatch, named):
    tables = [
        Output(role.name, role.title, SECTION, "table", lambda inputs, role=role: formulations(inputs, role))
        for role in PLACES
    ]
    everything = (*named, *tables)
    for module in (outputs, docs):
        monkeypatch.setattr(module, "all_outputs", lambda: everything)
    files = docs_files(inputs, root)
    page = files[root / "docs" / "report" / "formulations.md"].decode()
    assert "central beside federated: [docs/report/formulations.md](" in files[root / "README.md"].decode()
    # The made-up results are of synthetic homes and recipes; what was not run has no table.
    assert re.findall("^## (.*)$", page, re.MULTILINE) == ["Smart homes", "Synthetic recipes"]
    assert "| evidence ranking | graphrank | **0.3000 " in page
    assert page.count("Federated / central: on common seeds") == 1
    listed = json.loads(files[root / "docs" / "report" / "manifest.json"])["files"]["docs/report/formulations.md"]
    names = sorted(f"{run.key.hash}.json" for run in inputs.runs)
    assert (listed["sources"], listed["sources digest"]) == (len(names), digest("\n".join(names).encode()))


def test_what_is_written_is_up_to_date_and_stays_the_same(root, inputs):
    files = docs_files(inputs, root)
    write(files)
    assert docs_files(inputs, root) == files
    assert disagreeing(root) == []


def test_an_edit_by_hand_is_noticed(root, inputs):
    write(docs_files(inputs, root))
    path = root / "README.md"
    path.write_text(path.read_text().replace("| graphrank | graph | **0.300", "| graphrank | graph | **0.900"))
    assert disagreeing(root) == ["README.md"]
    figure = root / "docs" / "report" / "leaderboard.svg"
    figure.write_bytes(figure.read_bytes() + b" ")
    assert disagreeing(root) == ["README.md", "docs/report/leaderboard.svg"]


def test_the_manifest_counts_the_runs_behind_each(root, inputs):
    manifest = json.loads(docs_files(inputs, root)[root / "docs" / "report" / "manifest.json"])
    assert manifest["command"] == MAKE_DOCS
    assert manifest["files"]["README.md"]["sources"] == len(inputs.runs)
    assert all(each["sources"] for each in manifest["files"].values())


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_the_markers_is_an_error_that_names_them(root, inputs, text):
    (root / "README.md").write_text(text)
    with pytest.raises(DataError, match=r"README\.md: .* <!-- leaderboard: begin --> and <!-- leaderboard: end -->"):
        docs_files(inputs, root)


def test_without_results_the_command_is_named(root):
    with pytest.raises(DataError, match=r"no finished run.*python -m benchmarks run default"):
        docs_files(Inputs(), root)


def test_a_figure_that_cannot_be_made_is_named(root):
    keep(root / "results", "graphrule", 0.9, protocol="paper", metric="auc")
    with pytest.raises(DataError, match=r"README\.md shows leaderboard-intervals: no.*To get it: python"):
        docs_files(Inputs.read(root / "results"), root)


def test_a_table_stands_in_its_block_with_caption_notes_and_the_command_that_makes_it(root, inputs):
    page = add_page(root, "ratios", "encoders")
    text = docs_files(inputs, root)[page].decode()
    assert block_of(text, "ratios") == (
        "\nOf a\\_b.\n\n| method | MRR |\n| --- | ---: |\n| a\\_b | 0.5 |\n\n"
        "Only here. Both. From 16 runs: `python -m reports.build --no-run --results published --only ratios`\n"
    )
    # A note that a block above has is left out.
    assert block_of(text, "encoders").endswith(
        "| 1 |\n\nFrom 16 runs: `python -m reports.build --no-run --results published --only encoders`\n"
    )
    assert text.startswith("# A page\n\n<!-- ratios: begin -->\n")
    assert text.endswith("<!-- encoders: end -->\n\nAfter.\n")


def test_a_table_of_other_files_than_runs_says_so(root, inputs, monkeypatch):
    def measured(_):
        return Table(
            ("x",), ((Cell("1", 1.0),),), About("Of speed.", ("speed/m/0001.json", "speed/m/0002.json"), "run")
        )

    shown = (
        Output("leaderboard-intervals", "", "", "figure", leaderboards.intervals),
        Output("m", "", "", "table", measured),
    )
    for module in (outputs, docs):
        monkeypatch.setattr(module, "all_outputs", lambda: shown)
    page = add_page(root, "m")
    text = docs_files(inputs, root)[page].decode()
    assert "\n\nFrom 2 files of speed/: `python -m reports.build --no-run --results published --only m`" in text


def test_a_figure_stands_in_its_block_as_a_picture_beside_the_page(root, inputs):
    page = add_page(root, "leaderboard-intervals")
    files = docs_files(inputs, root)
    assert "![Intervals](report/leaderboard-intervals.svg)" in files[page].decode()
    assert files[root / "docs/report/leaderboard-intervals.svg"].startswith(b"<?xml")


def test_what_is_missing_is_a_sentence_with_the_command(root, inputs):
    page = add_page(root, "nothing", "mixed")
    text = docs_files(inputs, root)[page].decode()
    assert block_of(text, "nothing") == (
        "\nNot among the published results: no runs of `gcmc` &amp; co. To get it: `python -m benchmarks run paper`, "
        "then `python -m benchmarks publish`.\n"
    )
    assert "wyze: results of different data. To get it: `python -m reports.build" in block_of(text, "mixed")


def test_findings_have_a_number_each_and_the_command_on_published_results(root, inputs):
    page = add_page(root, "findings")
    found = block_of(docs_files(inputs, root)[page].decode(), "findings")
    headings = re.findall(r"^## (\d+)\. ", found, re.MULTILINE)
    assert headings == [str(number) for number in range(1, 11)]
    assert "\n    python -m benchmarks compare fedrank graphrank --results published\n" in found
    assert "These results do not say: no method was ranked on wyze-synthetic at more than one size" in found
    assert "**" not in found[found.index("## 6.") : found.index("## 7.")]
    assert "\n    python -m benchmarks run sizes\n" in found  # makes what is missing


def test_a_finding_is_a_sentence_in_bold_with_its_numbers_folded_below(root, inputs):
    page = add_page(root, "findings")
    found = block_of(docs_files(inputs, root)[page].decode(), "findings")
    part = found[found.index("## 3.") : found.index("## 4.")]
    # 0.27 / 0.30 = 90 % in the mean of the made-up homes, of which no two are the same.
    headline, summary, caption, table, end, command = part.strip().split("\n\n")[1:]
    assert headline.startswith("**fedrank has 90 % [")
    assert headline.endswith(".**")
    assert summary == "<details><summary>The numbers</summary>"
    assert caption.startswith("MRR of a federated method as a share of that of its central twin")
    assert table.startswith("| list | fedrank of graphrank | least of all |\n")
    assert end == "</details>"
    assert command.strip() == "python -m benchmarks compare fedrank graphrank --results published"


def test_a_page_without_blocks_is_left_alone(root, inputs):
    page = add_page(root)
    assert page not in docs_files(inputs, root)


def test_a_number_edited_in_a_page_is_noticed_and_text_around_it_is_not(root, inputs):
    page = add_page(root, "ratios")
    write(docs_files(inputs, root))
    page.write_text(page.read_text().replace("After.", "Another text."))
    assert disagreeing(root) == []
    assert docs_files(inputs, root)[page] == page.read_bytes()
    page.write_text(page.read_text().replace("| 0.5 |", "| 0.9 |"))
    assert disagreeing(root) == ["docs/page.md"]
    assert docs_files(inputs, root)[page] != page.read_bytes()


def test_an_unknown_block_is_answered_with_the_right_one(root, inputs):
    add_page(root, "ratio")
    with pytest.raises(DataError, match=r"^docs/page\.md: unknown block 'ratio'; did you mean 'ratios'\?"):
        docs_files(inputs, root)


@pytest.mark.parametrize(
    "text",
    [
        "<!-- ratios: begin -->\n",
        "<!-- ratios: end -->\n<!-- ratios: begin -->\n",
        "<!-- ratios: begin -->\n<!-- encoders: end -->\n",
        "<!-- ratios: begin -->\n<!-- ratios: end -->\n" * 2,
    ],
)
def test_a_block_needs_both_of_its_lines_once(root, inputs, text):
    (root / "docs").mkdir()
    (root / "docs" / "page.md").write_text(text)
    with pytest.raises(DataError, match=r"docs/page\.md: the block ratios goes between the lines .* both, once"):
        docs_files(inputs, root)


def test_the_committed_pages_are_as_they_were_made():
    assert disagreeing(ROOT) == [], f"edited by hand; make them again: {MAKE_DOCS}"


def disagreeing(root):
    """The files that are not what the manifest says, in order."""
    manifest = json.loads((root / "docs" / "report" / "manifest.json").read_text())
    found = {}
    for name in manifest["files"]:
        content = (root / name).read_bytes()
        is_page = name == "README.md" or Path(name).parent == Path("docs")
        found[name] = digest(blocks_text(content.decode(), name).encode() if is_page else content)
    return sorted(name for name, made in manifest["files"].items() if found[name] != made["digest"])
