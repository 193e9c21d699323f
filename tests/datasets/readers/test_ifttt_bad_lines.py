"""Bad lines of the RecRules files: named with file and line, or skipped and listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasets.common.errors import DataError
from datasets.readers.ifttt import ifttt_full
from tests.support.ifttt_files import PARTS, RULES, write, write_recrules


@pytest.fixture
def recrules(tmp_path: Path) -> Path:
    return write_recrules(tmp_path)


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
        ("testset", "ann\t1\t5.0", r"testset line 2: the user is not a whole number below 2\^63 \(ann\)"),
        ("testset", f"{2**63}\t1\t5.0", "testset line 2: the user is not a whole number"),
        ("testset", "-1\t1\t5.0", "testset line 2: the user is not a whole number"),
        ("validationset", "7\t1\tnan", r"validationset line 3: the rating is not a number \(nan\)"),
        ("validationset", "7\t1\tgood", "validationset line 3: the rating is not a number"),
        ("rules", "5 trigger_weather_sunset", "rules line 5: the line is not a rule .*; expected rule id TAB trigger_"),
        ("rules", "5\tweather_sunset;action_sms_x", "rules line 5: the line is not a rule"),
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
            "rules line 5: the rule id is used for another rule above",
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


def test_another_answer_to_bad_lines_than_raise_or_skip_is_refused(recrules: Path) -> None:
    with pytest.raises(DataError, match="unknown value of on_error 'ignore'"):
        ifttt_full(recrules, on_error="ignore")
