"""A running server: its answers recorded from a real one, and the ways in which a server can fail."""

from __future__ import annotations

import argparse
import ast
import datetime
import ipaddress
import logging
import re
import socket
import ssl
from pathlib import Path

import pytest

import fedrule.homeassistant
from datasets.common.errors import DataError
from fedrule.commands import hass
from fedrule.homeassistant import read_home, read_live
from fedrule.homeassistant.readers.live import READS, Session, locate
from fedrule.homeassistant.server import tls_context
from tests.support.websocket_server import TOKEN, RecordedServer, recorded_kinds, serving


def test_a_recorded_server_is_read_completely():
    with serving(RecordedServer()) as server:
        found = read_live(server.address, TOKEN)
    assert found.version == "2024.3.3"
    assert found.live
    assert len(found.entities) == 128
    assert [area.name for area in found.areas.values()] == ["Back garden", "Kitchen"]
    assert len(found.automations) == 12
    assert found.problems == ()
    assert found.entities["light.bed_light"].color_modes == ("color_temp", "hs")
    assert found.area_name("light.kitchen_lights") == "Kitchen"
    assert "supported_features" in str(found.services["light"]["turn_on"])
    assert [script.entity_id for script in found.scripts] == ["script.bedtime"]
    assert found.scripts[0].config["alias"] == "Bedtime"


def test_only_questions_are_asked():
    with serving(RecordedServer()) as server:
        read_live(server.address, TOKEN)
    assert set(server.asked) <= set(READS)
    assert set(recorded_kinds(server.answers)) == set(server.asked)


def test_the_session_refuses_to_send_anything_else():
    with pytest.raises(AssertionError, match="not a question"):
        Session(None, "x").ask("call_service")  # type: ignore[arg-type]


def test_switched_off_automations_are_known():
    with serving(RecordedServer()) as server:
        found = read_live(server.address, TOKEN)
    assert [each.alias for each in found.automations if not each.enabled] == ["Off from the start"]


def test_a_wrong_token_is_refused_and_not_shown(caplog):
    caplog.set_level(logging.DEBUG)
    wrong = "wrong-token-1234"
    with serving(RecordedServer()) as server, pytest.raises(DataError, match="refuses the access token") as caught:
        read_live(server.address, wrong)
    shown = [str(caught.value), repr(caught.value), repr(caught.value.__cause__), caplog.text]
    assert not any(wrong in text for text in shown)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak"])
def test_a_token_that_cannot_be_one_is_refused_before_anything_is_sent(token):
    with pytest.raises(DataError, match="copy it again"):
        read_live("http://127.0.0.1:1", token)


def test_a_token_that_may_only_read_says_whose_is_needed():
    server = RecordedServer(errors={"automation/config": "unauthorized"})
    with serving(server), pytest.raises(DataError, match="use the token of an administrator"):
        read_live(server.address, TOKEN)


def test_one_restart_in_the_middle_is_survived():
    with serving(RecordedServer(close_after=4, closings=1)) as server:
        assert len(read_live(server.address, TOKEN, pause=0).automations) == 12
    assert server.closings == 0


def test_two_restarts_are_a_sentence():
    with (
        serving(RecordedServer(close_after=4, closings=2)) as server,
        pytest.raises(DataError, match="the connection broke twice: it may be restarting"),
    ):
        read_live(server.address, TOKEN, pause=0)


def test_a_server_that_says_nothing_is_not_waited_for_without_end():
    with serving(RecordedServer(silent=True)) as server, pytest.raises(DataError, match="no answer in time"):
        read_live(server.address, TOKEN, timeout=0.2)


def test_a_port_where_nothing_listens_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DataError, match="the connection is refused"):
        read_live(f"http://127.0.0.1:{port}", TOKEN)


def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(DataError, match="there is no such host"):
        read_live("http://does-not-exist.invalid:8123", TOKEN)


def test_a_server_that_is_another_program_is_named():
    with (
        serving(RecordedServer(status="404 Not Found")) as server,
        pytest.raises(DataError, match="status 404 where Home Assistant has its WebSocket"),
    ):
        read_live(server.address, TOKEN)


def test_https_at_a_server_that_speaks_http_is_named():
    with serving(RecordedServer()) as server, pytest.raises(DataError, match="does it answer https, or only http"):
        read_live(server.address.replace("http", "https"), TOKEN)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("homeassistant.local", "not an address"),
        ("ftp://x", "not an address"),
        ("http://", "not an address"),
        ("http://me:hunter2@x:1", "user name or password"),
        ("http://x:port", "not an address"),
    ],
)
def test_an_address_that_is_none_is_refused(address, said):
    with pytest.raises(DataError, match=said) as caught:
        read_live(address, TOKEN)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "websocket"),
    [
        ("http://a:8123", "ws://a:8123/api/websocket"),
        ("https://a/", "wss://a/api/websocket"),
        ("http://a/proxy/", "ws://a/proxy/api/websocket"),
        ("ws://[::1]:8123/api/websocket", "ws://[::1]:8123/api/websocket"),
    ],
)
def test_the_websocket_is_below_the_address_of_the_page(address, websocket):
    assert locate(address).websocket == websocket


def test_a_server_too_old_to_tell_its_automations_is_refused():
    with (
        serving(RecordedServer(version="2021.5.1")) as server,
        pytest.raises(DataError, match=r"update it to 2022\.12"),
    ):
        read_live(server.address, TOKEN)


def test_a_server_newer_than_known_is_read_with_a_note():
    server = RecordedServer()
    server.answers['["get_config", {}]'] = {"version": "2031.1.0", "state": "RUNNING"}
    with serving(server):
        found = read_live(server.address, TOKEN)
    assert [str(problem) for problem in found.problems] == [
        "Home Assistant 2031.1.0: newer than this reader knows; what it cannot read is counted"
    ]
    assert len(read_home(found).rules) == 22


def test_characters_that_no_file_can_hold_are_replaced_where_they_are_read():
    server = RecordedServer()
    server.answers['["config/area_registry/list", {}]'] = [{"area_id": "k", "name": "K\ud800\x1b"}]
    with serving(server):
        assert read_live(server.address, TOKEN).areas["k"].name == "K\ufffd\ufffd"


def test_a_server_that_is_still_starting_is_read_with_a_note():
    server = RecordedServer()
    server.answers['["get_config", {}]'] = {"version": "2024.3.3", "state": "STARTING"}
    with serving(server):
        assert "still starting" in read_live(server.address, TOKEN).problems[0].reason


def test_a_registry_that_is_refused_is_a_note():
    with serving(RecordedServer(errors={"config/area_registry/list": "unknown_error"})) as server:
        found = read_live(server.address, TOKEN)
    assert found.areas == {}
    assert [problem.where for problem in found.problems] == ["config/area_registry/list"]


def test_a_certificate_that_nobody_knows_says_how_to_trust_it(tmp_path):
    certificate, context = self_signed(tmp_path)
    with serving(RecordedServer(), context=context) as server:
        address = server.address.replace("http", "https")
        with pytest.raises(DataError, match="--ca-file") as caught:
            read_live(address, TOKEN)
        assert "check_certificate=False" in str(caught.value)
        assert len(read_live(address, TOKEN, ca_file=certificate).entities) == 128
        assert len(read_live(address, TOKEN, check_certificate=False).entities) == 128


def test_a_missing_certificate_file_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        read_live("https://127.0.0.1", TOKEN, ca_file=tmp_path / "nothing.pem")


def test_a_certificate_file_that_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "authority.pem"
    file.write_text("not PEM")
    server = locate("https://127.0.0.1", ca_file=file)
    with pytest.raises(DataError, match=r"authority.pem: not a certificate in PEM format"):
        tls_context(server)
    file.unlink()
    with pytest.raises(DataError, match=r"authority.pem: the certificate cannot be read \(No such file"):
        tls_context(server)


def test_every_option_that_a_message_names_is_one_of_the_command():
    parser = argparse.ArgumentParser()
    hass.add_arguments(parser)
    root = Path(fedrule.homeassistant.__file__).parent
    named = {
        option
        for path in [*root.rglob("*.py"), Path(hass.__file__)]
        if path.parent.name != "page"  # whose style sheet has names like these
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", node.value)
    }
    assert {"--ca-file", "--no-certificate-check"} <= named
    assert named - parser._option_string_actions.keys() == {"--data"}  # of `fedrule train`


def test_the_token_does_not_go_through_a_proxy_of_the_environment(monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as proxy, serving(RecordedServer()) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        assert len(read_live(server.address, TOKEN, timeout=5).entities) == 128
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody came
            proxy.accept()


def self_signed(folder):
    """A certificate for 127.0.0.1 that only its own file vouches for, and a server's context with it."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    return certificate, context
