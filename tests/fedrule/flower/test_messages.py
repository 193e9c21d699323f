"""What is sent comes back bit for bit, in as few bytes as predicted, and what does not fit is refused in words."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba", reason="rounds need the extra graph")

from fedrule.federated.rounds import RoundSum
from fedrule.federated.vectors import STEP, FlatParameters
from fedrule.flower.messages import (
    FORMAT,
    Identity,
    Kind,
    Message,
    Refusal,
    check_clock,
    check_sender,
    narrowest,
    pack_mask,
    pack_sums,
    package_version,
    refusal,
    restored,
    unpack_mask,
    unpack_sums,
    vocabulary_fingerprint,
)

LAYOUT = FlatParameters(("theta.a",), ((3,),), 3, n_rows=4, row_length=2)  # 3 numbers, then 4 rows of 2
BARE = FlatParameters(("theta.a",), ((3,),), 3)


def multiples(limit: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.integers(-limit, limit), max_size=8).map(lambda many: np.array(many, dtype=float) * STEP)


def sums_of(update: np.ndarray, mean_gradient: np.ndarray | None = None, **more: object) -> RoundSum:
    given_ = {"weight": 1.5, "loss": 0.25, "clients": 2, "refused": 1, "rows": 3, "state_bytes": 40} | more
    none = np.zeros(0)
    return RoundSum(update, none if mean_gradient is None else mean_gradient, np.array([0.5]), **given_)  # type: ignore[arg-type]


@given(multiples(2**31 - 1))
def test_sums_below_two_are_sent_in_four_bytes_and_come_back(values: np.ndarray) -> None:
    sent = narrowest(values)
    assert sent.dtype == np.int32
    np.testing.assert_array_equal(restored(sent), values)


@given(multiples(2**52))
def test_any_sum_on_the_grid_comes_back(values: np.ndarray) -> None:
    np.testing.assert_array_equal(restored(narrowest(values)), values)


def test_large_sums_take_four_bytes_where_24_bits_hold_them_and_eight_otherwise() -> None:
    assert narrowest(np.array([2.0 - STEP])).dtype == np.int32
    assert narrowest(np.array([2.0, 3.0, -1024.5])).dtype == np.float32
    assert narrowest(np.array([2.0 + STEP])).dtype == np.float64  # needs 32 bits
    with pytest.raises(ValueError, match="not a sum of multiples of STEP"):
        narrowest(np.array([STEP / 2]))


@given(st.data())
def test_sums_of_a_round_come_back_and_have_the_predicted_bytes(data: st.DataObject) -> None:
    touched = np.array(sorted(data.draw(st.sets(st.integers(0, 3)))), dtype=int)
    vectors = data.draw(st.sampled_from([1, 2]))
    made = []
    for _ in range(vectors):
        vector = np.zeros(LAYOUT.size)
        vector[:3] = np.array(data.draw(st.lists(st.integers(-(2**20), 2**20), min_size=3, max_size=3))) * STEP
        vector[LAYOUT.in_rows(touched)] = STEP  # not zero
        made.append(vector)
    header, arrays = pack_sums(sums_of(*made), LAYOUT)
    answer = Message(Kind.ROUND, header, arrays)
    # 4 bytes for each number of the dense part and of the rows, for each vector, and 4 for the number of each row.
    expected = 4 * vectors * (3 + 2 * len(touched)) + 4 * len(touched)
    assert answer.payload_bytes == expected == LAYOUT.sent_bytes(len(touched), vectors=vectors)
    found = unpack_sums(answer, LAYOUT, vectors=vectors, n_shared=1)
    np.testing.assert_array_equal(found.update, made[0])
    np.testing.assert_array_equal(found.base_weight, [0.5])
    if vectors == 2:
        np.testing.assert_array_equal(found.mean_gradient, made[1])
    assert (found.weight, found.loss, found.clients, found.refused, found.rows) == (1.5, 0.25, 2, 1, 3)


def test_a_model_without_rows_sends_its_numbers_alone() -> None:
    header, arrays = pack_sums(sums_of(np.array([1.0, 0.0, -0.5])), BARE)
    assert sum(array.nbytes for array in arrays.values()) == 12 == BARE.sent_bytes(0)
    np.testing.assert_array_equal(
        unpack_sums(Message(Kind.ROUND, header, arrays), BARE, vectors=1, n_shared=1).update, [1.0, 0.0, -0.5]
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"numbers": np.zeros(4, dtype=np.int32)}, "another model"),
        ({"numbers": np.array([np.nan, 0, 0], dtype=np.float32)}, "finite"),
        ({"numbers": np.zeros(3, dtype=np.int8)}, "a sum of type int8; known are int32, float32 and float64"),
        ({"row": np.array([4], dtype=np.int32)}, "must be ascending and below 4"),
        ({"row": np.array([1, 1], dtype=np.int32)}, "must be ascending and below 4"),
    ],
)
def test_sums_that_do_not_fit_the_model_are_refused(change: dict[str, np.ndarray], words: str) -> None:
    header, arrays = pack_sums(sums_of(np.zeros(LAYOUT.size)), LAYOUT)
    with pytest.raises(Refusal, match=words):
        unpack_sums(Message(Kind.ROUND, header, {**arrays, **change}), LAYOUT, vectors=1, n_shared=1)


def test_a_missing_entry_is_refused_by_its_name() -> None:
    message = Message(Kind.ROUND, {"round": 1.5})
    for look, words in (
        (lambda: message.value("run"), "message round has no run; the sender has another version"),
        (lambda: message.number("round"), "round must be a whole number, got 1.5"),
        (lambda: message.text("round"), "round must be a text"),
        (lambda: message.array("model"), "message round has no array model"),
    ):
        with pytest.raises(Refusal, match=words):
            look()


@given(st.lists(st.booleans(), max_size=40))
def test_masks_take_a_bit_for_each_client(mask: list[bool]) -> None:
    bits = pack_mask(np.array(mask, dtype=bool))
    assert bits.nbytes == (len(mask) + 7) // 8
    assert unpack_mask(bits, len(mask)).tolist() == mask


def test_a_mask_of_other_clients_is_refused() -> None:
    with pytest.raises(Refusal, match="1 bytes of bits for 9 clients; the sender holds other homes"):
        unpack_mask(pack_mask(np.ones(8, dtype=bool)), 9)


def header(**more: object) -> dict[str, object]:
    return {**Identity("run", "words", "method").header(), **more}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"format": FORMAT + 1},
            f"the server sends messages of format {FORMAT + 1}, this node reads {FORMAT};",
        ),
        ({"version": "9.9"}, "the server runs fedrule 9.9, this node .*; install fedrule 9.9 here"),
        ({"vocabulary": "other"}, "the server has the vocabulary other, this node words"),
        ({"version": None}, "version must be a text"),
    ],
)
def test_other_formats_versions_and_vocabularies_are_refused_where_they_can_be_changed(
    more: dict[str, object], words: str
) -> None:
    check_sender(Message(Kind.JOIN, header()), here="this node", there="the server", vocabulary="words")
    with pytest.raises(Refusal, match=words):
        check_sender(Message(Kind.JOIN, header(**more)), here="this node", there="the server", vocabulary="words")


@given(st.floats(-120, 120))
def test_clocks_within_the_tolerance_are_accepted(off: float) -> None:
    check_clock(1000.0 + off, earliest=1000.0, latest=1000.0, whose="this node")


@pytest.mark.parametrize(
    ("sent", "words"), [(879.0, "121 seconds behind"), (1132.0, "122 seconds ahead"), (float("nan"), "behind")]
)
def test_a_clock_outside_of_the_tolerance_is_refused_with_what_it_breaks(sent: float, words: str) -> None:
    # Sent between 1000 and 1010: 1000 - 879 = 121 is before the one, 1132 - 1010 = 122 after the other.
    with pytest.raises(Refusal, match=f"{words} .* 120 are allowed; set it .* certificates and the time limits"):
        check_clock(sent, earliest=1000.0, latest=1010.0, whose="this node")


def test_a_refusal_says_why_and_what_is_needed_first() -> None:
    answer = refusal(Message(Kind.ROUND, {}), Refusal("its folder is new", needs=Kind.JOIN))
    assert answer.kind == Kind.REFUSED
    assert answer.header["reason"] == "its folder is new"
    assert (answer.header["request"], answer.header["needs"]) == ("round", "join")
    assert answer.header["version"] == package_version()
    assert abs(answer.real("time") - time.time()) < 60


def test_the_order_of_names_changes_the_fingerprint_of_a_vocabulary() -> None:
    one = vocabulary_fingerprint(("a", "b"), (("Open", "On"),), words=False)
    assert one == vocabulary_fingerprint(["a", "b"], [("Open", "On")], words=False)
    others = (
        vocabulary_fingerprint(("b", "a"), (("Open", "On"),), words=False),
        vocabulary_fingerprint(("a", "b"), (("On", "Open"),), words=False),
        vocabulary_fingerprint(("a",), (("b", "Open"),), words=False),
        vocabulary_fingerprint(("a", "b"), (("Open", "On"),), words=True),
    )
    assert len({one, *others}) == 5
