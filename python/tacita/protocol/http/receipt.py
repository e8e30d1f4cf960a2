"""A receipt: the server's signature over the hashes of plan, request and response.

With it a client can show that this server gave this answer to this request, and a response that was swapped
on the way or on disk is seen. It does not show that the computation was right. Ed25519 (RFC 8032) by
`cryptography`; what is signed is a name of this purpose and the three hashes, so that no signature of
another kind can stand for it.

>>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
>>> key = Ed25519PrivateKey.generate()
>>> receipt = signed(key, "0" * 64, "1" * 64, "2" * 64)
>>> check(receipt, public_hex(key), plan="0" * 64, request="1" * 64, response="2" * 64)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacita.errors import PeerError
from tacita.protocol.http.wire import Receipt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PURPOSE = b"tacita-receipt-1\0"
HINT = "the answer is not the one that this server signed: ask again, and tell its operator"


def signed(key: Ed25519PrivateKey, plan: str, request: str, response: str) -> Receipt:
    """Of hashes, sha256 in hex: the plan's, and those of the two files."""
    signature = key.sign(_message(plan, request, response)).hex()
    return Receipt(plan=plan, request=request, response=response, signature=signature)


def public_hex(key: Ed25519PrivateKey) -> str:
    """The key by which others check, 64 hex digits."""
    return key.public_key().public_bytes_raw().hex()


def check(receipt: Receipt, signer: str, *, plan: str, request: str, response: str) -> None:
    """Raises PeerError unless it is this signer's, about these hashes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    said = {"plan": receipt.plan, "request": receipt.request, "response": receipt.response}
    wanted = {"plan": plan, "request": request, "response": response}
    for name, found in said.items():
        if found != wanted[name]:
            raise PeerError(f"receipt: about {name} {found[:12]}, not {wanted[name][:12]}", hint=HINT)
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer))
        public.verify(bytes.fromhex(receipt.signature), _message(plan, request, response))
    except (InvalidSignature, ValueError):
        raise PeerError("receipt: the signature is not the server's", hint=HINT) from None


def _message(plan: str, request: str, response: str) -> bytes:
    return PURPOSE + b"".join(bytes.fromhex(each) for each in (plan, request, response))
