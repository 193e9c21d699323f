"""Whatever is wrong with an address or behind it, no word of the password is said."""

from __future__ import annotations

import logging
import traceback

import pytest

from datasets.common.errors import DataError

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")
pytest.importorskip("psycopg", reason="PostgreSQL needs the extra pipeline")

from fedrule.pipeline import Pipeline, TableConfig
from tests.support.pipeline_tables import DEVICES, RULES, fill

pytest_plugins = ("tests.support.postgres_server",)

WRONG = "s3cr3t/&é wrong"
QUOTED = "s3cr3t%2F%26%C3%A9%20wrong"
NOWHERE = "postgresql://127.0.0.1:1/homes"  # nobody listens there


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://localhost:s3cr3t/homes",  # the port is no number
        "postgresql://ann:4711471147114711",  # nor is this one: the host was forgotten
        "postgresql://ann:p@s3cr3t@localhost/homes",
        "postgresql://ann:p@x/s3cr3t@localhost/homes",
        "postgresql://ann:p/x@s3cr3t/homes",
        "postgresql://ann:p?x@s3cr3t/homes",
        "postgresql://localhost:5432/db?user=ann&password=p@s3cr3t",
        "postgresql://localhost:5432?user=ann&password=p@s3cr3t",
        "postgresql://localhost/db?sslpassword=s3cr3t@x",
        "postgresql://localhost/db&password=s3cr3t",  # no ? before the options
        "postgresql://localhost/db;password=s3cr3t",
        "postgresql://localhost password=s3cr3t",
        "postgresql://ann s3cr3t:x@local host/db",
        "postgresql://ann:s3cr3t%00x@localhost/homes",
        "postgresql://ann:s3cr3t@localhost/homes%00",
        "postgresql://localhost/homes?password=s3cr3t%00",
        "jdbc:postgresql://localhost/homes?user=ann&password=s3cr3t",
        "host=localhost dbname=homes password=s3cr3t",
        "ann:s3cr3t@localhost",
        "ann:s3cr3t@localhost/homes.db",
        "postgresql:/ann:s3cr3t@localhost/homes.db",
        "//ann:s3cr3t@localhost/homes.db",
        "mysql://ann:s3cr3t@localhost/homes",
        "s3cr3t://ann",
        "s3cr3t+s3cr3t://ann",
        "mysql+s3cr3t://ann",
        "sqlite://",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_repeated(address):
    with pytest.raises(DataError, match="url of devices") as caught:
        Pipeline(TableConfig(address), TableConfig())
    words = "".join(traceback.format_exception(caught.value))
    assert not [secret for secret in ("s3cr3t", "4711") if secret in words]


@pytest.mark.parametrize("address", ["postgresql://ann:x@db1:5433/homes", " postgresql://ann:x@db1:5433/homes\n"])
def test_an_address_may_have_blanks_around_it(address):
    assert repr(Pipeline(TableConfig(address), TableConfig()).databases["rules"]) == "<PostgreSQL db1:5433/homes>"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("postgresql://ann:p%40s3cr3t@[::1]/homes", "PostgreSQL ::1/homes"),
        ("postgresql://ann:p#s3cr3t@db1,db2/homes", "PostgreSQL db1,db2/homes"),
        ("postgresql://?host=/var/run&user=ann&password=s3cr3t", "PostgreSQL /var/run/"),
        ("postgresql://?host=db1&host=db2&password=s3cr3t", "PostgreSQL db1,db2/"),
        ("postgresql://?host=db1 password=s3cr3t", "PostgreSQL ***/"),
    ],
)
def test_only_host_and_database_are_shown(address, place):
    pipeline = Pipeline(TableConfig(address), TableConfig())
    assert repr(pipeline) == f"<Pipeline 'pipeline': devices in {place}, rules in {place}>"


def told(pipeline: Pipeline, caplog: pytest.LogCaptureFixture) -> str:
    """Everything that a failing pipeline says: its error with the traceback, its log, its names."""
    with caplog.at_level(logging.DEBUG), pytest.raises(DataError) as caught:
        pipeline.load()
    at = [*pipeline._config.values(), *pipeline.databases.values()]
    words = [
        *traceback.format_exception(caught.value),
        *caplog.messages,
        *map(repr, [pipeline, *at]),
        repr(caught.value),
    ]
    return "\n".join(words)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (f"{NOWHERE}?user=ann&password=s3cr3t&s3cr3t=1", "unknown to PostgreSQL; known: application_name, "),
        (f"{NOWHERE}?pasword=s3cr3t", "unknown to PostgreSQL"),
        (f"{NOWHERE}?password=s3cr3t&password=s3cr3t", "PostgreSQL 127.0.0.1:1/homes: "),
        (f"{NOWHERE}?sslpassword=s3cr3t&sslmode=s3cr3t", 'invalid sslmode value: "***"'),
        (f"{NOWHERE}?passfile=/s3cr3t/file&password=x12345", "PostgreSQL 127.0.0.1:1/homes: "),
        (f"{NOWHERE}?options=-c%20own.word%3Ds3cr3t&sslmode=s3cr3t", 'invalid sslmode value: "***"'),
        (f"postgresql://ann:s3cr3t@{64 * 'a'}.example/homes", f"PostgreSQL {64 * 'a'}.example/homes: "),
    ],
)
def test_what_the_driver_refuses_is_one_error_without_the_password(caplog, address, message):
    words = told(Pipeline(TableConfig(address), TableConfig(), retries=0), caplog)
    assert message in words
    assert "s3cr3t" not in words
    assert words.count("Traceback") == 1  # the driver's own error is not behind it


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda url: url.replace("@127.0.0.1", "@no-such-host.invalid"), "PostgreSQL no-such-host.invalid:"),
        (lambda url: url.rpartition(":")[0] + ":1/postgres", "PostgreSQL 127.0.0.1:1/postgres: "),
        (lambda url: url, 'password authentication failed for user "***"'),
        (lambda url: url + "?password=" + QUOTED, "password authentication failed"),
        (lambda url: url + "?sslmode=" + QUOTED, 'invalid sslmode value: "***"'),  # the driver repeats what it is given
    ],
)
def test_a_server_that_cannot_be_reached_is_named_without_the_password(postgres, caplog, change, message):
    url = change(postgres.url(password=QUOTED))
    words = told(Pipeline(TableConfig(url), TableConfig(), retries=1, pause=0), caplog)
    assert message in words
    assert not [secret for secret in (WRONG, QUOTED, "s3cr3t") if secret in words]


def test_a_setting_that_the_server_refuses_is_not_repeated(postgres, caplog):
    url = f"{postgres.url()}?options=-c%20work_mem%3Ds3cr3t"
    words = told(Pipeline(TableConfig(url), TableConfig(), retries=0), caplog)
    assert 'invalid value for parameter "***"' in words
    assert "s3cr3t" not in words


@pytest.mark.parametrize("at", [{"table": "gone"}, {"schema": "gone"}, {"columns": {"user": "gone"}}])
def test_what_is_missing_is_named_without_the_password(postgres, caplog, at):
    fill(postgres.url(), "devices", DEVICES)
    fill(postgres.url(), "rules", RULES)
    words = told(Pipeline(TableConfig(postgres.url(), **at), TableConfig()), caplog)
    assert "'gone'" in words
    assert postgres.password not in words


def test_a_short_password_silences_the_driver_since_cutting_it_out_would_show_it(postgres, caplog):
    words = told(Pipeline(TableConfig(postgres.url(password="fa")), TableConfig(), retries=0), caplog)
    assert "the driver's message is withheld" in words
    assert "authentication failed" not in words
