"""Models as files: the restored model is the fitted one bit for bit, and a wrong file is an error that names it."""

from __future__ import annotations

import json
import pickle
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from baselines.contract import all_pairs, other_homes
from baselines.registry import build
from datasets import DataError
from datasets.valid import ValidRules

torch = pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.evidence.counts import CompanionCounts  # noqa: E402
from fedrule.evidence.statistics import Statistics  # noqa: E402
from fedrule.models.card import Card, Scale, TrainingRun  # noqa: E402
from fedrule.models.file import SavedModel  # noqa: E402
from fedrule.models.restore import counts_of, restored, saved_model  # noqa: E402
from tests.support.rooms import room_homes  # noqa: E402

HOMES = room_homes()
TRAINING = TrainingRun("toy homes", HOMES.fingerprint, 30, 60, 0, 2, "2026-01-01T00:00:00+00:00")
SETTINGS = [
    ("graphrule", {}),
    ("fedrule", {}),
    ("fedgnn", {"hidden": 8}),
    ("graphrank", {"candidates": 20}),
    ("fedrank", {"candidates": 20}),
    ("graphrank", {"candidates": 20, "hidden": 4}),
    ("graphrank", {"candidates": 20, "words": False}),
    ("graphrule", {"evidence": 4, "words": True}),
    ("graphrule", {"words": True}),
    ("graphrule", {"encoder": "gcn", "self_loops": True}),
    ("graphrule", {"encoder": "gat", "heads": 2, "node_embedding": 3}),
    ("graphrule", {"direction": "both", "messages": "relation"}),
    ("graphrule", {"bias": "learned", "context": 3}),
    ("graphrule", {"bias": "counts"}),
    ("graphrule", {"encoder": "compgcn"}),
    ("compgcn", {}),
    ("compgcn", {"direction": "none", "composition": "multiply", "bias": "none"}),
    ("fedcompgcn", {"composition": "correlate"}),
    ("graphrule", {"evidence": 4, "bias": "counts", "preset": "authors-code"}),
    ("graphrule", {"encoder": "rgcn", "node_embedding": 2}),
    ("graphrule", {"encoder": "hgt", "direction": "both", "heads": 2, "node_embedding": 3}),
    ("rgcn", {"least_steps": 0, "decoder": "distmult", "num_bases": 3}),
    ("rgcn", {"least_steps": 0, "decoder": "predictor"}),
    ("hetgnn", {"least_steps": 0}),
    ("sagerank", {"least_steps": 0, "first_hidden": 8, "hidden": 4}),
]


@cache
def made(name="graphrule", **options):
    few = {"rounds": 2, **({"least_steps": 0} if name in ("graphrank", "compgcn") else {})}
    method = build(name, **few, **options)
    fitted = method.fit(HOMES, rng=np.random.default_rng(3))
    counts = Statistics.of(HOMES, ValidRules.of(HOMES))
    metrics = {"ranking": {"mrr": 0.25}}
    scale = Scale(2.0, -1.0)
    saved = saved_model(
        fitted, method, counts, scale=scale, trainings=(TRAINING,), metrics=metrics, versions={"x": "1"}
    )
    return fitted, saved


def changed(saved, **arrays):
    """The model with other arrays; None leaves one out."""
    kept = {name: array for name, array in {**saved.arrays, **arrays}.items() if array is not None}
    return replace(saved, arrays=kept)


@pytest.mark.parametrize(("name", "options"), SETTINGS, ids=str)
def test_a_restored_model_gives_the_scores_of_the_fitted_one_bit_for_bit(tmp_path, name, options):
    fitted, saved = made(name, **options)
    saved.save(tmp_path / "model.safetensors")
    loaded = SavedModel.load(tmp_path / "model.safetensors")
    again = restored(loaded)
    assert loaded.digest == saved.digest
    for homes in (HOMES, other_homes()):
        pairs = all_pairs(homes)
        assert again.score_pairs(homes, *pairs).tobytes() == fitted.score_pairs(homes, *pairs).tobytes()


def test_what_the_card_says_comes_back(tmp_path):
    _, saved = made("graphrule", hidden=8)
    saved.save(tmp_path / "model.safetensors")
    card = SavedModel.load(tmp_path / "model.safetensors").card
    assert card == saved.card
    assert (card.method, card.options["hidden"], card.types, card.relations) == (
        "graphrule",
        8,
        HOMES.types,
        HOMES.relations,
    )
    assert (card.trainings, card.scale, card.metrics) == ((TRAINING,), Scale(2.0, -1.0), {"ranking": {"mrr": 0.25}})


def test_counts_over_homes_come_back():
    expected = Statistics.of(HOMES, ValidRules.of(HOMES))
    found = counts_of(made("graphrank", candidates=20)[1])
    assert found.n_homes == 30
    assert found.both.tolist() == expected.both.tolist()
    assert [have.tolist() for have in found.have] == [have.tolist() for have in expected.have]
    assert found.together.toarray().tolist() == expected.together.toarray().tolist()
    for ours, theirs in zip(found.companions.tables, expected.companions.tables, strict=True):
        assert ours.tolist() == theirs.tolist()
    assert found.rooms.any
    assert [column.tolist() for column in found.rooms.columns] == [column.tolist() for column in expected.rooms.columns]


EVIDENCE = ("counts.patterns", "counts.together", "counts.rooms", "counts.companions")


def test_a_model_without_evidence_keeps_only_how_many_homes_have_a_rule():
    # The planted rule is in homes 1 to 29 with a ContactSensor (not 4, 9, 14, 19, 24, 29) and a Light (not 6, 13, 20,
    # 27): 29 - 6 - 4 = 19.
    saved = made()[1]
    assert not [name for name in saved.arrays if name.startswith(EVIDENCE)]
    counts = counts_of(saved)
    assert counts.with_rule[counts.valid.number(0, 1, 0)] == 19
    with pytest.raises(DataError, match="evidence needs to know which rules go together"):
        counts.evidence()


@pytest.mark.parametrize(
    ("name", "says"),
    [("graphfeatures", "is not a graph method"), ("popularity", "is not a graph method"), ("graphrul", "did you mean")],
)
def test_methods_that_cannot_be_saved_are_refused_with_those_that_can(name, says):
    saved = made()[1]
    other = replace(saved, card=replace(saved.card, method=name, options={}))
    with pytest.raises(DataError, match=says) as error:
        restored(other)
    assert "graphrule" in str(error.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hiden": 16}, "hidden"),
        ({"hidden": "wide"}, "hidden"),
        ({"rounds": -1}, "rounds"),
        ({"hidden": 2**25}, "weights.theta.self1 is float32 of shape"),
        ({"hidden": 2**40}, "too large for any memory"),
        ({"evidence": 4}, "counts.patterns.1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, says):
    saved = made()[1]
    with pytest.raises(DataError, match=says):
        restored(replace(saved, card=replace(saved.card, options=saved.card.options | options)))


@pytest.mark.parametrize("name", ["theta.self1", "phi.relation", "phi.relation_bias"])
def test_a_parameter_of_another_shape_is_named(name):
    saved = made()[1]
    value = saved.weights[name]
    for other in (value[1:], value.T[..., None], value.astype(np.float64), None):
        with pytest.raises(DataError, match=f"weights.{name}"):
            restored(changed(saved, **{f"weights.{name}": other}))
    with pytest.raises(DataError, match=r"weights\.more is not a parameter"):
        restored(changed(saved, **{"weights.more": value}))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("counts.patterns.3", np.array([1, 2, 3])),
        ("counts.together.indices", np.array([99])),
        ("counts.together.indices", "the first one twice"),
        ("counts.together.indptr", np.array([0, 1, 2, 99])),
        ("counts.together.data", np.array([-1])),
        ("counts.patterns.1", None),
        ("counts.rooms.named_types", np.zeros(3, dtype=np.int64)),
        ("counts.rooms.shared_types", None),
        ("counts.rooms.named_rule", np.array([-1, 0, 0])),
        ("counts.companions.cell", np.array([[0]])),
        ("counts.companions.cell", np.array([0, 0])),
        ("counts.companions.cell", np.array([3 * 4 * 4])),
        ("counts.companions.homes", np.array([1.5])),
        ("counts.companions.homes", None),
    ],
)
def test_counts_that_do_not_fit_are_named(name, other):
    saved = made("graphrank", candidates=20)[1]
    if isinstance(other, str):
        other = saved.arrays[name].copy()
        other[1] = other[0]
    with pytest.raises(DataError, match=name.rpartition(".")[0]):
        restored(changed(saved, **{name: other}))


def test_evidence_about_more_rules_than_memory_could_relate_is_refused():
    # 72 types have 72 * 72 * 4 = 20,736 typed rules. A file that calls all of them valid is small; the matrix that
    # relates them, each with each, would have 20,736 ** 2 * 8 bytes = 3.4 GB.
    saved = made("graphrank", candidates=20)[1]
    types = tuple(f"type {at}" for at in range(72))
    cells = 72 * 72 * 4
    none, zeros = np.zeros(0, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    card = replace(saved.card, types=types)
    valid = ValidRules.of_cells(72, 4, np.arange(cells))
    sizes = [len(have) for have in Statistics.of_nobody(types, card.relations, valid).have]
    arrays = {
        "valid.cell": np.arange(cells),
        "counts.have": zeros,
        "counts.self_rules": zeros,
        "counts.both": np.zeros(72 * 72, dtype=np.int64),
        "counts.together.indptr": np.zeros(cells + 1, dtype=np.int64),
        "counts.together.indices": none,
        "counts.together.data": none,
        "counts.rooms.named_types": np.zeros(72 * 72, dtype=np.int64),
        "counts.rooms.shared_types": np.zeros(72 * 72, dtype=np.int64),
        "counts.rooms.named_rule": zeros,
        "counts.rooms.shared_rule": zeros,
    }
    arrays |= {f"counts.patterns.{at}": np.zeros(size, dtype=np.int64) for at, size in enumerate(sizes) if at}
    with pytest.raises(DataError, match=r"evidence of 20,736 valid rules, more than 20,000"):
        restored(replace(changed(saved, **arrays), card=card))


def test_evidence_about_more_relations_than_memory_could_relate_is_refused():
    # 8,001 relations, each with each, on a pair, a trigger or an action: 3 * 8,001 ** 2 * 4 bytes = 768 MB.
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(DataError, match=r"evidence of 8,001 relations, more than 8,000"):
        _ = CompanionCounts(ValidRules.of_cells(2, 8001, none), none, none).tables


class Harmful:
    """What a file could do if loading one executed code."""

    def __reduce__(self):
        return (Path.touch, (Path("harmed"),))


def wrong_files(whole: bytes) -> dict[str, bytes]:
    (size,) = struct.unpack("<Q", whole[:8])
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    header = json.loads(whole[8 : 8 + size])
    card = json.loads(header["__metadata__"]["card"])

    def with_card(**other):
        text = json.dumps({**card, **other})
        content = json.dumps({**header, "__metadata__": {**header["__metadata__"], "card": text}}).encode()
        return struct.pack("<Q", len(content)) + content + whole[8 + size :]

    cut = {f"cut off at {length}": whole[:length] for length in (0, 1, 7, 8, 100, 8 + size, len(whole) - 1)}
    return cut | {
        "garbage": bytes(range(256)) * 20,
        "a pickle": pickle.dumps(Harmful()),
        "a huge header": struct.pack("<Q", 2**63) + whole[8:],
        "no card": struct.pack("<Q", 2) + b"{}",
        "a flipped bit": bytes(flipped),
        "something behind": whole + b"\0",
        "another format": with_card(format=99),
        "another word": with_card(types=["Lamp", *card["types"][1:]]),
        "nested": struct.pack("<Q", 200_000) + b"[" * 200_000,
    }


def test_a_wrong_file_is_an_error_that_names_it_and_executes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.safetensors"
    made()[1].save(path)
    whole = path.read_bytes()
    for content in wrong_files(whole).values():
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"model\.safetensors"):
            SavedModel.load(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]
    path.write_bytes(whole)
    assert SavedModel.load(path).card == made()[1].card


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path, value):
    saved = made()[1]
    weights = saved.weights["phi.relation_bias"].copy()
    weights[1] = value
    changed(saved, **{"weights.phi.relation_bias": weights}).save(tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"weights\.phi\.relation_bias has NaN or infinite values"):
        SavedModel.load(tmp_path / "model.safetensors")


def test_two_relations_exchanged_in_the_card_are_noticed(tmp_path):
    saved = made()[1]
    path = tmp_path / "model.safetensors"
    saved.save(path)
    relations = [list(relation) for relation in saved.card.relations]
    text = json.dumps(json.loads(saved.card.json()) | {"relations": relations[::-1]})
    assert Card.from_json(text).relations == saved.card.relations[::-1]  # a good card, but not of these numbers
    assert replace(saved, card=Card.from_json(text)).digest != saved.digest
