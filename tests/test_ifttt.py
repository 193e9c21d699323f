"""IFTTT in its three layouts: the counts on the real files, small files of each layout, and every kind of bad line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.errors import DataError
from datasets.ifttt import ifttt_fedrule, ifttt_full
from datasets.ifttt.crawls import UR_FIELDS
from datasets.ifttt.recognise import layout_of
from datasets.ifttt.services import SERVICES, service_and_event
from datasets.registry import get

REAL = Path(os.environ.get("FEDRULE_DATA", "")) / "ifttt"
real = pytest.mark.skipif(
    not (os.environ.get("FEDRULE_DATA") and REAL.is_dir()), reason="FEDRULE_DATA names no folder with ifttt"
)

RULES = [
    "1\ttrigger_weather_sunset;action_philips_hue_turn_on_lights",
    "2\ttrigger_facebook_pages_new_link_post_on_page;action_email_digest_add_to_daily_digest",
    "3\ttrigger_gmail_new_starred_email_in_inbox;action_wemo_switch_turn_on-lights",
    "4\ttrigger_gmail_new_starred_email_in_inbox;action_wemo_switch_turn_on-radio",
]
PARTS = {
    "trainset": ["7\t1\t5.0", "7\t2\t1.0", "10\t1\t2.0"],
    "testset": ["7\t3\t4.0"],
    "validationset": ["7\t4\t4.0", "11\t2\t3.0"],
}


def write(path: Path, lines: list[str], *, end: str = "\n") -> Path:
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


@pytest.fixture
def recrules(tmp_path: Path) -> Path:
    write(tmp_path / "rules", RULES)
    for name, lines in PARTS.items():
        write(tmp_path / name, lines)
    return tmp_path


def ur_line(user: str = "ann", trigger: str = "Any new photo by you", number: int = 1) -> str:
    told = [str(number), "Keep my photos", user, "May 1, 2014", "520"]
    return "\t".join([*told, "Instagram", trigger, "fires ...", "Dropbox", "Add file from URL", "will ..."])


def mi_line(**changed: object) -> str:
    recipe = {
        "creatorName": "ann",
        "triggerChannelTitle": "Instagram",
        "triggerTitle": "Any new photo by you",
        "actionChannelTitle": "Dropbox",
        "actionTitle": "Add file from URL",
        "addCount": "12",
    }
    return json.dumps(recipe | changed)


# --- the real files -------------------------------------------------------------------------------------------------


@real
def test_the_full_preset_has_the_known_counts_of_the_real_files() -> None:
    homes = ifttt_full(REAL)
    counts = homes.provenance.counts
    assert (counts["rule rows"], counts["distinct pairs of user and rule"]) == (8_729, 8_727)
    assert (counts["users in trainset"], counts["users"]) == (144, 151)
    assert counts["distinct rules in trainset"] == 3_020
    assert (counts["services"], len(homes.types)) == (178, 178)
    assert set(homes.types) == SERVICES
    assert (homes.n_homes, homes.n_rules) == (151, 8_727)
    assert counts["duplicate rules"] == 2  # 8,729 - 8,727
    assert homes.provenance.skipped == ()


@real
def test_the_fedrule_preset_has_the_known_counts_of_the_real_files() -> None:
    homes = ifttt_fedrule(REAL)
    assert (len(homes.types), len(homes.relations), homes.n_rules, homes.n_homes) == (53, 139, 3_722, 130)
    assert homes.provenance.counts["rows left out as their pair is rare"] == 8_729 - 3_722


@real
def test_each_preset_says_how_it_differs_from_the_paper() -> None:
    full, fedrule = ("\n".join(load(REAL).provenance.notes) for load in (ifttt_full, ifttt_fedrule))
    for ours, paper in (("151", "144"), ("8,727", "8,729"), ("3,992", "3,020"), ("178", "53"), ("3,450", "132")):
        assert any(ours in note and f"against {paper} in the paper" in note for note in full.split("\n"))
    assert "53 entities as in the paper" in fedrule
    assert "139 trigger-action pairs against 132 in the paper" in fedrule
    assert "seen more than 7 times stay: 3,722 rules of 8,729 rows, 130 users of 151" in fedrule


@real
def test_the_trainset_alone_has_the_papers_users_and_distinct_rules() -> None:
    statistics = ifttt_full(REAL, part="trainset").describe().statistics
    assert (statistics["homes"], statistics["distinct rules"]) == (144, 3_020)


# --- RecRules -------------------------------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match="testset not found beside rules"):
        ifttt_full(recrules)
    with pytest.raises(DataError, match="did you mean 'trainset'"):
        ifttt_full(recrules, part="train_set")


def test_rare_pairs_leave_with_their_services_and_users(recrules: Path) -> None:
    # Pairs: sunset -> turn_on_lights 2 (users 7, 10), new_link_post -> digest 2 (7, 11), starred -> turn_on 1.
    homes = ifttt_full(recrules, min_pair_count=2)
    assert homes.types == ("email_digest", "facebook_pages", "philips_hue", "weather")
    assert (homes.n_rules, len(homes.relations)) == (4, 2)
    assert homes.provenance.counts["rows left out as their pair is rare"] == 2
    with pytest.raises(DataError, match="leaves no rule: the commonest pair is seen 2 times"):
        ifttt_fedrule(recrules)
    with pytest.raises(DataError, match="min_pair_count=0"):
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


# --- the two crawls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [[], ["\t".join(UR_FIELDS)], ["\t".join(UR_FIELDS).upper()]])
def test_the_tsv_is_read_with_and_without_a_header(tmp_path: Path, header: list[str]) -> None:
    write(tmp_path / "anything", [*header, ur_line(), ur_line("bob"), ur_line("bob", number=3)])
    homes = ifttt_full(tmp_path)
    assert homes.users.tolist() == ["ann", "bob"]
    assert homes.types == ("Dropbox", "Instagram")
    assert homes.relations == (("Any new photo by you", "Add file from URL"),)
    assert homes.provenance.counts["duplicate rules"] == 1
    assert "this is the crawl of Ur et al. 2016" in homes.provenance.notes[0]


def test_a_header_in_another_order_counts(tmp_path: Path) -> None:
    swapped = [["\t".join(reversed(line.split("\t")))] for line in ("\t".join(UR_FIELDS), ur_line())]
    homes = ifttt_full(write(tmp_path / "recipes.tsv", [line for part in swapped for line in part]))
    assert homes.home(0).rules[0].relation == ("Any new photo by you", "Add file from URL")


def test_a_quoted_header_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "r.tsv", ["\t".join(f'"{field}"' for field in UR_FIELDS), ur_line()])
    with pytest.raises(DataError, match=r"r\.tsv line 1: the fields are quoted; write the file without quotes"):
        ifttt_full(file)


def test_quotes_in_the_tsv_are_characters_like_any_other(tmp_path: Path) -> None:
    homes = ifttt_full(write(tmp_path / "r.tsv", [ur_line(user='"ann'), ur_line(trigger='New "photo"')]))
    assert homes.users.tolist() == ['"ann', "ann"]
    assert homes.relations[1].trigger == 'New "photo"'


def test_json_lines_are_read(tmp_path: Path) -> None:
    lines = [mi_line(), mi_line(creatorName="Zoë", triggerTitle=" You like a photo "), mi_line(addCount=None)]
    homes = ifttt_full(write(tmp_path / "recipes.json", lines))
    assert homes.users.tolist() == ["Zoë", "ann"]
    assert [relation.trigger for relation in homes.relations] == ["Any new photo by you", "You like a photo"]
    assert "this is the crawl of Mi et al. 2017" in homes.provenance.notes[0]


def test_only_recrules_comes_in_parts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="part='trainset': only RecRules comes in parts"):
        ifttt_full(write(tmp_path / "recipes.json", [mi_line()]), part="trainset")


# --- which layout it is ---------------------------------------------------------------------------------------------


def test_the_layout_is_told_by_content_and_not_by_name(tmp_path: Path) -> None:
    assert layout_of(write(tmp_path / "recipes.json", [ur_line()])) == "Ur et al. 2016"
    assert layout_of(write(tmp_path / "rules", [mi_line()])) == "Mi et al. 2017"
    assert layout_of(write(tmp_path / "recipes.tsv", RULES)) == "RecRules"
    assert layout_of(write(tmp_path / "trainset", PARTS["trainset"])) is None
    assert layout_of(write(tmp_path / "late", ["rubbish", "", ur_line()])) == "Ur et al. 2016"


def test_a_folder_and_the_file_in_it_are_the_same_data(
    recrules: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (recrules / "README.md").write_text("# What this is\n")
    assert ifttt_full(recrules).fingerprint == ifttt_full(recrules / "rules").fingerprint
    folder = tmp_path_factory.mktemp("crawl")
    file = write(folder / "x", [ur_line()])
    assert ifttt_full(folder).fingerprint == ifttt_full(file).fingerprint


def test_a_folder_with_two_data_sets_or_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# nothing\n")
    with pytest.raises(
        DataError, match=r"holds no IFTTT data that is known; expected .* found a\.md begins with '# nothing'"
    ):
        ifttt_full(tmp_path)
    write(tmp_path / "one", [ur_line()])
    write(tmp_path / "two", [mi_line()])
    with pytest.raises(
        DataError, match=r"more than one data set: one \(Ur et al. 2016\), two \(Mi et al. 2017\); give"
    ):
        ifttt_full(tmp_path)


def test_the_presets_are_registered_with_their_files() -> None:
    for name in ("ifttt-full", "ifttt-fedrule"):
        found = get(name)
        assert (found.folder, found.files) == ("ifttt", ("rules", "trainset", "testset", "validationset"))
        assert set(found.options) == {"min_pair_count", "part", "on_error"}


# --- bad input ------------------------------------------------------------------------------------------------------


def test_byte_order_mark_crlf_and_blank_lines_change_nothing(recrules: Path) -> None:
    plain = ifttt_full(recrules).fingerprint
    for name in ("rules", *PARTS):
        lines = (recrules / name).read_text().splitlines()
        text = "\ufeff" + "\r\n".join(["", lines[0], "  ", *lines[1:], ""])
        (recrules / name).write_bytes(text.encode())
    assert ifttt_full(recrules).fingerprint == plain


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("trainset", "7\t99\t1.0", r"trainset line 4: the rule id is not among the good lines of `rules` \(99\); add"),
        ("trainset", "7\t1", "trainset line 4: the line has 2 of 3 fields .*; expected user TAB rule id TAB rating"),
        ("trainset", "7 1 5.0", "trainset line 4: the line has 1 of 3 fields"),
        ("testset", "ann\t1\t5.0", r"testset line 2: the user is no whole number below 2\^63 \(ann\)"),
        ("testset", f"{2**63}\t1\t5.0", "testset line 2: the user is no whole number"),
        ("testset", "-1\t1\t5.0", "testset line 2: the user is no whole number"),
        ("validationset", "7\t1\tnan", r"validationset line 3: the rating is no number \(nan\)"),
        ("validationset", "7\t1\tgood", "validationset line 3: the rating is no number"),
        ("rules", "5 trigger_weather_sunset", "rules line 5: the line is no rule .*; expected rule id TAB trigger_"),
        ("rules", "5\tweather_sunset;action_sms_x", "rules line 5: the line is no rule"),
        (
            "rules",
            "5\ttrigger_weather_sunset;action_toaster_toast",
            r"rules line 5: the action names no known service \(",
        ),
        (
            "rules",
            "5\ttrigger_sun_set;action_sms_send",
            r"rules line 5: the trigger names no known service \(trigger_sun_set",
        ),
        (
            "rules",
            "1\ttrigger_weather_sunset;action_sms_send",
            "rules line 5: the rule id stands for another rule above",
        ),
    ],
)
def test_a_bad_line_is_named_or_skipped_and_listed(recrules: Path, file: str, line: str, said: str) -> None:
    good = ifttt_full(recrules).fingerprint
    with (recrules / file).open("a") as stream:
        stream.write(f"{line}\n")
    number = len((recrules / file).read_text().splitlines())
    with pytest.raises(DataError, match=said):
        ifttt_full(recrules)
    skipped = ifttt_full(recrules, on_error="skip")
    assert skipped.fingerprint == good
    assert len(skipped.provenance.skipped) == 1
    assert skipped.provenance.skipped[0].startswith(f"{file}: 1 line skipped because")
    assert skipped.provenance.skipped[0].endswith(f": {number}")


def test_lines_that_lean_on_a_bad_rule_are_skipped_with_it(recrules: Path) -> None:
    write(recrules / "rules", [RULES[0], "2\trubbish", *RULES[2:]])
    homes = ifttt_full(recrules, on_error="skip")
    assert homes.users.tolist() == [7, 10]
    assert [sentence.partition(":")[0] for sentence in homes.provenance.skipped] == [
        "rules",
        "trainset",
        "validationset",
    ]


def test_a_last_rule_without_a_line_end_may_be_cut_off_and_is_refused(recrules: Path) -> None:
    (recrules / "rules").write_text("\n".join(RULES))
    with pytest.raises(DataError, match="rules line 4: the last line has no line end and may be cut off"):
        ifttt_full(recrules)


def test_a_last_row_without_a_line_end_is_taken_if_it_is_whole(recrules: Path) -> None:
    whole = ifttt_full(recrules).fingerprint
    (recrules / "trainset").write_text("\n".join(PARTS["trainset"]))
    assert ifttt_full(recrules).fingerprint == whole
    (recrules / "trainset").write_text("\n".join(PARTS["trainset"])[:-4])  # "10\t1": cut within the last row
    with pytest.raises(DataError, match="trainset line 3: the line has 2 of 3 fields"):
        ifttt_full(recrules)


@pytest.mark.parametrize("file", ["trainset", "rules"])
def test_a_line_that_is_not_utf8_is_named(recrules: Path, file: str) -> None:
    with (recrules / file).open("ab") as stream:
        stream.write(b"7\tcaf\xe9\t1.0\n")
    with pytest.raises(DataError, match=rf"{file} line \d: the line is not UTF-8 \(b'.xe9'\); save the file as UTF-8"):
        ifttt_full(recrules)
    assert "not UTF-8" in ifttt_full(recrules, on_error="skip").provenance.skipped[0]


@pytest.mark.parametrize("file", ["trainset", "testset", "validationset"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_refused_even_when_lines_may_be_skipped(recrules: Path, file: str, content: str) -> None:
    (recrules / file).write_text(content)
    with pytest.raises(DataError, match=f"{file} is empty"):
        ifttt_full(recrules, on_error="skip")


def test_an_empty_crawl_and_a_lone_header_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found r is empty"):
        ifttt_full(write(tmp_path / "r", []))
    with pytest.raises(DataError, match="holds no recipe that can be used"):
        ifttt_full(write(tmp_path / "r", ["\t".join(UR_FIELDS)]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (ur_line()[:40], "line 2: the line has 6 of 11 fields .*; expected id, description, author"),
        (ur_line(user=" "), r"line 2: author is missing or no text \(' '\); fill it in or remove the line"),
        (ur_line(trigger=""), "line 2: trigger is missing"),
        (ur_line() + "\tmore", "line 2: the line has 12 of 11 fields"),
    ],
)
def test_a_bad_line_of_the_tsv_is_named_or_skipped(tmp_path: Path, line: str, said: str) -> None:
    file = write(tmp_path / "r.tsv", [ur_line(), line, ur_line("bob")])
    with pytest.raises(DataError, match=said):
        ifttt_full(file)
    homes = ifttt_full(file, on_error="skip")
    assert homes.users.tolist() == ["ann", "bob"]
    assert homes.provenance.skipped[0].endswith(": 2")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (mi_line()[:-20], "line 2: the line is not JSON .*; expected one whole JSON object per line"),
        ("[1, 2]", "line 2: the line is no JSON object"),
        ("[" * 100_000, "line 2: the line is not JSON"),
        (mi_line(creatorName=None), "line 2: creatorName is missing or no text; fill"),
        (mi_line(actionTitle=5), r"line 2: actionTitle is missing or no text \(5\)"),
        ("{}", "line 2: creatorName is missing"),
    ],
)
def test_a_bad_line_of_the_json_is_named_or_skipped(tmp_path: Path, line: str, said: str) -> None:
    file = write(tmp_path / "recipes.json", [mi_line(), line, mi_line(creatorName="bob")])
    with pytest.raises(DataError, match=said):
        ifttt_full(file)
    homes = ifttt_full(file, on_error="skip")
    assert homes.users.tolist() == ["ann", "bob"]
    assert homes.provenance.skipped[0].endswith(": 2")


def test_all_bad_lines_of_a_kind_are_one_sentence_with_every_number(tmp_path: Path) -> None:
    lines = [mi_line() if number % 3 else "{" for number in range(1, 10)]
    homes = ifttt_full(write(tmp_path / "recipes.json", lines), on_error="skip")
    assert homes.provenance.skipped == ("recipes.json: 3 lines skipped because the line is not JSON: 3, 6, 9",)


def test_another_answer_to_bad_lines_than_raise_or_skip_is_refused(recrules: Path) -> None:
    with pytest.raises(DataError, match="on_error='ignore'"):
        ifttt_full(recrules, on_error="ignore")


NAME = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1).filter(
    str.strip
)


@given(st.lists(st.tuples(NAME, NAME, NAME, NAME, NAME), min_size=1, max_size=8))
def test_both_crawls_keep_every_recipe_whatever_the_names(
    tmp_path_factory: pytest.TempPathFactory, recipes: list[tuple[str, str, str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("crawl")
    fields = ("creatorName", "triggerChannelTitle", "triggerTitle", "actionChannelTitle", "actionTitle")
    mi = [json.dumps(dict(zip(fields, recipe, strict=True))) for recipe in recipes]
    ur = ["\t".join(["1", "", u, "", "", ts, t, "", ac, a, ""]) for u, ts, t, ac, a in recipes]
    expected = {tuple(text.strip() for text in recipe) for recipe in recipes}
    for homes in (ifttt_full(write(folder / "mi", mi)), ifttt_full(write(folder / "ur", ur))):
        got = {(h.user, r.trigger.id, *r.relation, r.action.id) for h in homes for r in h.rules}
        assert got == {(u, ts, t, a, ac) for u, ts, t, ac, a in expected}
