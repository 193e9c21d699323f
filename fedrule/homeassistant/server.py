"""Where a running Home Assistant is, how its certificate is checked, and what can be wrong with that, in sentences.

What is read (`readers.live`) and what is installed (`writing.install`) go through the same address, token and TLS.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from datasets.common.errors import DataError


class Server(NamedTuple):
    """Where a server is and how its certificate is checked."""

    address: str  # as it was given, for messages
    websocket: str
    timeout: float
    ca_file: Path | None
    check_certificate: bool


def locate(
    address: str,
    *,
    ca_file: Path | str | None = None,
    check_certificate: bool = True,
    timeout: float = 20.0,
) -> Server:
    """The place of the WebSocket for the address of the web page."""
    example = "expected an address such as http://homeassistant.local:8123"
    try:
        parts = urlsplit(address.strip())
        port = parts.port
    except ValueError:
        raise DataError(f"not an address; {example}") from None
    if parts.username or parts.password:
        raise DataError(f"the address has a user name or password in it; {example}, and give a token")
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        raise DataError(f"{address[:100]!r}: not an address; {example}")
    secure = parts.scheme in ("https", "wss")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}:{port}" if port else host
    path = parts.path.rstrip("/").removesuffix("/api/websocket").removesuffix("/api")
    if ca_file is not None and not Path(ca_file).is_file():
        raise DataError(
            f"{ca_file}: there is no such file; give the certificate of the server's authority in PEM format"
        )
    return Server(
        f"{'https' if secure else 'http'}://{place}{path}",
        f"{'wss' if secure else 'ws'}://{place}{path}/api/websocket",
        timeout,
        Path(ca_file) if ca_file is not None else None,
        check_certificate,
    )


def check_token(token: str) -> None:
    """Refuse what cannot be a token before anything is sent."""
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise DataError("the access token is empty or has spaces or line breaks in it; copy it again")


def tls_context(server: Server) -> ssl.SSLContext:
    """How the certificate of a server with https is checked."""
    try:
        context = ssl.create_default_context(cafile=str(server.ca_file) if server.ca_file else None)
    except ssl.SSLError:
        raise DataError(f"{server.ca_file}: not a certificate in PEM format") from None
    except OSError as error:
        raise DataError(f"{server.ca_file}: the certificate cannot be read ({error.strerror})") from None
    if not server.check_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def wrong_token(address: str) -> DataError:
    """The error for a token that the server does not know."""
    return DataError(
        f"{address}: it refuses the access token; create a new long-lived one in your profile under "
        "security, and check that it is for this server"
    )


def network_error(address: str, error: OSError) -> DataError:
    """An error of the network or of TLS as a sentence, in which nothing is that was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return DataError(
            f"{address}: its certificate is not trusted ({error.verify_message}); give that of its authority "
            "by ca_file (--ca-file), or in your own network skip the check by check_certificate=False "
            "(--no-certificate-check)"
        )
    if isinstance(error, ssl.SSLError):
        return DataError(f"{address}: no TLS connection can be made; does it answer https, or only http?")
    if isinstance(error, TimeoutError):
        return DataError(f"{address}: no answer in time; is it running, and is the address right?")
    if isinstance(error, ConnectionRefusedError):
        return DataError(f"{address}: the connection is refused; is Home Assistant running there, on that port?")
    name = getattr(error, "strerror", None) or "no such host"
    return DataError(f"{address}: cannot be reached ({name}); check the address and the network")
