"""IFTTT: the counts on the real files, the RecRules layout, and the names of services."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.common.errors import DataError
from datasets.readers.ifttt import SERVICES, ifttt_fedrule, ifttt_full, service_and_event
from datasets.registry import get
from tests.support.ifttt_files import write_recrules
from tests.support.real_data import needs_real, real


@pytest.fixture
def recrules(tmp_path: Path) -> Path:
    return write_recrules(tmp_path)


@needs_real("ifttt")
def test_the_full_preset_has_the_known_counts_of_the_real_files() -> None:
    homes = ifttt_full(real("ifttt"))
    counts = homes.provenance.counts
    assert (counts["rule rows"], counts["distinct pairs of user and rule"]) == (8_729, 8_727)
    assert (counts["users in trainset"], counts["users"]) == (144, 151)
    assert counts["distinct rules in trainset"] == 3_020
    assert (counts["services"], len(homes.types)) == (178, 178)
    assert set(homes.types) == SERVICES
    assert (homes.n_homes, homes.n_rules) == (151, 8_727)
    assert counts["duplicate rules"] == 2  # 8,729 - 8,727
    assert homes.provenance.skipped == ()


@needs_real("ifttt")
def test_the_fedrule_preset_has_the_known_counts_of_the_real_files() -> None:
    homes = ifttt_fedrule(real("ifttt"))
    assert (len(homes.types), len(homes.relations), homes.n_rules, homes.n_homes) == (53, 139, 3_722, 130)
    assert homes.provenance.counts["rules left out as their pair is rare"] == 8_727 - 3_722


@needs_real("ifttt")
def test_each_preset_says_how_it_differs_from_the_paper() -> None:
    full, fedrule = ("\n".join(load(real("ifttt")).provenance.notes) for load in (ifttt_full, ifttt_fedrule))
    for ours, paper in (("151", "144"), ("8,727", "8,729"), ("3,992", "3,020"), ("178", "53"), ("3,450", "132")):
        assert any(ours in note and f"against {paper} in the paper" in note for note in full.split("\n"))
    assert "53 entities as in the paper" in fedrule
    assert "139 trigger-action pairs against 132 in the paper" in fedrule
    assert "seen more than 7 times stay: 3,722 rules of 8,729 rows, 130 users of 151" in fedrule


@needs_real("ifttt")
def test_the_trainset_alone_has_the_papers_users_and_distinct_rules() -> None:
    statistics = ifttt_full(real("ifttt"), part="trainset").describe().statistics
    assert (statistics["homes"], statistics["distinct rules"]) == (144, 3_020)


def test_a_user_owns_one_device_per_service_of_its_rules(recrules: Path) -> None:
    homes = ifttt_full(recrules)
    assert homes.users.tolist() == [7, 10, 11]
    user = homes.home(0)
    owned = ["email_digest", "facebook_pages", "gmail", "philips_hue", "weather", "wemo_switch"]
    assert [(device.id, device.type) for device in user.devices] == [(name, name) for name in owned]
    assert [(r.trigger.type, *r.relation, r.action.type) for r in user.rules][:2] == [
        ("weather", "sunset", "turn_on_lights", "philips_hue"),
        ("facebook_pages", "new_link_post_on_page", "add_to_daily_digest", "email_digest"),
    ]


def test_rules_that_differ_only_in_their_label_become_one(recrules: Path) -> None:
    # 3 + 1 + 2 rows; rules 3 and 4 of user 7 are the same once `-lights` and `-radio` are cut: 5 left.
    homes = ifttt_full(recrules)
    assert homes.n_rules == 5
    counts = homes.provenance.counts
    assert (counts["rule rows"], counts["distinct pairs of user and rule"], counts["duplicate rules"]) == (6, 5, 1)
    assert (counts["rules listed"], counts["distinct rules"], counts["users in testset"]) == (4, 3, 1)


def test_one_part_alone_can_be_read_without_the_others(recrules: Path) -> None:
    (recrules / "testset").unlink()
    assert ifttt_full(recrules, part="validationset").users.tolist() == [7, 11]
    with pytest.raises(DataError, match="testset not found in the folder of rules"):
        ifttt_full(recrules)
    with pytest.raises(DataError, match="did you mean 'trainset'"):
        ifttt_full(recrules, part="train_set")


def test_rare_pairs_leave_with_their_services_and_users(recrules: Path) -> None:
    # Pairs: sunset -> turn_on_lights 2 (users 7, 10), new_link_post -> digest 2 (7, 11), starred -> turn_on 1.
    homes = ifttt_full(recrules, min_pair_count=2)
    assert homes.types == ("email_digest", "facebook_pages", "philips_hue", "weather")
    assert (homes.n_rules, len(homes.relations)) == (4, 2)
    assert homes.provenance.counts["rules left out as their pair is rare"] == 1
    with pytest.raises(DataError, match="leaves no rule: the commonest pair is seen 2 times"):
        ifttt_fedrule(recrules)
    with pytest.raises(DataError, match="min_pair_count must be at least 1, got 0"):
        ifttt_full(recrules, min_pair_count=0)


def test_the_longest_service_name_counts() -> None:
    assert service_and_event("email_send_me_an_email") == ("email", "send_me_an_email")
    assert service_and_event("email_digest_add_to_daily_digest") == ("email_digest", "add_to_daily_digest")
    assert service_and_event("is_it_christmas_is_it_christmas") == ("is_it_christmas", "is_it_christmas")
    assert service_and_event("wemo_switch_turn_on_then_off-tv") == ("wemo_switch", "turn_on_then_off")
    assert len(SERVICES) == 178


@given(st.sampled_from(sorted(SERVICES)), st.sampled_from(["zz", "zz_zz", "zz-label", "zz_zz-a-b"]))
def test_every_service_is_found_before_any_event(service: str, event: str) -> None:
    assert service_and_event(f"{service}_{event}") == (service, event.partition("-")[0])


@pytest.mark.parametrize("text", ["gmail", "gmail_", "gmail_-x", "nosuch_service", "", "gmailx_new_email"])
def test_a_text_without_a_service_and_an_event_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="no known service"):
        service_and_event(text)


def test_the_presets_are_registered_with_their_files() -> None:
    for name, more in (("ifttt-full", set()), ("ifttt-fedrule", {"cut"})):
        found = get(name)
        assert (found.folder, found.files) == ("ifttt", ("rules", "trainset", "testset", "validationset"))
        assert set(found.options) == {"min_pair_count", "part", "on_error"} | more


def test_the_papers_numbers_are_laid_beside_the_files_that_it_took(recrules: Path) -> None:
    assert ifttt_full(recrules).provenance.published == "ifttt-paper"
    assert ifttt_full(recrules, min_pair_count=2).provenance.published == "ifttt-paper"


def test_users_without_a_common_pair_leave_and_are_counted(recrules: Path) -> None:
    # User 12 has only a pair that nobody else has.
    with (recrules / "trainset").open("a") as stream:
        stream.write("12\t3\t1.0\n")
    with (recrules / "rules").open("a") as stream:
        stream.write("5\ttrigger_weather_sunset;action_sms_send\n")
    (recrules / "trainset").write_text((recrules / "trainset").read_text().replace("12\t3", "12\t5"))
    homes = ifttt_full(recrules, min_pair_count=2)
    assert homes.users.tolist() == [7, 10, 11]
    assert homes.provenance.counts["homes left out as too small"] == 1
