"""A model file is whole, unaltered and fits itself, or it is refused in words; its card likewise."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from datasets import DataError
from fedrule.inference import Card, Recommender, SavedModel
from fedrule.models import file as of_files
from fedrule.models.card import FORMAT, Scale, TrainingRun
from tests.support.random_models import cases
from tests.support.small_model import small_model

TRAINING = TrainingRun("toy", "0" * 16, homes=100, rules=197, seed=0, rounds=3, trained_at="2026-01-01T00:00:00Z")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a good file."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    small_model().save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def assert_same(left, right):
    assert left.card == right.card
    assert left.arrays.keys() == right.arrays.keys()
    for name, array in left.arrays.items():
        assert array.dtype == right.arrays[name].dtype
        np.testing.assert_array_equal(array, right.arrays[name])
    assert left.digest == right.digest


def written(path, model, *, card=None, **arrays):
    """A file of other parts, with the digest that they have; None leaves an array out."""
    text = model.card.json() if card is None else card
    parts = {name: array for name, array in {**model.arrays, **arrays}.items() if array is not None}
    path.write_bytes(save(parts, metadata={"card": text, "sha256": of_files._digest(text, parts)}))
    return path


def altered_card(**changes):
    """The card of the small model with other fields; ... takes one away."""
    content = {**json.loads(small_model().card.json()), **changes}
    return json.dumps({name: value for name, value in content.items() if value is not ...})


@given(cases(min_homes=0, max_homes=1))
@settings(max_examples=30)
def test_what_is_read_is_what_was_saved(tmp_path_factory, case):
    path = tmp_path_factory.mktemp("any") / "model.safetensors"
    full = replace(
        case.saved.card, trainings=(TRAINING, TRAINING), metrics={"ranking": {"mrr": 0.1}}, versions={"a": "1"}
    )
    model = SavedModel(full, case.saved.arrays)
    model.save(path)
    assert_same(SavedModel.load(path), model)
    assert Card.from_json(full.json()) == full


def test_the_same_model_is_the_same_bytes(path, whole):
    small_model().save(path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("most", "kept"), [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32 - 1, 4), (2**32, 8)]
)
def test_whole_numbers_take_few_bytes_in_the_file_and_are_the_same_in_memory(path, most, kept):
    model = small_model()
    sizes = []
    for n_counts in (1_000, 2_000):
        counts = np.full(n_counts, most, dtype=np.int64)
        replace(model, arrays={**model.arrays, "counts.more": counts}).save(path)
        sizes.append(path.stat().st_size)
        read = SavedModel.load(path).arrays["counts.more"]
        assert read.dtype == np.int64
        np.testing.assert_array_equal(read, counts)
    # 1,000 more of them; the header may have a digit more in its offsets, and is filled up to 8 bytes.
    assert sizes[1] - sizes[0] == pytest.approx(1_000 * kept, abs=16)


def test_the_digest_changes_with_any_number_and_any_word():
    model = small_model()
    digests = {model.digest}
    for name, array in model.arrays.items():
        other = array.copy()
        other.flat[-1] += 1
        digests.add(SavedModel(model.card, {**model.arrays, name: other}).digest)
    digests.add(SavedModel(replace(model.card, types=(*model.card.types[:-1], "Kettle")), model.arrays).digest)
    digests.add(SavedModel(replace(model.card, scale=Scale(1.0, 1e-9)), model.arrays).digest)
    assert len(digests) == 1 + len(model.arrays) + 2
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)


@given(st.data())
@settings(max_examples=150)
def test_a_file_that_was_cut_off_is_refused(tmp_path_factory, whole, data):
    path = tmp_path_factory.mktemp("cut") / "model.safetensors"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(DataError, match=rf"^{path}: .*; train or download it again$"):
        SavedModel.load(path)


@given(st.data())
@settings(max_examples=150)
def test_a_file_with_a_flipped_bit_is_refused(tmp_path_factory, whole, data):
    path = tmp_path_factory.mktemp("flipped") / "model.safetensors"
    place = data.draw(st.integers(0, 8 * len(whole) - 1))
    content = bytearray(whole)
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"^{path}: "):
        SavedModel.load(path)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: struct.pack("<Q", len(rest)) + rest))
def test_what_is_no_model_is_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a fedrule model, or truncated"):
        SavedModel.load(path)


@pytest.mark.parametrize(
    "header",
    [
        "{}",
        "[]",
        "5",
        '{"__metadata__": 5}',
        '{"__metadata__": {"card": "{}"}}',
        '{"__metadata__": {"card": 5, "sha256": "0"}}',
        '{"__metadata__": {"card": "{}", "sha256": 5}}',
        '{"__metadata__": {"card": null, "sha256": null}}',
        '{"__metadata__": ' + "[" * 100_000,
    ],
)
def test_a_header_of_anything_else_is_refused(path, header):
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    with pytest.raises(DataError, match="not a fedrule model, or truncated"):
        SavedModel.load(path)


def test_safetensors_of_others_are_refused(path):
    path.write_bytes(save({"weight": np.zeros(3, dtype=np.float32)}))
    with pytest.raises(DataError, match="not a fedrule model, or truncated"):
        SavedModel.load(path)


def test_a_missing_file_says_how_to_make_one(path):
    with pytest.raises(DataError, match=f"{path}: no such model; train one with `python -m fedrule train"):
        SavedModel.load(path)


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(DataError, match=f"{tmp_path}: cannot be read"):
        SavedModel.load(tmp_path)
    with pytest.raises(DataError, match=f"{tmp_path}: is a folder; name a file, e.g. {tmp_path}/model.safetensors"):
        small_model().save(tmp_path)


def test_a_file_too_large_to_be_a_model_is_not_read(path, whole, monkeypatch):
    path.write_bytes(whole)
    monkeypatch.setattr(of_files, "MAX_BYTES", len(whole) - 1)
    with pytest.raises(DataError, match=f"{len(whole):,} bytes are too many for a model"):
        SavedModel.load(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, whole, monkeypatch):
    path.write_bytes(whole)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        small_model(seed=1).save(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == whole


def test_a_save_makes_the_folder_and_takes_the_place_of_the_old_file(tmp_path):
    path = tmp_path / "new" / "model.safetensors"
    small_model().save(path)
    small_model(seed=1).save(path)
    assert SavedModel.load(path).digest == small_model(seed=1).digest
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# The small model has 7 types and 6 relations: 7 * 7 * 6 = 294 cells, of which 9 are valid.
LAST = np.iinfo(np.int64)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"valid.cell": None}, "the model lacks valid.cell"),
        ({"counts.have": None, "counts.both": None}, "the model lacks counts.have"),
        ({"valid.cell": np.arange(9.0)}, "valid.cell is float64 of shape"),
        ({"valid.cell": np.arange(9)[:, None]}, "valid.cell is not a sorted list of cells"),
        ({"valid.cell": np.arange(9)[::-1].copy()}, "valid.cell is not a sorted list of cells"),
        ({"valid.cell": np.zeros(9, dtype=np.int64)}, "valid.cell is not a sorted list of cells"),
        ({"valid.cell": np.array([0, LAST.max, LAST.min, -1, 5])}, "valid.cell is not a sorted list of cells"),
        ({"valid.cell": np.arange(286, 295)}, "valid.cell has rules beyond 7 types and 6 relations"),
        ({"valid.cell": np.arange(-1, 8)}, "valid.cell has rules beyond 7 types and 6 relations"),
        ({"counts.have": np.ones(8, dtype=np.int64)}, r"counts.have .* expected int64 of shape \(9,\)"),
        ({"counts.both": np.ones((7, 7), dtype=np.int64)}, r"counts.both .* expected int64 of shape \(49,\)"),
        ({"counts.homes": np.ones(1)}, "counts.homes "),
        ({"counts.more": np.ones(3, dtype=np.int32)}, "counts.more is int32, which no model has"),
        ({"counts.more": np.array([1.0, np.nan])}, "counts.more has NaN or infinite values"),
        ({"weights.phi.relation": np.full((6, 16), np.inf, np.float32)}, "phi.relation has NaN or infinite values"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_though_their_digest_is_right(path, arrays, message):
    with pytest.raises(DataError, match=f"^{path}: .*{message}"):
        SavedModel.load(written(path, small_model(), **arrays))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": FORMAT + 1}, f"not of format {FORMAT}"),
        ({"format": ...}, f"not of format {FORMAT}"),
        ({"colour": "red", "age": 3}, "unknown key of the card '(colour|age)'. Known: method"),
        ({"types": ..., "method": ...}, "the card: method is missing"),
        ({"method": 5}, "the card: method=5: expected str"),
        ({"options": []}, r"options=\[\]: expected a mapping"),
        ({"types": "Lamp"}, "types='Lamp': expected a list"),
        ({"types": ["Lamp", 5]}, r"types\[1\]=5: expected str"),
        ({"types": ["Lamp", "Lamp"]}, "types lists 'Lamp' twice"),
        ({"relations": {"a": "b"}}, "relations={'a': 'b'}: expected a list"),
        ({"relations": ["ab"]}, r"relations\[0\]='ab': expected a list"),
        ({"relations": [["Open", 5]]}, r"relations\[0\]\[1\]=5: expected str"),
        ({"relations": [["Open"]]}, r"relations\[0\]: 1 is missing"),
        ({"relations": [["Open", "On", "Off"]]}, r"relations\[0\] .*at most 2 items"),
        ({"relations": [["Open", "On"], ["Open", "On"]]}, "relations lists 'Open -> On' twice"),
        ({"scale": [1, 0]}, r"scale=\[1, 0\]: expected a table"),
        ({"scale": {"slope": "steep"}}, "scale.slope='steep': expected float"),
        ({"scale": {"slope": True}}, "scale.slope=True: expected float"),
        ({"scale": {"slope": float("nan")}}, "NaN"),
        ({"scale": {"slope": "inf"}}, "scale.slope='inf': expected float"),
        ({"scale": {"steepness": 1.0}}, "unknown key of the card: scale 'steepness'"),
        ({"trainings": {}}, "trainings={}: expected a list"),
        ({"trainings": ["first"]}, r"trainings\[0\]='first': expected a table"),
        ({"trainings": [{"data": "toy"}]}, r"trainings\[0\]: fingerprint is missing"),
        ({"metrics": [1]}, r"metrics=\[1\]: expected a mapping"),
        ({"metrics": {"ranking": 0.5}}, "metrics.ranking=0.5: expected a mapping"),
        ({"metrics": {"ranking": {"mrr": "high"}}}, "metrics.ranking.mrr='high': expected float"),
        ({"versions": "1.0"}, "versions='1.0': expected a mapping"),
        ({"versions": {"numpy": 2}}, "versions.numpy=2: expected str"),
    ],
)
def test_a_card_with_a_wrong_field_is_refused(path, changes, message):
    text = altered_card(**changes)
    with pytest.raises(DataError, match=message):
        Card.from_json(text)
    with pytest.raises(DataError, match=f"^{path}: .*{message}"):
        SavedModel.load(written(path, small_model(), card=text))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"format": ' + "1" * 5000 + "}"])
def test_a_card_of_anything_else_is_refused(text):
    with pytest.raises(DataError, match="the card is n"):
        Card.from_json(text)


@pytest.mark.parametrize(
    ("changes", "arrays", "message"),
    [
        ({"options": {}}, {}, "hidden"),
        ({"options": {**small_model().card.options, "direction": "up"}}, {}, "direction"),
        ({"options": {**small_model().card.options, "messages": "relation"}}, {}, "lacks weights.theta.relation_in1"),
        ({}, {"weights.theta.in2": None}, "lacks weights.theta.in2"),
        ({}, {"weights.theta.self1": np.zeros((6, 16), np.float32)}, "weights.theta.self1"),
        ({}, {"weights.theta.bias2": np.zeros(15, np.float32)}, "weights.theta.bias2"),
        ({}, {"weights.phi.action": np.zeros((16, 15), np.float32)}, "weights.phi.action"),
        ({}, {"weights.phi.relation": np.zeros((5, 16), np.float32)}, "weights.phi.relation"),
        ({}, {"weights.phi.relation_bias": np.zeros((6, 1), np.float32)}, "weights.phi.relation_bias"),
    ],
)
def test_a_network_that_does_not_fit_its_card_is_refused_before_it_is_asked(path, changes, arrays, message):
    written(path, small_model(), card=altered_card(**changes), **arrays)
    with pytest.raises(DataError, match=f"^{path}: .*{message}"):
        Recommender.load(path)
