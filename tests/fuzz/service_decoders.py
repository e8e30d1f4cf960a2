"""Bodies of the fuzz targets of the service: what its client reads, what its processes tell each other, and
the steps that a page runs. See `decoders`, which lists them with the others."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from promises import tacita_errors

from tacita.client.http.channel import Reply, refused, server_failure
from tacita.errors import TacitaError
from tacita.plans import files, wire
from tacita.plans.wire import Keys, KeyState, Models, Offer, Problem, Receipt, State, Status
from tacita.server import child
from tacita.server.jobs import messages
from tacita.server.sessions import messages as control
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program import program as programs

READ = (Models, Keys, KeyState, Status, Receipt)
CHILDREN = (child.Ready | child.Unable, control.Order, control.Reply, messages.Order, messages.Reply)
ID, HASH = "ab" * 16, "cd" * 32
SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(32))
SIGNED = wire.signed(SIGNER, "11" * 32, "22" * 32, "33" * 32)


def program(data: bytes) -> None:
    """The steps of a two-party client, as they are and in their one spelling: what is read is written as the
    same bytes."""
    for form in (data, _spelled(data)):
        found = tacita_errors(programs.decode, form)
        assert found is None or programs.encode(found) == form


def problem(data: bytes) -> None:
    """An answer that is no success. The first two bytes: its status."""
    status, body = 300 + int.from_bytes(data[:2], "little") % 300, data[2:]
    error = refused("GET", status, body)
    assert isinstance(error, TacitaError) and str(error)


def bodies(data: bytes) -> None:
    """Every JSON body of an answer, and what comes of a request that failed at the server."""
    for kind in READ:
        found = tacita_errors(Reply("GET", 200, httpx2.Headers(), data).read, kind)
        if isinstance(found, Status):
            assert str(server_failure("request", found.problem))


def receipts(data: bytes) -> None:
    """A receipt: of other hashes, or by another key, none is taken but the signed one."""
    found = tacita_errors(Reply("GET", 200, httpx2.Headers(), data).read, Receipt)
    if found is None:
        return
    hashes = {"plan": SIGNED.plan, "request": SIGNED.request, "response": SIGNED.response}
    own = {"plan": found.plan, "request": found.request, "response": found.response}
    public = wire.public_hex(SIGNER)
    for wanted in (hashes, own):
        taken = tacita_errors(lambda hashes=wanted: [wire.check(found, public, **hashes)])
        assert taken is None or found == SIGNED


def child_messages(data: bytes) -> int:
    """What the service and its child processes send: what is read is a message, and can be sent. Returns the
    number of sides that read it."""
    read = [(kinds, tacita_errors(lambda kinds=kinds: [child.decode(kinds, data)])) for kinds in CHILDREN]
    whole = [(kinds, found[0]) for kinds, found in read if found]
    assert all(child.decode(kinds, child.encode(message)) == message for kinds, message in whole)
    return len(whole)


def key_head(data: bytes) -> None:
    """How a file of keys begins: its id can stand in an address."""
    found = tacita_errors(files.owner_of, data)
    assert found is None or (len(found) == len(ID) and bytes.fromhex(found) in data)


DECODERS: dict[str, Callable[[bytes], object]] = {
    "program": program,
    "problem": problem,
    "http_bodies": bodies,
    "receipt": receipts,
    "control": child_messages,
    "key_head": key_head,
}

MODULES: dict[str, list[str]] = {
    "program": ["two_party/program/program.py", "two_party/program/steps.py", "two_party/program/sizes.py"],
    "problem": ["client/http/channel.py"],
    "http_bodies": ["client/http/channel.py"],
    "receipt": ["plans/wire.py"],
    "control": ["server/child.py", "server/sessions/messages.py", "server/jobs/messages.py"],
    "key_head": ["plans/files.py"],
}


def seeds(name: str, plan: TwoPartyPlan) -> list[bytes]:
    """Honest inputs of a target: where its corpus begins. plan: of the program."""
    match name:
        case "program":
            return [programs.encode(plan.program)]
        case "problem":
            body = Problem(title="busy", status=503, detail="a queue", hint="wait", code="busy")
            return [(203).to_bytes(2, "little") + body.model_dump_json().encode()]
        case "http_bodies":
            return [each.model_dump_json(exclude_none=True).encode() for each in _answers()]
        case "receipt":
            return [SIGNED.model_dump_json().encode()]
        case "key_head":
            fields = (bytes.fromhex(HASH), bytes.fromhex(ID), 7, bytes(16))
            return [files.HEAD.pack(*begin, *fields) for begin in files.BEGINS]
    said = (
        child.Ready(seconds=1.5),
        child.Unable(error="no model", hint="look"),
        control.SoFar(id=1, texts=2, bytes_sent=3, bytes_received=4),
        control.Finished(id=1, ending="end"),
        control.Open(id=1, client="clinic", places=2),
        control.Wanted(id=1, texts=1, tokens=5, bytes=6, seconds=0.5),
        control.Answered(id=1, reason=6, number=7),
        control.Close(id=1),
    )
    return [child.encode(each) for each in said]


def _answers() -> tuple[Models | Keys | KeyState | Status, ...]:
    offer = Offer(scheme="thor", plan=HASH, connected=False, batch=1, tokens=16, seconds=1.0)
    model = {
        "name": "one",
        "task": "text",
        "problem": "single_label",
        "labels": ["a", "b"],
        "offers": [offer],
    }
    key = KeyState(id=ID, plan=HASH, bytes=7, received=7, complete=True)
    failed = Status(id=ID, state=State.failed, problem=Problem(title="no", status=500))
    return (
        Models(release="1", signer=HASH, models=(model,)),
        Keys(keys=(key,)),
        key,
        failed,
        Status(id=ID, state=State.done, seconds=1.0, response_bytes=9, receipt=SIGNED),
    )


def _spelled(data: bytes) -> bytes:
    try:
        return json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return data
