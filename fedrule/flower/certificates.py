"""Certificates and node keys for tests, and a check of certificates before anything starts.

These keys are made on one machine and lie in one folder. For production let your own authority sign the
server's certificate, and make the key of each node on that node, so that it never leaves it.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from datasets.common.errors import DataError
from fedrule.flower import DAYS

CLOCK_MARGIN = timedelta(minutes=5)  # a certificate is valid from a little before now: clocks are never quite equal


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of an authority and of the server's certificate, in one folder."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"


def make_certificates(folder: Path, hosts: Sequence[str], *, days: float = DAYS) -> ServerFiles:
    """An authority and a certificate of a server that is reached by these names and addresses, valid from now.

    The authority's key is not kept: nobody can sign a second certificate, and another folder has another authority.
    """
    files = ServerFiles(folder)
    now = datetime.now(UTC)
    begin, end = now - CLOCK_MARGIN, now + timedelta(days=days)
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority_name = _name("fedrule test authority")
    authority = (
        _certificate(authority_name, authority_name, authority_key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    server = (
        _certificate(_name(hosts[0]), authority_name, server_key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA384())
    )
    folder.mkdir(parents=True, exist_ok=True)
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_secret(files.key, _private(server_key, serialization.PrivateFormat.PKCS8))
    return files


def make_node_key(path: Path) -> None:
    """The private key of a node, and beside it with suffix .pub the public one that is registered at the server."""
    key = ec.generate_private_key(ec.SECP384R1())
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_secret(path, _private(key, serialization.PrivateFormat.OpenSSH))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public + b"\n")


def check_certificates(*paths: Path, now: datetime | None = None) -> None:
    """An error in words for a certificate that ran out, is not valid yet or cannot be read."""
    now = now or datetime.now(UTC)
    for path in paths:
        for certificate in _read(path):
            begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            if now > end:
                raise DataError(
                    f"{path}: the certificate ran out on {end:%Y-%m-%d %H:%M} UTC and it is {now:%Y-%m-%d %H:%M}; "
                    "issue a new one (for tests: `python -m fedrule deploy init` with another folder)"
                )
            if now < begin:
                raise DataError(
                    f"{path}: the certificate is not valid before {begin:%Y-%m-%d %H:%M} UTC and it is "
                    f"{now:%Y-%m-%d %H:%M}; set the clock of this machine, or issue a new one"
                )


def _read(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise DataError(
            f"{path}: cannot read the certificate ({error.strerror}); copy it from the folder that `python -m fedrule "
            "deploy init` has written (tls/), or write a new one"
        ) from None
    except ValueError:
        raise DataError(f"{path}: not a certificate in PEM format; copy it again") from None


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_secret(path: Path, content: bytes) -> None:
    """A new file that only its owner reads."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
