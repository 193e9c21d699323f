"""Messages of secure sums come back from bytes as they were; anything else is refused in words."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="fedrule.federated needs the extra graph")
pytest.importorskip("cryptography", reason="secure sums need the extra secure")

from datasets.common.errors import DataError
from fedrule.federated.secure.messages import (
    Inbox,
    Keys,
    Masked,
    Outbox,
    PublicKeys,
    Record,
    Revealed,
    Roster,
    Secrets,
    Session,
    Survivors,
    largest_bound,
    sha256,
    threshold_of,
)

participant = st.integers(0, 2**64 - 1)
digest = st.binary(min_size=32, max_size=32)
public = st.builds(PublicKeys, digest, digest, digest)
blobs = st.dictionaries(participant, st.binary(max_size=100), max_size=5)
increasing = st.sets(participant, max_size=6).map(lambda numbers: tuple(sorted(numbers)))


@st.composite
def sessions(draw):
    members = tuple(sorted(draw(st.sets(participant, min_size=2, max_size=6))))
    threshold = draw(st.integers(max(2, len(members) // 2 + 1), len(members)))
    bound = draw(st.integers(1, largest_bound(len(members))))
    return Session(draw(st.text(min_size=1, max_size=20)), members, threshold, draw(st.integers(1, 10**6)), bound)


RECORDS: list[st.SearchStrategy[Record]] = [
    sessions(),
    st.builds(Keys, digest, participant, public),
    st.builds(Roster, digest, st.dictionaries(participant, public, max_size=4)),
    st.builds(Outbox, digest, participant, blobs),
    st.builds(Inbox, digest, participant, blobs),
    st.builds(Masked, digest, participant, digest, st.binary(max_size=200)),
    st.builds(Survivors, digest, increasing),
    st.builds(Revealed, digest, participant, blobs, blobs),
    st.builds(
        Secrets,
        sessions(),
        participant,
        st.integers(1, 4),
        digest,
        digest,
        digest,
        st.dictionaries(participant, public, max_size=3),
        blobs,
        blobs,
        increasing,
    ),
]
records = st.one_of(RECORDS)
KINDS = list({kind.KIND: kind for kind in Record.__subclasses__()}.values())  # dataclasses with slots are made twice
SESSION = Session("run 1, round 3", (2, 5, 7), 2, 10, 100)


def test_every_kind_of_record_is_tried():
    assert len(RECORDS) == len(KINDS) == len({kind.__name__ for kind in Record.__subclasses__()})


@given(records)
def test_a_record_comes_back_from_its_bytes(record):
    assert type(record).from_bytes(record.to_bytes()) == record


@given(records, st.data())
def test_a_record_that_was_cut_short_is_refused(record, data):
    whole = record.to_bytes()
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(DataError, match=r"cut short|not a message"):
        type(record).from_bytes(part)


@given(records, st.data())
def test_a_record_with_one_changed_byte_is_refused(record, data):
    changed = bytearray(record.to_bytes())
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DataError, match=r"changed on the way|not a message|version|another kind"):
        type(record).from_bytes(bytes(changed))


@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_other_bytes_are_refused(data, kind):
    with pytest.raises(DataError, match="not a message of a secure sum"):
        kind.from_bytes(data)


@given(st.binary(max_size=120), st.sampled_from(KINDS))
def test_a_body_that_makes_no_sense_is_refused_although_its_checksum_fits(body, kind):
    """The chance that random bytes are a message is small; if they are one, they come back as they were."""
    data = b"FSUM" + bytes([1, kind.KIND]) + body
    data += sha256(data)
    try:
        record = kind.from_bytes(data)
    except DataError:
        return
    assert record.to_bytes() == data


def test_a_message_of_another_kind_is_named():
    message = Survivors(SESSION.digest, (2, 5))
    with pytest.raises(DataError, match="Masked: got a message of another kind, Survivors"):
        Masked.from_bytes(message.to_bytes())


def test_a_message_of_another_version_says_what_to_do():
    data = bytearray(SESSION.to_bytes())
    data[4] = 2
    with pytest.raises(DataError, match=r"version 2, but this side reads version 1; run the same version of fedrule"):
        Session.from_bytes(bytes(data))


def test_the_layout_is_as_described():
    """Another program can read it: mark, version, kind, two fields, SHA-256 of the length and of all of it."""
    body = b"FSUM" + bytes([1, 7]) + (2).to_bytes(4, "little") + b"ab" + (1).to_bytes(4, "little")
    body += (9).to_bytes(8, "little")
    checksum = hashlib.sha256(len(body).to_bytes(8, "little") + body).digest()
    assert Survivors(b"ab", (9,)).to_bytes() == body + checksum


def test_participants_in_another_order_are_refused():
    with pytest.raises(DataError, match="not in increasing order"):
        Survivors.from_bytes(Survivors(SESSION.digest, (5, 2)).to_bytes())


def test_numbers_of_numpy_are_written_as_well():
    ours, theirs = Outbox(b"s", 3, {1: b"x"}), Outbox(b"s", np.int64(3), {np.int64(1): b"x"})
    assert ours.to_bytes() == theirs.to_bytes()


def test_secrets_do_not_appear_in_a_printed_record():
    hidden = [bytes([letter]) * 32 for letter in b"ABC"]
    secrets = Secrets(SESSION, 2, 1, *hidden, key_shares={5: b"DDDD"}, seed_shares={5: b"EEEE"})
    printed = repr(secrets) + repr(Revealed(b"s", 2, {5: b"DDDD"}, {7: b"EEEE"}))
    assert not [letter for letter in "ABCDE" if letter * 4 in printed]


# Sessions


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "give the session a name"),
        ({"members": (2,)}, "at least 2 members, got 1"),
        ({"members": (2, 2, 7)}, "distinct and in increasing order"),
        ({"members": (-1, 2, 7)}, "numbers from 0"),
        ({"members": (1, 2, 2**64)}, "numbers from 0"),
        ({"threshold": 1}, r"must be in \[2, 3\], got 1"),
        ({"threshold": 4}, r"must be in \[2, 3\], got 4"),
        ({"members": (1, 2, 3, 4)}, r"must be in \[3, 4\], got 2; half of them"),
        ({"size": 0}, "at least 1 number"),
        ({"bound": 0}, "must be in"),
        ({"bound": 2**63 // 3 + 1}, "would not fit into 64 bits"),
    ],
)
def test_a_session_that_cannot_work_is_refused(change, words):
    with pytest.raises(DataError, match=words):
        replace(SESSION, **change)


@pytest.mark.parametrize(
    "change", [{"name": "b"}, {"members": (2, 5, 8)}, {"threshold": 3}, {"size": 11}, {"bound": 9}]
)
def test_sessions_that_differ_in_one_field_have_different_digests(change):
    assert replace(SESSION, **change).digest != SESSION.digest


def test_the_default_threshold_is_more_than_two_thirds():
    # 2 n // 3 + 1: 4 // 3 + 1, 6 // 3 + 1, 8 // 3 + 1, 128 // 3 + 1
    assert [threshold_of(n) for n in (2, 3, 4, 64)] == [2, 3, 3, 43]
    for n in range(2, 300):
        assert 2 * n < 3 * threshold_of(n) <= 3 * n


def test_bytes_per_number_follow_from_members_and_bound():
    # 2 n b = 2 * 2 * 63 = 252 < 2^8, 2 * 2 * 64 = 256 = 2^8: one more value than a byte has
    assert Session("s", (0, 1), 2, 1, 63).bytes_per_number == 1
    assert Session("s", (0, 1), 2, 1, 64).bytes_per_number == 2
    # 64 homes with numbers up to 2^44 (16,384 in steps of 2^-30): 2 * 2^6 * 2^44 = 2^51 has 52 bits
    assert Session("s", tuple(range(64)), 43, 1, 2**44).bytes_per_number == 7


@given(sessions())
def test_sums_fit_and_a_byte_less_would_not_do(session):
    most = 2 * len(session.members) * session.bound  # sums are in [-most / 2, most / 2]
    assert most + 1 <= 2**session.bits
    assert session.bits <= 64
    assert session.bits == 8 or most + 1 > 2 ** (session.bits - 8)
