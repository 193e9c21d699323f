"""Whatever is in the tables, a pipeline gives what `from_tables` makes of them, in whatever databases they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.readers.tables import from_tables

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

from fedrule.pipeline import Pipeline, TableConfig
from tests.support.pipeline_tables import fill, spelled, tables

pytest_plugins = ("tests.support.postgres_server",)


@pytest.fixture(scope="module")
def places(request, tmp_path_factory) -> tuple[object, object]:
    """Where the devices are and where the rules are."""
    folder = tmp_path_factory.mktemp("databases")
    known = {"file": lambda: folder / "a.db", "another": lambda: folder / "b.db"}
    known["server"] = lambda: request.getfixturevalue("postgres").url()
    return tuple(known[place]() for place in request.param)


BOTH = [("file", "file"), ("file", "another"), ("server", "server"), ("server", "file"), ("file", "server")]


@pytest.mark.parametrize("places", BOTH, indirect=True, ids="-".join)
@settings(max_examples=10)
@given(both=tables(), rows=st.integers(1, 5), size=st.integers(1, 4), add=st.booleans())
def test_a_pipeline_equals_the_tables_that_it_reads(places, both, rows, size, add):
    for place, kind, table in zip(places, ("devices", "rules"), both, strict=True):
        fill(place, kind, table)
    options = {"add_devices": add, "on_error": "skip"}
    pipeline = Pipeline(*(TableConfig(str(place)) for place in places), rows=rows, **options)
    expected = from_tables(*both, **options)
    homes = pipeline.load()
    assert spelled(homes) == spelled(expected)
    assert (homes.types, homes.relations) == (expected.types, expected.relations)
    assert homes.users.tolist() == expected.users.tolist()
    assert homes.device_ids.tolist() == expected.device_ids.tolist()
    assert sorted(homes.rules.group) == sorted(expected.rules.group)
    assert homes.provenance.counts == expected.provenance.counts
    if add:  # a device that a rule adds may be another home's, which a part does not know
        return
    parts = list(pipeline.batches(size))
    assert {user: home for part in parts for user, home in spelled(part).items()} == spelled(expected)
    assert sum(part.n_rules for part in parts) == expected.n_rules
    owners = {str(user) for user in both[0]["user"]}
    wanted = {user: home for user, home in spelled(expected).items() if user in owners}
    assert spelled(pipeline.load(users=owners)) == wanted
