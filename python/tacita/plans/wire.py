"""The JSON bodies, headers and limits of the service's API, version 1, as both sides read them.

Ciphertexts, keys and the public part of a model travel as plain bytes beside these: see `docs/guides/
run-a-server.md` for the paths. Everything here comes from the other side: pydantic checks types and bounds
before anything is made of it, and a field that is not known is refused.

>>> Status(id="0" * 32, state=State.waiting, place=2).model_dump(exclude_none=True)["place"]
2

A receipt: the server's signature over the hashes of plan, request and response.

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

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from tacita.errors import PeerError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


API = "/v1"
PROBLEM = "application/problem+json"
BYTES = "application/octet-stream"

# Headers, beside those that HTTP has (Authorization, Content-Range, ETag, Idempotency-Key, Retry-After).
SHA256 = "Tacita-Sha256"  # of the body that it comes with, hex
WHOLE_SHA256 = "Tacita-Whole-Sha256"  # of all chunks together, hex
PLAN = "Tacita-Plan"  # hash of the plan that keys or a request were made under, hex
VISITOR = "Tacita-Visitor-Token"  # offered with /v1/models to a caller without a token

TOKEN = re.compile(r"[!-~]{1,4096}")  # characters of any token
CHUNK_BYTES = 8 << 20  # of an upload that a client sends at once
MOST_CHUNK_BYTES = 64 << 20  # that a server takes at once
FRAME_BYTES = 1 << 20  # of a WebSocket message of the two-party protocol, at most
MOST_TEXT = 2000  # characters of an error that are told
NO_TEXT = "no-text"  # code of a problem: no text of that handle below that key, or none any more

Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=200)]


class Wire(BaseModel):
    """The base of every body: unknown fields are refused, and it is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class State(StrEnum):
    """The state of a request. The last three are final."""

    waiting = "waiting"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"

    @property
    def final(self) -> bool:
        """Whether the state changes no more."""
        return self in (State.done, State.failed, State.cancelled)


class Problem(Wire):
    """RFC 9457, with our `hint`. code: a word for programs, as of `server.http.problems`."""

    type: Name = "about:blank"
    title: Name
    status: Annotated[int, Field(ge=100, le=599)]
    detail: Annotated[str, Field(max_length=MOST_TEXT)] = ""
    hint: Annotated[str, Field(max_length=MOST_TEXT)] = ""
    code: Name = ""


class Offer(Wire):
    """A scheme by which a model can be asked.

    plan: the plan's hash. connected: by the two-party protocol over a WebSocket, without keys or files;
    the sizes of files are then 0. public: sha256 of the public folder's list, of what a connected scheme
    publishes nothing here (the socket's greeting sends it). seconds: predicted of a request of `batch`
    texts, queue aside; keygen_seconds: at the client, once. token_bytes, token_seconds: of each token behind
    the first of a text that is written, whose prompt is what the others are of. kept_bytes: of a text whose
    rows the server keeps, so that a request is one row; kept_seconds: of silence after which they go. task:
    of its answers where it is not the model's, as of a plan that tells the likeliest token alone. Of these
    three none is told that says nothing, since clients of before know none. Sizes in bytes.
    """

    scheme: Name
    plan: Sha256
    connected: bool
    batch: Annotated[int, Field(ge=1)]
    tokens: Annotated[int, Field(ge=1)]
    preset: Name = ""
    security_bits: Count = 0
    public: Sha256 | None = None
    public_bytes: Count = 0
    keys_bytes: Count = 0
    request_bytes: Count = 0
    response_bytes: Count = 0
    traffic_bytes: Count = 0
    seconds: Seconds
    keygen_seconds: Seconds = 0.0
    token_bytes: Count = 0
    token_seconds: Seconds = 0.0
    kept_bytes: Count = 0
    kept_seconds: Seconds = 0.0
    task: Name = ""

    @model_serializer(mode="wrap")
    def _without_later(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {n: v for n, v in fields.items() if v or n not in ("kept_bytes", "kept_seconds", "task")}


class Model(Wire):
    """What a server answers about. task, problem: as of `texts.task`; servers of before told no problem.
    offers: the first is the default."""

    name: Name
    task: Name
    problem: Name = ""
    labels: tuple[Name, ...] = ()
    offers: tuple[Offer, ...]


class Models(Wire):
    """GET /v1/models. signer: the server's Ed25519 public key, hex, by which receipts are checked."""

    release: Name
    signer: Sha256
    models: tuple[Model, ...]


class KeyState(Wire):
    """The state of an upload of evaluation keys. received: bytes so far, from the beginning without a gap."""

    id: Hex32
    plan: Sha256
    bytes: Count
    received: Count
    complete: bool


class Keys(Wire):
    """GET /v1/keys: those of who asks."""

    keys: tuple[KeyState, ...]


class Kept(Wire):
    """POST /v1/texts: a text whose rows the server keeps from now on. id: its handle. bytes: that it takes of
    its client's quota. seconds: of silence after which it goes."""

    id: Hex32
    bytes: Count
    seconds: Seconds


class Receipt(Wire):
    """What the server says that it computed, and its signature: see `receipt`."""

    plan: Sha256
    request: Sha256
    response: Sha256
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


class Status(Wire):
    """GET /v1/requests/{id}, and each event of its stream.

    place: requests that go before it while it waits. stage, done, total, seconds_left: of one that runs.
    problem: why it failed. seconds: that it was evaluated, receipt and response_bytes: of one that is done.
    """

    id: Hex32
    state: State
    place: Count | None = None
    stage: Name | None = None
    done: Count | None = None
    total: Count | None = None
    seconds_left: Seconds | None = None
    seconds: Seconds | None = None
    problem: Problem | None = None
    response_bytes: Count | None = None
    receipt: Receipt | None = None


PURPOSE = b"tacita-receipt-1\0"
HINT = "the answer is not the one that this server signed: ask again, and tell its operator"


def signed(key: Ed25519PrivateKey, plan: str, request: str, response: str) -> Receipt:
    """Signs the SHA-256 hashes, in hex, of the plan and the two files."""
    signature = key.sign(_message(plan, request, response)).hex()
    return Receipt(plan=plan, request=request, response=response, signature=signature)


def public_hex(key: Ed25519PrivateKey) -> str:
    """The key by which others check, 64 hex digits."""
    return key.public_key().public_bytes_raw().hex()


def check(receipt: Receipt, signer: str, *, plan: str, request: str, response: str) -> None:
    """Raises PeerError unless it is this signer's, about these hashes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    hashes = {"plan": receipt.plan, "request": receipt.request, "response": receipt.response}
    wanted = {"plan": plan, "request": request, "response": response}
    for name, digest in hashes.items():
        if digest != wanted[name]:
            raise PeerError(f"receipt: about {name} {digest[:12]}, not {wanted[name][:12]}", hint=HINT)
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer))
        public.verify(bytes.fromhex(receipt.signature), _message(plan, request, response))
    except (InvalidSignature, ValueError):
        raise PeerError("receipt: the signature is not the server's", hint=HINT) from None


def _message(plan: str, request: str, response: str) -> bytes:
    return PURPOSE + b"".join(bytes.fromhex(each) for each in (plan, request, response))
