"""`deploy init` writes an app that is complete, never overwrites a key, and bad certificates are refused in words."""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="certificates need the extra flower")
pytest.importorskip("numba", reason="rounds need the extra graph")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from datasets.common.errors import DataError, install_hint
from fedrule.__main__ import main
from fedrule.commands import deploy
from fedrule.flower.app_folder import AppFolder, AppOptions, write_app
from fedrule.flower.certificates import check_certificates, make_certificates
from fedrule.flower.local_run import LocalRun
from fedrule.flower.processes import Deployment, last_line
from fedrule.flower.server.folder import ServerFolder
from fedrule.flower.vocabulary import Vocabulary
from tests.support.small_populations import population
from tests.support.two_homes import two_homes

OPTIONS = AppOptions("fedrule", {"rounds": 7, "weighting": "roots"}, nodes=3, hosts=("hub.example", "10.0.0.1"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> AppFolder:
    return write_app(tmp_path_factory.mktemp("deploy") / "app", Vocabulary.of(two_homes()), OPTIONS)


def test_the_app_has_its_configuration_and_the_vocabulary(made: AppFolder) -> None:
    content = tomllib.loads((made.app / "pyproject.toml").read_text())
    config = content["tool"]["flwr"]["app"]["config"]
    assert (config["method"], config["nodes"], config["seed"]) == ("fedrule", 3, 0)
    assert config["parameters"] == {"rounds": 7, "weighting": "roots"}
    assert content["tool"]["flwr"]["app"]["components"] == {
        "serverapp": "federation.server:app",
        "clientapp": "federation.client:app",
    }
    assert Vocabulary.read(made.app / "federation" / "vocabulary.json") == Vocabulary.of(two_homes())
    for side in ("client", "server"):
        compile((made.app / "federation" / f"{side}.py").read_text(), side, "exec")


def test_every_node_has_a_key_of_its_own_that_only_its_owner_reads(made: AppFolder) -> None:
    public = set()
    for node in range(3):
        path = made.key(node)
        assert path.stat().st_mode & 0o077 == 0
        private = load_ssh_private_key(path.read_bytes(), None)
        found = load_ssh_public_key(path.with_suffix(".pub").read_bytes())
        assert private.public_key() == found
        public.add(path.with_suffix(".pub").read_bytes())
    assert len(public) == 3
    assert made.tls.key.stat().st_mode & 0o077 == 0


def test_the_certificate_is_of_the_hosts_and_signed_by_the_authority(made: AppFolder) -> None:
    authority = x509.load_pem_x509_certificate(made.tls.authority.read_bytes())
    server = x509.load_pem_x509_certificate(made.tls.certificate.read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    # Beside the given names those by which its own machine and containers reach it.
    assert names.get_values_for_type(x509.DNSName) == ["hub.example", "localhost", "server"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "127.0.0.1"]
    made.check()


def test_the_page_says_what_to_expose_and_the_containers_are_valid(made: AppFolder) -> None:
    page = (made.path / "README.md").read_text()
    for words in ("`/v1/fleet`", "`/v1/control`", "`/v1/runtime`", "expose this one only", "keys/node-2.pub"):
        assert words in page
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra flower")
    content = yaml.safe_load((made.path / "docker-compose.yml").read_text())
    assert set(content["services"]) == {"server", "hub-1", "hub-2", "hub-3"}
    assert "ports" not in content["services"]["server"]  # nothing is published
    server = x509.load_pem_x509_certificate(made.tls.certificate.read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    host = re.search(r"--superlink ([^:]+):", content["services"]["hub-1"]["command"])
    assert host is not None
    assert host[1] in names.get_values_for_type(x509.DNSName)
    # Outside of a container the server listens on its own machine only, and the proxy on the outside address.
    assert "flower-superlink --host 127.0.0.1 " in page
    assert "0.0.0.0" not in page
    config = tomllib.loads((made.flower / "config.toml").read_text())["superlink"]["federation"]
    assert config["address"] == "127.0.0.1:8123"
    for hub in ("hub-1", "hub-2"):
        assert any("keys/" in volume for volume in content["services"][hub]["volumes"])
        assert "build" in content["services"][hub]


def test_a_folder_with_something_in_it_is_never_overwritten(made: AppFolder) -> None:
    before = made.key(0).read_bytes()
    with pytest.raises(DataError, match="exists already; choose another folder: keys and certificates are never"):
        write_app(made.path, Vocabulary.of(two_homes()), OPTIONS)
    assert made.key(0).read_bytes() == before


def test_certificates_that_ran_out_or_are_not_valid_yet_are_refused_in_words(tmp_path: Path) -> None:
    files = make_certificates(tmp_path, ["localhost"], days=10)
    now = datetime.now(UTC)
    check_certificates(files.authority, files.certificate)
    with pytest.raises(DataError, match=r"ca\.crt: the certificate ran out on .* UTC and it is .*; issue a new one"):
        check_certificates(files.authority, now=now + timedelta(days=11))
    with pytest.raises(DataError, match=r"server\.pem: the certificate is not valid before .*; set the clock"):
        check_certificates(files.certificate, now=now - timedelta(days=1))
    files.certificate.write_text("hello")
    with pytest.raises(DataError, match="not a certificate in PEM format; copy it again"):
        check_certificates(files.certificate)
    with pytest.raises(
        DataError,
        match=r"cannot read the certificate .*; copy it from the folder that `python -m fedrule deploy init` has",
    ):
        check_certificates(tmp_path / "other.pem")


def test_a_folder_without_app_or_with_an_old_certificate_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file; `python -m fedrule deploy init .*` writes it"):
        AppFolder(tmp_path).check()
    short = AppOptions("fedgnn", {}, days=1e-9)
    with pytest.raises(DataError, match="ran out on"):
        write_app(tmp_path / "app", Vocabulary.of(two_homes()), short).check()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": 0}, "nodes must be at least 1"),
        ({"hosts": ()}, "at least one name or address"),
        ({"hosts": ("a b",)}, "'a b' is not a name or an address"),
        ({"days": 0}, "days must be above 0"),
        ({"port": 99999}, "port must be 1 to 65535, got 99999"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        AppOptions("fedgnn", {}, **options)  # type: ignore[arg-type]


def test_the_command_writes_an_app_and_refuses_what_cannot_be_deployed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("torch_geometric", reason="the federated methods need the extra graph")
    homes = tmp_path / "homes.parquet"
    two_homes().save(homes)
    common = ["--data", str(homes), "--nodes", "2"]
    assert main(["deploy", "init", str(tmp_path / "app"), "--method", "fedgnn", "--set", "rounds=2", *common]) == 0
    config = tomllib.loads((tmp_path / "app/app/pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert config["parameters"] == {"rounds": 2}
    assert "nothing hides homes from the server in this run" in caplog.text
    for arguments, words in (
        (["--method", "popularity"], "popularity is not trained in the homes"),
        (["--method", "fedgn"], "did you mean 'fedgnn'"),
        (["--method", "fedgnn", "--set", "validation=0.2"], "validation 0.2 needs rules that no home may show"),
        (["--method", "fedgnn", "--set", "aggregation=median"], "needs single updates, and nodes send sums"),
    ):
        assert main(["deploy", "init", str(tmp_path / "other"), *arguments, *common]) == 1
        assert words in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_containers_are_as_many_as_nodes_and_the_proxy_verifies_the_server(tmp_path: Path) -> None:
    options = replace(OPTIONS, nodes=5)
    folder = write_app(tmp_path / "app", Vocabulary.of(two_homes()), options).path
    text = (folder / "docker-compose.yml").read_text()
    assert [line.strip() for line in text.splitlines() if line.startswith("  hub-")] == [
        f"hub-{number}:" for number in range(1, 6)
    ]
    assert "proxy_ssl_verify on;" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["init", "FOLDER", "--nodes", "2", "--set", "secure_threshold=0.6"],
            "secure sums need at least 3 nodes, got 2",
        ),
        (["init", "FOLDER", "--port", "99999"], "port must be 1 to 65535, got 99999"),
        (["init", "FOLDER", "--days", "99999999"], "days must be above 0 and at most 3,650"),
        (["init", "FOLDER", "--set", "epsilon=nan", "--set", "clip=0.1"], "fedrank: epsilon must be a finite number"),
        (["init", "FOLDER", "--data", "wyze-synthetik"], "did you mean 'wyze-synthetic'"),
        (["init", "FOLDER", "--set", "attack=sign-flip"], "fedrank: attack is for the simulation, .*: leave it out"),
        (["init", "FOLDER", "--set", "attackers=0.1"], "fedrank: attackers is for the simulation"),
        (["init", "FOLDER", "--set", "epsilon=3"], "noise hides a home only if its part is bounded; set clip"),
        (
            ["init", "FOLDER", "--nodes", "4", "--set", "secure_threshold=0.8", "--set", "cohort=3"],
            "a cohort of 3 homes is too small for secure sums of 4 nodes",
        ),
        (["simulate", "--compare", "--set", "epsilon=3", "--set", "clip=1"], "a private run cannot be computed again"),
        (["simulate", "--rounds", "2", "--set", "rounds=3"], "give --rounds or --set rounds=N, not both"),
        (["simulate", "--method", "ease"], "ease is not trained in the homes"),
        (["simulate", "--nodes", "7"], "nodes must be 1 to 6, the number of homes, got 7"),
        (
            ["simulate", "--method", "fedgnn", "--set", "participation=0.4", "--set", "secure_threshold=0.6"],
            "a cohort of 2 homes is too small for secure sums of 4 nodes",
        ),
        (
            ["simulate", *["--method", "fedgnn", "--set", "epsilon=1e-9", "--set", "clip=1", "--set", "delta=1e-12"]],
            r"epsilon 1e-09 at delta 1e-12 needs noise of more than 1e\+06 times",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if arguments[0] == "simulate":
        # Whether Flower is installed is another question, and these are refused before it is needed.
        monkeypatch.setattr("fedrule.commands.deploy._require", lambda *_, **__: None)
        monkeypatch.setattr("fedrule.flower.processes.check_installed", lambda: None)
        monkeypatch.setattr(LocalRun, "start", lambda *_: pytest.fail("processes start"))
        population(5, n_homes=6).save(tmp_path / "homes.parquet")
        arguments = [*arguments, "--folder", "FOLDER", "--data", str(tmp_path / "homes.parquet")]
    parser = argparse.ArgumentParser()
    deploy.add_arguments(parser)
    chosen = parser.parse_args([str(tmp_path / "app") if each == "FOLDER" else each for each in arguments])
    with pytest.raises(DataError, match=message):
        deploy.run(chosen)
    assert not (tmp_path / "app").exists()


def test_a_folder_may_be_given_relative_to_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Server and nodes run in other folders.
    monkeypatch.chdir(tmp_path)
    homes = population(5, n_homes=6)
    local = LocalRun.prepare(Path("here"), homes, "fedgnn", parameters={"rounds": 1}, nodes=2)
    config = tomllib.loads(f"[a]\n{local.node_config(1).replace(' ', chr(10))}")["a"]
    assert Path(config["homes"]) == tmp_path / "here/homes/node-1.parquet"
    assert Path(config["state"]).is_absolute()
    assert config["first"] == 3
    for path in (local.folder.key(0), local.folder.tls.authority, local.folder.app, local.server):
        assert path.is_absolute()


def test_the_line_that_matters_is_the_last_one_outside_of_a_traceback() -> None:
    said = "INFO: starts\nTraceback (most recent call last):\n  File a.py\n    f()\nDataError: no such port\n\n"
    assert last_line(said) == "DataError: no such port"
    assert last_line("╭─ Error ───╮\n│ Address already in use │\n╰──────────╯\n") == "Address already in use"
    assert last_line("") == ""


def test_a_process_that_ends_by_itself_is_named_with_its_last_words_and_its_log(tmp_path: Path) -> None:
    deployment = Deployment(AppFolder(tmp_path))
    command = "import sys; print('Traceback:\\n  line'); sys.exit('the port is taken')"
    deployment._start("node-3", sys.executable, "-c", command)
    deployment.processes["node-3"].wait(60)
    with pytest.raises(DataError, match=r"node-3 ended with code 1: the port is taken \(log: .*node-3.log\)"):
        deployment.check_running()


def test_a_run_that_fails_says_why_in_one_line_and_where_the_log_is(tmp_path: Path) -> None:
    local = LocalRun.prepare(tmp_path / "app", population(5, n_homes=6), "fedgnn", parameters={"rounds": 1}, nodes=2)
    ServerFolder(local.server).write_status("failed", error="the clock of node 7 is wrong; set it")
    with pytest.raises(
        DataError, match=r"^the run failed: the clock of node 7 is wrong; set it \(log: .*/server.log\)$"
    ):
        local.wait(Deployment(local.folder), 1, seconds=10)


def test_one_node_is_not_called_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_homes().save(tmp_path / "homes.parquet")
    arguments = ["--method", "fedgnn", "--data", str(tmp_path / "homes.parquet"), "--nodes", "1"]
    assert main(["deploy", "init", str(tmp_path / "app"), *arguments]) == 0
    assert "an app for 1 node with" in capsys.readouterr().out
    page = (tmp_path / "app/README.md").read_text()
    assert "1 node trains `fedgnn`" in page
    assert "a server and 1 hub;" in page
    for file in (page, (tmp_path / "app/docker-compose.yml").read_text()):
        assert "require_secure=true" in file
        assert "max_epsilon=4.0" in file
    assert "`flwr run` sends the app's code to the nodes, which run" in page


def test_hints_name_the_pins_of_the_environment_that_one_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, pins in ((None, "constraints.txt"), (object(), "constraints-flower.txt")):
        monkeypatch.setattr("importlib.util.find_spec", lambda _name, found=found: found)
        assert install_hint("private") == f'the extra private: pip install -c {pins} -e ".[private]"'
        assert "constraints-flower.txt" in install_hint("flower")
