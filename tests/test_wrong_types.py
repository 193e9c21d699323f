"""Arguments of a wrong type: an error that says what is accepted, never a traceback from within."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import datasets
from datasets import DataError, from_tables
from datasets.common.options import read
from tests.datasets.readers.test_tables import DEVICES, RULES
from tests.support.two_homes import two_homes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_rules": "2"}, r"tables min_rules='2': expected int \(a whole number\)"),
        ({"min_rules": 1.5}, r"tables min_rules=1\.5: expected int"),
        ({"min_rules": True}, "tables min_rules=True: expected int"),
        ({"columns": ["a"]}, r"tables columns=\['a'\]: expected a mapping of texts to texts .* or none"),
        ({"columns": {"user": 0}}, "tables columns=.*expected a mapping"),
        ({"add_devices": "yes"}, "tables add_devices='yes': expected bool"),
        ({"on_error": None}, "tables on_error=None: expected str"),
        ({"path": 5}, "tables path=5: expected a path"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_by_name(tmp_path, options, expected):
    with pytest.raises(DataError, match=expected):
        datasets.load("tables", **{"path": tmp_path} | options)


@pytest.mark.parametrize("name", [None, 5, ["wyze"]])
def test_a_data_set_is_named_by_a_text(name):
    with pytest.raises(DataError, match=r"name of a data set=.*expected str"):
        datasets.load(name)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (np.int64(3), int),
        (3, float),
        (np.float32(0.5), float),
        (None, int | None),
        (np.True_, bool),
        ({"user": "u"}, Mapping[str, str] | None),
        ("anything", object),
        ("anything", "an annotation that nobody knows"),
    ],
)
def test_what_serves_as_well_is_let_through(value, annotation):
    assert read(annotation, value, where="x") == value


@pytest.mark.parametrize("source", [{"user": [1]}, None, 7, [DEVICES]])
def test_what_is_no_table_is_refused_with_what_would_be_one(source):
    accepted = "give the path of a CSV, TSV or Parquet file, a DataFrame or a pyarrow Table"
    with pytest.raises(DataError, match=rf"devices: {type(source).__name__} is not a table .*{accepted}"):
        from_tables(source, RULES)
    with pytest.raises(DataError, match="rules: "):
        from_tables(DEVICES, source)
    with pytest.raises(DataError, match="columns="):
        from_tables(DEVICES, RULES, columns=["user"])


def test_arrow_tables_are_read_like_frames():
    devices, rules = (pa.Table.from_pandas(frame) for frame in (DEVICES, RULES))
    assert from_tables(devices, rules).fingerprint == from_tables(DEVICES, RULES).fingerprint
    with pytest.raises(DataError, match="devices: 'type' holds list<"):
        from_tables(pa.table({"user": [1], "device": [1], "type": [["A"]]}), RULES)


@pytest.mark.parametrize("kind", ["frame", "arrow", "parquet"])
def test_whole_ids_that_a_gap_made_floats_meet_the_ids_of_the_other_table(tmp_path, kind):
    large = 123_456_789_012
    devices = pd.DataFrame({"user": [1, 1, 1], "device": [large, 2.0, None], "type": ["A", "B", "B"]})
    rules = RULES.assign(user=1, trigger_device=large, action_device=2)
    tables = [devices, rules]
    if kind == "arrow":
        tables = [pa.Table.from_pandas(table) for table in tables]
    elif kind == "parquet":
        for table, name in zip(tables, ("d.parquet", "r.parquet"), strict=True):
            table.to_parquet(tmp_path / name)
        tables = [tmp_path / "d.parquet", tmp_path / "r.parquet"]
    homes = from_tables(*tables, on_error="skip")
    assert homes.device_ids.tolist() == [2, large]
    assert homes.n_rules == 1


@pytest.mark.parametrize("homes", [5, np.int64(0), [[0], [1]]])
def test_a_subset_is_chosen_by_a_list(homes):
    with pytest.raises(DataError, match=r"subset: .* is not a list of homes"):
        two_homes().subset(homes)


@pytest.mark.parametrize("seed", ["a", 1.5, None, True])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(DataError, match=r"holdout seed=.*expected int"):
        datasets.split(two_homes(), seed=seed)


def test_importing_the_package_is_enough_for_what_the_readme_names():
    code = "import datasets; datasets.from_tables, datasets.negatives.sample"
    subprocess.run([sys.executable, "-c", code + ", datasets.submission.read_submission"], check=True)
