"""Requests drawn from the OpenAPI description, valid and invalid ones: no failure, and every answer as described."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.served import PATIENCE, post, served
from tests.support.small_model import home, saved_model

pytest.importorskip("schemathesis", reason="schemathesis is not installed")

# What fits the description may still be no home that the model knows, so that valid requests may be 422; and a batch
# with a bad home is 200, with an error for that home.
EXCEPT = "positive_data_acceptance,negative_data_rejection"
QUICK, LONG = 15, 700  # requests for each route and kind of drawing


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    path = saved_model(tmp_path_factory.mktemp("models") / "model.safetensors")
    with served([path]) as made:
        yield made
        assert "Traceback" not in made.log.read_text()
        assert post(made, "/v1/recommend", home()).status_code == 200


def fuzzed(service, folder, *options):
    """What schemathesis says; the same requests in every run."""
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run"]
    steady = ["--generation-deterministic", "--no-color", "--request-timeout", str(PATIENCE)]
    steady += ["--suppress-health-check", "too_slow"]
    return subprocess.run(
        [*command, f"{service.url}/openapi.json", *steady, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        timeout=30 * PATIENCE,
    )


def test_every_answer_is_as_described(service, tmp_path):
    done = fuzzed(service, tmp_path, "--exclude-checks", EXCEPT, "--max-examples", str(QUICK))
    assert done.returncode == 0, done.stdout
    assert "Tested: 7" in done.stdout


def test_what_does_not_fit_the_description_is_refused(service, tmp_path):
    only = ["--include-path", "/v1/recommend", "--mode", "negative", "--checks", "negative_data_rejection"]
    done = fuzzed(service, tmp_path, *only, "--max-examples", str(QUICK))
    assert done.returncode == 0, done.stdout
    assert "Tested: 1" in done.stdout


@pytest.mark.slow
def test_every_answer_is_as_described_for_minutes(service, tmp_path):
    done = fuzzed(service, tmp_path, "--exclude-checks", EXCEPT, "--max-examples", str(LONG))
    assert done.returncode == 0, done.stdout
