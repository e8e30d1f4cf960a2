"""Decides which certificates are trusted: those of this system's authorities, of a file, or exactly one.

A pinned certificate is compared by its SHA-256 as soon as the handshake ends, before a byte of a request is
sent, and nothing else of it is looked at. Sockets (of WebSockets) and memory buffers (of HTTP) have each a
class of their own for that, which the context makes.

It also checks the URL of a service, and names the folder that keeps what belongs to it.

>>> address_of("https://Models.example.org").url
'https://models.example.org:443'
>>> address_of("https://models.example.org:8443").name
'models.example.org_8443'
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from tacita.errors import InputError

SHA256 = re.compile(r"[0-9a-f]{64}")


class UntrustedError(ssl.SSLCertVerificationError):
    """Raised for a certificate that is not the pinned one. verify_message: as of the library's own error."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.verify_message = message


def context_of(trust: Path | str | None = None, fingerprint: str | None = None) -> ssl.SSLContext:
    """Makes the TLS context of a client that trusts a PEM file (the server's certificate, or its signer's),
    or the one certificate of this SHA-256, or by default the system's authorities. Raises InputError."""
    if trust is not None and fingerprint is not None:
        raise InputError(
            "connect: a certificate to trust and a fingerprint", hint="one of them says whom to trust"
        )
    if fingerprint is not None:
        return _pinned(_digest(fingerprint))
    try:
        context = ssl.create_default_context(cafile=str(trust) if trust is not None else None)
    except OSError as error:
        raise InputError(
            f"{trust}: cannot be read as certificates ({type(error).__name__})", hint="a PEM file"
        ) from None
    if trust is not None:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the file may hold the server's own alone
    return context


def _digest(fingerprint: str) -> str:
    digest = fingerprint.replace(":", "").strip().lower()
    if not SHA256.fullmatch(digest):
        raise InputError(
            "connect: the fingerprint is no SHA-256", hint="64 hex digits, as the server printed them"
        )
    return digest


def _pinned(fingerprint: str) -> ssl.SSLContext:
    class PinnedSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            _require(self.getpeercert(binary_form=True), fingerprint)

    class PinnedObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            _require(self.getpeercert(binary_form=True), fingerprint)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.sslsocket_class, context.sslobject_class = PinnedSocket, PinnedObject
    return context


def _require(certificate: bytes | None, fingerprint: str) -> None:
    digest = hashlib.sha256(certificate or b"").hexdigest()
    if not hmac.compare_digest(digest, fingerprint):
        raise UntrustedError(f"certificate {digest}, wanted {fingerprint}")


SCHEMES = {"https": 443, "http": 80}
HOST = re.compile(r"[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9_])?")
PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
LONGEST = 200  # characters: what a file of ours holds
HINT = "as in https://models.example.org:8443"


@dataclass(frozen=True)
class Address:
    """The address of a service. secure: by TLS. host: lower case, without brackets. path: what stands before
    `/v1`, empty or as "/team"."""

    secure: bool
    host: str
    port: int
    path: str = ""

    @property
    def url(self) -> str:
        """The URL, with its port and without a slash at its end."""
        return f"{'https' if self.secure else 'http'}://{self._authority}{self.path}"

    def socket(self, path: str) -> str:
        """Returns the URL of a WebSocket at a path of the service."""
        return f"{'wss' if self.secure else 'ws'}://{self._authority}{self.path}{path}"

    @property
    def name(self) -> str:
        """The name of its folder: no two addresses share one, and none leads out of the folder above."""
        plain = f"{self.host}_{self.port}"
        if self.secure and not self.path and ":" not in self.host:
            return plain
        readable = re.sub(r"[^a-z0-9.-]", "_", plain.strip("."))
        return f"{readable}_{hashlib.sha256(self.url.encode()).hexdigest()[:8]}"

    @property
    def _authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_url(text: str) -> bool:
    """Tells whether a text names a service, and not HOST:PORT of a two-party server."""
    return text.lower().startswith(("https://", "http://"))


def address_of(url: str, *, allow_insecure: bool = False) -> Address:
    """Parses the URL of a service. Raises InputError for any other text, one with a password in it, or plain
    HTTP to another machine."""
    try:
        parts = urlsplit(url.strip())
        scheme, port = parts.scheme.lower(), parts.port
    except ValueError:
        raise InputError("connect: not an address of a service", hint=HINT) from None
    if scheme not in SCHEMES or port == 0 or parts.query or parts.fragment:
        raise InputError("connect: not an address of a service", hint=HINT)
    if "@" in parts.netloc:
        raise InputError("connect: an address with a user or a password in it", hint="pass a token")
    path = parts.path.rstrip("/")
    if not PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise InputError("connect: a path that no service has", hint=HINT)
    address = Address(scheme == "https", _host(parts), port or SCHEMES[scheme], path)
    if len(address.url) > LONGEST:
        raise InputError(f"connect: an address of {len(address.url)} characters", hint=f"at most {LONGEST}")
    if not (address.secure or allow_insecure or _loopback(address.host)):
        raise InputError(
            f"connect: {address.url} is plain HTTP: anyone on the way can read the token and change messages",
            hint="use https://, or allow insecure connections by name for a test",
        )
    return address


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    with suppress(UnicodeError):
        host = host.encode("idna").decode()
    if not HOST.fullmatch(host) or ".." in host:
        raise InputError("connect: an address without the name of a host", hint=HINT)
    return host


def _loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
