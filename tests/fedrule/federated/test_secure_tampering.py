"""Secure sums: what was changed, replayed, left out or invented is noticed by the side that can act on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="fedrule.federated needs the extra graph")
pytest.importorskip("cryptography", reason="secure sums need the extra secure")


from datasets.common.errors import DataError
from fedrule.federated.secure.messages import (
    BelowThreshold,
    Inbox,
    Masked,
    PublicKeys,
    Rejected,
    Revealed,
    Survivors,
)
from fedrule.federated.secure.shamir import SHARE_BYTES
from fedrule.federated.secure_sum import (
    add_masked,
    advertise,
    collect_keys,
    mask,
    recover_sum,
    route_shares,
    share,
    unmask,
)
from tests.support.secure_sessions import BOUND, Run, plain_sum, vectors_of

# What participants refuse


def test_an_addend_beyond_the_bound_is_refused_by_its_owner():
    for number in (BOUND + 1, -BOUND - 1, -(2**63)):
        run = Run({**vectors_of(3), 13: np.array([0, 0, number, 0, 0])}).share()
        with pytest.raises(DataError, match=rf"participant 13: its numbers are from .*bound of the session is {BOUND}"):
            run.mask()


@pytest.mark.parametrize("vector", [np.zeros(5), np.zeros(4, np.int64), np.zeros((5, 1), np.int64)])
def test_a_vector_of_another_type_or_size_is_refused(vector):
    run = Run(vectors_of(3)).share()
    run.vectors[3] = vector
    with pytest.raises(DataError, match=r"participant 3: its vector must have 5 numbers of type int64, got"):
        run.mask()


def test_own_keys_that_are_missing_or_changed_are_noticed():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    other = advertise(run.session, 3)[1].public
    mine = run.keys[3].public
    for public in (other, replace(mine, cipher=other.cipher), replace(mine, commitment=other.commitment), None):
        changed = {**roster.public, 3: public} if public else {m: k for m, k in roster.public.items() if m != 3}
        with pytest.raises(DataError, match="participant 3: its keys are missing from the key list or were replaced"):
            share(run.secrets[3], replace(roster, public=changed))


def test_a_public_key_that_two_have_is_refused_by_both_sides():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    for field in ("cipher", "masking", "commitment"):
        copied = replace(roster.public[13], **{field: getattr(roster.public[23], field)})
        with pytest.raises(Rejected, match="participant 23: has a key that participant 13 has, too"):
            share(run.secrets[3], replace(roster, public={**roster.public, 13: copied}))
        with pytest.raises(Rejected, match="has a key that participant"):
            collect_keys(
                run.session, [*(k for m, k in run.keys.items() if m != 13), replace(run.keys[13], public=copied)]
            )


def test_an_invalid_public_key_is_named():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    zero = replace(roster.public[13], cipher=bytes(32))  # a point with which every secret is zero
    with pytest.raises(Rejected, match="participant 13: its public key is invalid"):
        share(run.secrets[3], replace(roster, public={**roster.public, 13: zero}))


def test_a_key_list_below_the_threshold_or_with_strangers_is_refused():
    run = Run(vectors_of(4))
    roster = collect_keys(run.session, run.keys.values())
    few = {member: roster.public[member] for member in (3, 13)}
    with pytest.raises(BelowThreshold, match="2 of 4 participants sent keys, but the threshold is 3"):
        share(run.secrets[3], replace(roster, public=few))
    stranger = PublicKeys(b"1" * 32, b"2" * 32, b"3" * 32)
    with pytest.raises(Rejected, match="participant 99: is in the key list, but not a member"):
        share(run.secrets[3], replace(roster, public={**roster.public, 99: stranger}))


def test_steps_are_taken_once_and_in_order():
    run = Run(vectors_of(3))
    roster = collect_keys(run.session, run.keys.values())
    inbox = Inbox(run.session.digest, 3, {})
    with pytest.raises(DataError, match="cannot take step MASK after ADVERTISE"):
        mask(run.secrets[3], inbox, vector=run.vectors[3])
    run.share()
    with pytest.raises(DataError, match="cannot take step SHARE after SHARE"):
        share(run.secrets[3], roster)
    with pytest.raises(DataError, match="cannot take step UNMASK after SHARE"):
        unmask(run.secrets[3], Survivors(run.session.digest, (3, 13, 23)))
    run.mask()
    with pytest.raises(DataError, match="cannot take step MASK after MASK"):
        mask(run.secrets[3], run.inboxes[3], vector=run.vectors[3])


def test_one_set_of_survivors_is_answered_and_no_other():
    run = Run(vectors_of(4)).share().mask().unmask()
    secrets, question = run.secrets[3], run.total.question(run.session)
    assert unmask(secrets, question) == (secrets, run.revealed[3])  # the answer got lost
    with pytest.raises(DataError, match="two different sets of survivors in one session"):
        unmask(secrets, replace(question, participants=(3, 13, 23)))


def test_survivors_below_the_threshold_or_that_cannot_be_are_refused():
    run = Run(vectors_of(5), threshold=3).share()
    del run.outboxes[33]
    run.mask()
    digest, secrets = run.session.digest, run.secrets[3]
    with pytest.raises(BelowThreshold, match="2 of 5 participants are named as survivors, but the threshold is 3"):
        unmask(secrets, Survivors(digest, (3, 13)))
    for impossible in ((13, 23, 43), (3, 13, 33), (3, 13, 99)):  # without itself, without shares, a stranger
        with pytest.raises(DataError, match="not among the survivors, or one of them never sent it shares"):
            unmask(secrets, Survivors(digest, impossible))


def test_shares_of_too_few_or_for_another_participant_are_refused():
    run = Run(vectors_of(4)).share()
    inbox = route_shares(run.session, run.roster, messages=run.outboxes.values())[3]
    for wrong in (replace(inbox, participant=13), replace(inbox, sealed={**inbox.sealed, 99: b""})):
        with pytest.raises(DataError, match="shares that are for another participant, or from one that is not in"):
            mask(run.secrets[3], wrong, vector=run.vectors[3])
    with pytest.raises(BelowThreshold, match="2 of 4 participants sent shares"):
        mask(run.secrets[3], replace(inbox, sealed={13: inbox.sealed[13]}), vector=run.vectors[3])


@pytest.mark.parametrize("place", [0, 20, -1])  # the nonce, the text, the tag
def test_a_changed_share_is_noticed_by_its_recipient(place):
    run = Run(vectors_of(4)).share()
    sealed = bytearray(run.outboxes[13].sealed[3])
    sealed[place] ^= 1
    run.outboxes[13].sealed[3] = bytes(sealed)
    with pytest.raises(DataError, match="participant 3: the shares of participant 13 cannot be opened"):
        run.mask()


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(200)])
def test_shares_of_another_length_are_noticed(sealed):
    run = Run(vectors_of(4)).share()
    run.outboxes[13].sealed[3] = sealed
    with pytest.raises(DataError, match="the shares of participant 13 cannot be opened"):
        run.mask()


def test_shares_that_were_swapped_between_participants_are_noticed():
    run = Run(vectors_of(4)).share()
    run.outboxes[13].sealed[3] = run.outboxes[23].sealed[3]
    with pytest.raises(DataError, match="participant 3: the shares of participant 13 cannot be opened"):
        run.mask()


# Replays


def test_a_message_of_an_earlier_session_is_noticed_in_every_step():
    before = Run(vectors_of(4), name="round 1").share().mask(13).unmask()
    now = Run(vectors_of(4), name="round 2")
    with pytest.raises(Rejected, match="participant 3: Keys of another session; it may be a replayed one"):
        collect_keys(now.session, [before.keys[3], *now.keys.values()])
    with pytest.raises(DataError, match="message of another session in step SHARE"):
        share(now.secrets[3], before.roster)
    now.share()
    with pytest.raises(Rejected, match="Outbox of another session"):
        route_shares(now.session, now.roster, messages=[before.outboxes[3]])
    with pytest.raises(DataError, match="message of another session in step MASK"):
        mask(now.secrets[3], before.inboxes[3], vector=now.vectors[3])
    now.mask(13)
    with pytest.raises(Rejected, match="Masked of another session"):
        add_masked(now.session, now.roster, senders=now.inboxes, messages=[before.masked[3]])
    with pytest.raises(DataError, match="message of another session in step UNMASK"):
        unmask(now.secrets[3], before.total.question(before.session))
    now.unmask()
    with pytest.raises(DataError, match="message of another session in step UNMASK"):  # also after its answer
        unmask(now.secrets[3], before.total.question(before.session))
    with pytest.raises(Rejected, match="Revealed of another session"):
        recover_sum(now.session, now.roster, masked=now.total, messages=[before.revealed[3]])


def test_a_replayed_key_under_the_name_of_this_session_is_noticed():
    """By its owner, or, if the owner is shown its new key, by the others, who cannot open its shares."""
    before, now = (Run(vectors_of(4), name=name) for name in ("round 1", "round 2"))
    now.roster = collect_keys(now.session, now.keys.values())
    replayed = replace(now.roster, public={**now.roster.public, 3: before.keys[3].public})
    with pytest.raises(DataError, match="participant 3: its keys are missing from the key list or were replaced"):
        share(now.secrets[3], replayed)
    now.share_with({3: now.roster, 13: replayed, 23: replayed, 33: replayed})
    with pytest.raises(DataError, match="cannot be opened: they were changed on the way, or belong to another session"):
        now.mask()


def test_replayed_shares_under_the_name_of_this_session_are_noticed():
    """Even if a participant used the same keys again, which `advertise` never does."""
    before, now = (Run(vectors_of(4), name=name) for name in ("round 1", "round 2"))
    for member, secrets in before.secrets.items():
        now.secrets[member] = replace(secrets, session=now.session)
        now.keys[member] = replace(before.keys[member], session=now.session.digest)
    before.share()
    now.share()
    now.outboxes[13] = replace(before.outboxes[13], session=now.session.digest)
    with pytest.raises(DataError, match="the shares of participant 13 cannot be opened"):
        now.mask()


def test_participants_who_were_told_different_terms_notice_it():
    """A higher threshold for one of them: its session is another one, whatever the messages say."""
    run = Run(vectors_of(4), threshold=3)
    run.secrets[3], keys = advertise(replace(run.session, threshold=4), 3)
    with pytest.raises(Rejected, match="participant 3: Keys of another session"):
        collect_keys(run.session, [keys, *(run.keys[m] for m in (13, 23, 33))])
    run.keys[3] = replace(keys, session=run.session.digest)
    roster = collect_keys(run.session, run.keys.values())
    with pytest.raises(DataError, match="message of another session in step SHARE"):
        share(run.secrets[3], roster)


# What the server refuses


def test_the_server_accepts_one_message_of_each_participant_and_no_strangers():
    run = Run(vectors_of(4))
    with pytest.raises(Rejected, match="sent Keys twice; keep the first") as error:
        collect_keys(run.session, [*run.keys.values(), run.keys[13]])
    assert error.value.participant == 13
    with pytest.raises(Rejected, match="participant 99: Keys from one who is not a member"):
        collect_keys(run.session, [*run.keys.values(), replace(run.keys[3], participant=99)])
    with pytest.raises(DataError, match="participant 99 is not one of its members"):
        advertise(run.session, 99)


def test_shares_that_are_missing_for_somebody_are_noticed_by_the_server():
    run = Run(vectors_of(4)).share()
    del run.outboxes[13].sealed[3]
    with pytest.raises(Rejected, match="participant 13: did not send shares for exactly the others"):
        run.mask()


def test_one_who_missed_a_step_cannot_come_back():
    run = Run(vectors_of(4)).share()
    late = run.outboxes.pop(3)
    run.mask()
    message = Masked(run.session.digest, 3, b"", b"")
    with pytest.raises(Rejected, match=r"participant 3: Masked from one who .* missed an earlier step"):
        add_masked(run.session, run.roster, senders=run.inboxes, messages=[*run.masked.values(), message])
    assert late.participant == 3


def test_a_vector_masked_for_other_senders_is_noticed():
    run = Run(vectors_of(4), threshold=3).share()
    inboxes = route_shares(run.session, run.roster, messages=run.outboxes.values())
    fewer = replace(inboxes[3], sealed={m: s for m, s in inboxes[3].sealed.items() if m != 33})
    _, other = mask(run.secrets[3], fewer, vector=run.vectors[3])
    run.mask()
    run.masked[3] = other
    with pytest.raises(Rejected, match="participant 3: masked its vector for another key list or other senders"):
        run.unmask()


def test_a_masked_vector_of_another_length_is_noticed():
    run = Run(vectors_of(4)).share().mask()
    run.masked[3] = replace(run.masked[3], numbers=run.masked[3].numbers[:-1])
    with pytest.raises(Rejected, match="participant 3: its masked vector has 9 bytes, not 5 times 2"):
        run.unmask()


def test_a_changed_masked_vector_gives_a_sum_that_is_out_of_bounds():
    """If the change is large: 2 bytes hold 65,536 values, and 4 numbers up to 1,000 add up to at most 4,000."""
    run = Run(vectors_of(4)).share().mask()
    numbers = bytearray(run.masked[3].numbers)
    numbers[1] ^= 0x80  # half of 65,536
    run.masked[3] = replace(run.masked[3], numbers=bytes(numbers))
    run.unmask()
    with pytest.raises(DataError, match="a sum is larger than 4 vectors within the bound can give"):
        run.recover()


def changed_share(message: Revealed, owner: int) -> Revealed:
    """With a wrong share of one participant's seed."""
    value = (int.from_bytes(message.seeds[owner]) + 1).to_bytes(SHARE_BYTES)
    return replace(message, seeds={**message.seeds, owner: value})


@pytest.mark.parametrize("owner", [3, 43])
def test_a_wrong_share_is_found_and_named_if_there_are_more_than_needed(owner):
    run = Run(vectors_of(6), threshold=4).share().mask(53).unmask()
    run.revealed[13] = changed_share(run.revealed[13], owner)
    result = run.recover()
    assert result.total.tolist() == plain_sum(run.vectors, without=(53,))
    assert result.wrong == (13,)


def test_a_wrong_share_of_a_key_is_found_as_well():
    run = Run(vectors_of(6), threshold=4).share().mask(53).unmask()
    message = run.revealed[3]
    run.revealed[3] = replace(message, keys={53: b"\xff" * SHARE_BYTES})
    result = run.recover()
    assert (result.total.tolist(), result.wrong) == (plain_sum(run.vectors, without=(53,)), (3,))


def test_a_wrong_share_without_one_to_spare_loses_the_sum_in_words():
    run = Run(vectors_of(6), threshold=5).share().mask(53).unmask()
    run.revealed[13] = changed_share(run.revealed[13], 43)
    with pytest.raises(DataError, match=r"5 shares of participant 43 do not give what it advertised.*without partici"):
        run.recover()


def test_wrong_shares_of_a_dealer_lose_the_sum_and_name_the_dealer():
    run = Run(vectors_of(6), threshold=4)
    run.secrets[23] = replace(run.secrets[23], seed=b"x" * 32)  # not the one that it committed to
    run.share().mask().unmask()
    with pytest.raises(DataError, match="6 shares of participant 23 do not give what it advertised"):
        run.recover()


def test_an_answer_that_was_not_asked_for_is_noticed():
    run = Run(vectors_of(5), threshold=3).share().mask(43).unmask()
    message = run.revealed[3]
    for wrong in (
        replace(message, keys={}),
        replace(message, seeds={**message.seeds, 43: message.seeds[3]}),
        replace(message, seeds={**message.seeds, 13: b"short"}),
    ):
        with pytest.raises(Rejected, match=r"participant 3: (did not send the shares|shares must have 33 bytes)"):
            recover_sum(run.session, run.roster, masked=run.total, messages=[wrong])


def test_the_server_goes_on_without_one_whose_message_it_rejects():
    run = Run(vectors_of(5), threshold=3).share().mask()
    run.masked[13] = replace(run.masked[13], context=b"other")
    with pytest.raises(Rejected) as error:
        run.unmask()
    del run.masked[error.value.participant]
    assert run.unmask().recover().total.tolist() == plain_sum(run.vectors, without=(13,))
