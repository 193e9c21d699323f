"""Submissions to the Wyze challenge, from its files to the score."""

from __future__ import annotations

import csv
import shutil

import numpy as np
import pandas as pd
import pytest

import datasets
from baselines.registry import build
from benchmarks.__main__ import main
from benchmarks.evaluation import evaluate
from benchmarks.runs.challenge import best_rules, read_homes, score_submission
from datasets import DataError, Rules
from datasets.readers.wyze import rule_columns, rule_ids, write_wyze
from datasets.submission import LONGEST_LIST, read_submission, write_submission
from datasets.valid import ValidRules

HOMES, TEST = 300, 60  # the last 60 homes are the test homes of the public leaderboard, the 60 before them the private


def hide_one(homes):
    """The homes without the last rule of each, and these rules."""
    last = homes.rule_start[1:] - 1
    mask = np.isin(np.arange(homes.n_rules), last)
    return homes.with_rules(~mask), homes.rules.take(mask)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The challenge's files, from synthetic homes with two rules or more, and the hidden rules of both test parts."""
    place = tmp_path_factory.mktemp("wyze")
    homes = datasets.load("wyze-synthetic", preset="public", homes=2 * HOMES, words=False)
    homes = homes.subset(np.flatnonzero(np.diff(homes.rule_start) > 1)[:HOMES])
    groups = {
        "train": homes.subset(np.arange(HOMES - 2 * TEST)),
        "test": homes.subset(np.arange(HOMES - TEST, HOMES)),
        "test_private": homes.subset(np.arange(HOMES - 2 * TEST, HOMES - TEST)),
    }
    write_wyze(groups.pop("train"), place, part="train")
    for part, some in groups.items():
        known, hidden = hide_one(some)
        write_wyze(known, place, part=part)
        written = rule_ids(rule_columns(some, hidden.trigger, hidden.relation, hidden.action)).to_pylist()
        lines = [f"{user},{rule}" for user, rule in zip(some.users[hidden.home], written, strict=True)]
        (place / f"hidden_{part}.csv").write_text("\n".join(["user_id,rule", *lines]) + "\n")
    return place


def rows(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def submit(folder, out, method="popularity", *more):
    return main(["submit", method, "--path", str(folder), "--out", str(out), *more])


def test_a_submission_is_written_and_scored_by_two_commands(folder, tmp_path, capsys):
    out = tmp_path / "submission.csv"
    assert submit(folder, out) == 0
    said = capsys.readouterr().out
    assert f"popularity fitted on {HOMES - 2 * TEST} homes" in said
    assert f" of {TEST} test homes" in said
    assert main(["score-submission", str(out), "--hidden", str(folder / "hidden_test.csv")]) == 0
    said = capsys.readouterr().out
    # By hand: 1 / rank of the hidden rule in the list of its user, 0 where it is not listed, mean over hidden rules.
    ranks = {(row["user_id"], row["rule"]): int(row["rank"]) for row in rows(out)}
    hidden = [(row["user_id"], row["rule"]) for row in rows(folder / "hidden_test.csv")]
    expected = sum(1 / ranks[each] for each in hidden if each in ranks) / len(hidden)
    assert expected > 0.05
    assert f"MRR@50 {expected:.4f} of {TEST} hidden rules of {TEST} users" in said


def test_lists_have_ranks_from_one_to_fifty_and_nothing_that_a_home_has(folder, tmp_path):
    out = tmp_path / "submission.csv"
    assert submit(folder, out) == 0
    test = datasets.load("wyze", path=folder, part="test")
    test = datasets.align(test, like=datasets.load("wyze", path=folder))
    read = read_submission(test, out)
    for home in range(test.n_homes):
        ranks = read.rank[read.rules.home == home]
        assert ranks.tolist() == list(range(1, len(ranks) + 1))
        assert len(ranks) <= LONGEST_LIST
    sizes = test.n_devices, len(test.relations)
    assert not np.isin(read.rules.keys(*sizes), test.rules.keys(*sizes)).any()


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("chunk", [1, 1000, 1 << 20])
def test_the_list_is_the_sorted_candidates_whatever_the_chunk(folder, filtered, chunk):
    homes = read_homes(folder, parts=["test"], options={})
    train, test = homes.train, homes.test[0].subset(np.arange(6))
    fitted = build("random").fit(train, rng=np.random.default_rng(0))
    seen = set(zip(*(column.tolist() for column in train.typed()), strict=True))
    valid = ValidRules.of(train) if filtered else None
    found = best_rules(fitted, test, train, valid=valid, longest=7, chunk=chunk)
    listed = list(zip(found.rules.home, found.rules.trigger, found.rules.action, found.rules.relation, strict=True))
    everyone = [*zip(train.rules.trigger, train.rules.action, strict=True)]
    everyone += [*zip(test.rules.trigger, test.rules.action, strict=True)]
    self_pairs = any(trigger == action for trigger, action in everyone)
    known = set(zip(test.rules.trigger.tolist(), test.rules.action.tolist(), test.rules.relation.tolist(), strict=True))
    expected = []
    for home in range(test.n_homes):
        owned = np.flatnonzero(test.device_home == home).tolist()
        cells = []
        for trigger in owned:
            for action in owned:
                if trigger == action and not self_pairs:
                    continue
                scores = fitted.score_pairs(test, np.array([trigger]), np.array([action]))[0]
                for relation, score in enumerate(scores.tolist()):
                    typed = int(test.device_type[trigger]), relation, int(test.device_type[action])
                    if (trigger, action, relation) not in known and (not filtered or typed in seen):
                        cells.append((-np.float32(score), trigger, action, relation))
        expected += [(home, *cell[1:]) for cell in sorted(cells)[:7]]
    assert [tuple(map(int, each)) for each in listed] == expected


def test_a_submission_is_a_csv_file(folder, tmp_path, capsys):
    assert submit(folder, tmp_path / "submission.parquet") == 1
    assert "a submission is written as CSV; give a name that ends in .csv" in capsys.readouterr().err


@pytest.mark.parametrize(("filtered", "metric"), [(True, "mrr@50"), (False, "mrr@50, all")])
def test_without_ties_a_submission_scores_what_the_benchmark_measures(filtered, metric, tmp_path):
    homes = datasets.load("wyze-synthetic", preset="public", homes=1500, words=False)
    parts = datasets.split(homes, "new_homes", seed=100)
    fitted = build("random").fit(parts.train, rng=np.random.default_rng(1))
    valid = ValidRules.of(parts.train) if filtered else None
    write_submission(
        parts.test.homes, best_rules(fitted, parts.test.homes, parts.train, valid=valid), tmp_path / "s.csv"
    )
    some, hidden = parts.test.homes, parts.test.rules
    written = rule_ids(rule_columns(some, hidden.trigger, hidden.relation, hidden.action)).to_pylist()
    answers = [f"{user},{rule}" for user, rule in zip(some.users[hidden.home], written, strict=True)]
    found = score_submission(tmp_path / "s.csv", hidden_file(tmp_path / "hidden.csv", *answers))
    summary = evaluate(fitted, parts, "ranking").summary
    assert found.mrr == pytest.approx(summary[metric])
    assert found.mrr > 0
    assert found.hits[50] == pytest.approx(summary["hr@50" if filtered else "hr@50, all"])


def test_both_test_parts_go_into_one_file_and_each_is_scored_by_its_own_hidden_rules(folder, tmp_path):
    paths = {part: tmp_path / f"{part}.csv" for part in ("test", "test_private", "both")}
    assert submit(folder, paths["test"]) == 0
    assert submit(folder, paths["test_private"], "popularity", "--parts", "test_private") == 0
    assert submit(folder, paths["both"], "popularity", "--parts", "test,test_private") == 0
    for part in ("test", "test_private"):
        hidden = folder / f"hidden_{part}.csv"
        alone = score_submission(paths[part], hidden)
        of_both, of_part = (pd.read_csv(paths[name])["user_id"].nunique() for name in ("both", part))
        assert score_submission(paths["both"], hidden) == alone._replace(uncounted=of_both - of_part)
    assert score_submission(paths["test"], folder / "hidden_test_private.csv")._asdict() == {
        "mrr": 0.0,
        "hits": {1: 0.0, 10: 0.0, 50: 0.0},
        "hidden": TEST,
        "users": TEST,
        "silent": TEST,
        "uncounted": pd.read_csv(paths["test"])["user_id"].nunique(),
    }


def test_a_seed_gives_the_same_file_and_options_of_the_method_count(folder, tmp_path):
    made = [tmp_path / f"{n}.csv" for n in range(3)]
    for path, more in zip(made, (["--seed", "3"], ["--seed", "3"], ["--seed", "4"]), strict=True):
        assert submit(folder, path, "random", *more) == 0
    assert made[0].read_bytes() == made[1].read_bytes() != made[2].read_bytes()
    smooth = tmp_path / "smooth.csv"
    assert submit(folder, smooth, "popularity", "--set", "popularity.smoothing=100") == 0


def test_relations_may_be_chosen_by_the_training_homes_and_the_filter_switched_off(folder, tmp_path):
    few, every = tmp_path / "few.csv", tmp_path / "every.csv"
    assert submit(folder, few, "random", "--data", "wyze:min_pair_count=20") == 0
    assert submit(folder, every, "random", "--no-valid-filter") == 0
    # Without the filter any relation fits any pair: every home with a pair of devices has a full list.
    assert len({row["rule"].split("_")[1] for row in rows(every)}) > len({r["rule"].split("_")[1] for r in rows(few)})
    assert max(int(row["rank"]) for row in rows(every)) == LONGEST_LIST


def test_a_home_without_a_candidate_has_no_lines(folder):
    homes = read_homes(folder, parts=["test"], options={})
    train = homes.train.with_rules(homes.train.rules.trigger != homes.train.rules.action)
    lone = homes.test[0].subset(np.array([0]))
    lone = datasets.Homes(
        name="lone",
        types=lone.types,
        relations=lone.relations,
        users=np.array([1]),
        device_home=np.array([0]),
        device_type=lone.device_type[:1],
        device_ids=np.array([5]),
        rules=Rules(*[np.zeros(0, dtype=np.int64)] * 4),
    )
    fitted = build("popularity").fit(train, rng=np.random.default_rng(0))
    assert len(best_rules(fitted, lone, train, valid=None).rank) == 0


A, B = "1_2_3_4", "5_6_7_8"  # rules as submissions write them


def hidden_file(path, *lines):
    path.write_text("\n".join(["user_id,rule", *lines]) + "\n")
    return path


def test_the_score_is_the_mean_reciprocal_rank_up_to_fifty(tmp_path):
    lists = [f"1,{rank}_1_1_9,{rank}" for rank in range(1, 51)] + [f"2,{A},2", f"2,{B},1", f"4,{A},1"]
    submission = tmp_path / "submission.csv"
    submission.write_text("\n".join(["user_id,rule,rank", *lists]) + "\n")
    hidden = hidden_file(tmp_path / "hidden.csv", "1,4_1_1_9", "1,51_1_1_9", f"2,{A}", f"3,{B}")
    found = score_submission(submission, hidden)
    # Ranks 4, not listed, 2, not listed: (1/4 + 0 + 1/2 + 0) / 4 = 0.1875; two of four are found, none of them first.
    assert found == (0.1875, {1: 0.0, 10: 0.5, 50: 0.5}, 4, 3, 1, 1)  # user 3 is not listed, user 4 does not count


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([f"1,{A},0"], r"submission.csv line 2: rank is not in 1..50 \(rank '0'\); give the best 50"),
        ([f"1,{A},51"], r"line 2: rank is not in 1..50"),
        ([f"1,{A},1", f"1,{B},1"], r"line 3: the user has this rank twice \(rank '1'\); keep one of the lines"),
        ([f"1,{A},1", f"1,{A},2"], r"line 3: the user has this rule twice \(rule '1_2_3_4'\)"),
        ([f"x,{A},1"], r"line 2: user_id is not a whole number"),
        (["1,,1"], r"line 2: rule is missing"),
        (["1,lamp,1"], r"line 2: rule is not four whole numbers joined by _ \(rule 'lamp'\)"),
        ([f"1,{A},5.0"], r"line 2: rank is not a whole number \(rank '5.0'\); write ranks as whole numbers"),
    ],
)
def test_a_wrong_submission_is_refused_with_its_line(tmp_path, lines, message):
    submission = tmp_path / "submission.csv"
    submission.write_text("\n".join(["user_id,rule,rank", *lines]) + "\n")
    with pytest.raises(DataError, match=message):
        score_submission(submission, hidden_file(tmp_path / "hidden.csv", f"1,{A}"))


def test_hidden_rules_that_are_missing_or_repeated_are_refused(tmp_path):
    submission = tmp_path / "submission.csv"
    submission.write_text(f"user_id,rule,rank\n1,{A},1\n")
    with pytest.raises(DataError, match=r"hidden.csv: user 1 has the rule 1_2_3_4 twice; keep one of the lines"):
        score_submission(submission, hidden_file(tmp_path / "hidden.csv", f"1,{A}", f"1,{A}"))
    with pytest.raises(DataError, match=r"nowhere.csv: no such file"):
        score_submission(submission, tmp_path / "nowhere.csv")
    (tmp_path / "other.csv").write_text("user_id,score\n1,2\n")
    with pytest.raises(DataError, match="rule"):
        score_submission(submission, tmp_path / "other.csv")


def test_missing_files_are_named_before_anything_is_fitted(folder, tmp_path, capsys, monkeypatch):
    place = shutil.copytree(folder, tmp_path / "wyze")
    (place / "test_rule.csv").unlink()
    assert submit(place, tmp_path / "out.csv") == 1
    assert "test_rule.csv is missing; a Wyze-layout folder has *_rule.csv and *_device.csv" in capsys.readouterr().err
    (place / "train_device.csv").unlink()
    assert submit(place, tmp_path / "out.csv") == 1
    assert "train_device.csv is missing" in capsys.readouterr().err
    assert submit(folder, tmp_path / "none" / "out.csv") == 1
    assert "does not exist; make it first" in capsys.readouterr().err
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path / "nothing"))
    assert main(["submit", "popularity", "--out", str(tmp_path / "out.csv")]) == 1
    error = capsys.readouterr().err
    assert "does not exist; expected: train_rule.csv, train_device.csv in $FEDRULE_DATA/wyze" in error


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--parts", "tets"], "unknown test part 'tets'; did you mean 'test'?"),
        (["--parts", "test,test"], "name one or more of the test parts test, test_private, each once"),
        (["--data", "wyze:part=test"], "part=test: a method is fitted on the part train; leave it out"),
        (["--data", "ifttt-synthetic"], "a submission is made from the files of wyze"),
        (["--set", "ease.ownership=1"], "--set ease: `submit popularity` does not run ease"),
    ],
)
def test_wrong_options_are_refused_in_words(folder, tmp_path, capsys, more, message):
    assert submit(folder, tmp_path / "out.csv", "popularity", *more) == 1
    assert message in capsys.readouterr().err


def test_a_user_in_two_parts_is_refused(folder, tmp_path, capsys):
    place = shutil.copytree(folder, tmp_path / "wyze")
    for kind in ("rule", "device"):
        shutil.copy(place / f"train_{kind}.csv", place / f"test_{kind}.csv")
    assert submit(place, tmp_path / "out.csv") == 1
    assert "more users: in both train and test; every user belongs to one part" in capsys.readouterr().err
