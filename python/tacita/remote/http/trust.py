"""Whose certificate is taken: one that this system's authorities signed, one of a file, or exactly one.

A pinned certificate is compared by its SHA-256 as soon as the handshake ends, before a byte of a request is
sent, and nothing else of it is looked at. Sockets (of WebSockets) and memory buffers (of HTTP) have each a
class of their own for that, which the context makes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
from pathlib import Path

from tacita.errors import InputError

SHA256 = re.compile(r"[0-9a-f]{64}")


class UntrustedError(ssl.SSLCertVerificationError):
    """The peer showed another certificate than the pinned one. verify_message: as of the library's own."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.verify_message = message


def context_of(trust: Path | str | None = None, fingerprint: str | None = None) -> ssl.SSLContext:
    """Of a client that trusts a PEM file (the server's certificate, or its signer's), or the one certificate
    of this SHA-256, or by default the system's authorities. Raises InputError."""
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
    found = fingerprint.replace(":", "").strip().lower()
    if not SHA256.fullmatch(found):
        raise InputError(
            "connect: the fingerprint is no SHA-256", hint="64 hex digits, as the server printed them"
        )
    return found


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
    found = hashlib.sha256(certificate or b"").hexdigest()
    if not hmac.compare_digest(found, fingerprint):
        raise UntrustedError(f"certificate {found}, wanted {fingerprint}")
