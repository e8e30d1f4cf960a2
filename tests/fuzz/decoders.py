"""Bodies of the fuzz targets of the Python decoders: each takes any bytes and lets only Tacita's own
errors pass.

`packings.py` feeds them under atheris, `test_corpus.py` replays the inputs kept in the tree. Where a checksum
or a hash would hide the parser behind it, a body decodes twice: the bytes as they are, and with the
checksum recomputed, as an attacker would.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import service_decoders
import tiny
from promises import tacita_errors
from random_checkpoint import make_random_checkpoint
from weights import TORCH_FILE, torch_pickle

from tacita.api import plan as make_plan
from tacita.errors import PeerError
from tacita.evaluate import resume
from tacita.planning.circuit import require_circuit
from tacita.planning.request import PlanRequest
from tacita.plans import envelope, public_folder
from tacita.plans.json_fields import canonical
from tacita.plans.plan import Plan, parse
from tacita.texts.embedding import table_shapes, to_bytes
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol import handshake, public_part
from tacita.two_party.protocol.handshake import GenerateRequest

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]


def real_plan() -> Plan:
    """Of one tiny layer on a toy ring, made in a second."""
    model, tokens = tiny.checkpoint(), 8
    samples = tuple(tiny.inputs(model, tokens, real, seed) for seed, real in enumerate((8, 5, 8)))
    return make_plan(model, PlanRequest(preset="insecure_toy_n10", tokens=tokens, hidden_states=samples))


def shortened(plan: Plan) -> Plan:
    """The plan with one stage, which leaves the response, and one rotation: every kind of field once, in half
    the bytes and a third of the time."""
    made = {tensor.name: tensor.level for tensor in plan.response}
    first = replace(plan.stages[0], out_levels={**plan.stages[0].out_levels, **made})
    highest = max(first.levels.values())
    prediction = replace(
        plan.prediction,
        stage_seconds=plan.prediction.stage_seconds[:1],
        stage_bytes=plan.prediction.stage_bytes[:1],
    )
    rotations = tuple(key for key in plan.rotations if key[1] <= highest)[:1]
    return replace(plan, stages=(first,), rotations=rotations, prediction=prediction)


PLAN = real_plan()
SHORT_PLAN = shortened(PLAN)
KEY = "ab" * 16
RUN = resume.Run(PLAN.hash, KEY, "00" * 32, "0.1.0")
CHECKPOINT = make_random_checkpoint()
TWO_PARTY_PLAN = make_two_party_plan(CHECKPOINT, PlanRequest(tokens=16, texts=TEXTS))
PUBLIC_PART = public_part.encode(public_part.public_part(TWO_PARTY_PLAN.program, CHECKPOINT))


def client_greeting(data: bytes) -> None:
    """What a server sends to a client that connects. First byte: which of the fields behind are made to
    fit."""
    if not data:
        return
    link = Scripted(_fitted(data[0], data[1:]))

    def ask() -> None:
        handshake.run_client(link, NO_CACHE)
        handshake.ask(link)

    tacita_errors(ask)
    tacita_errors(handshake.ask, Scripted(data))


def server_greeting(data: bytes) -> None:
    """What a client sends to a server, up to its wishes for texts."""
    link = Scripted(data)

    def serve() -> None:
        handshake.run_server(link, b"the public part", PLAN.hash)
        while (wish := handshake.receive_wish(link)) != handshake.END:
            if wish == handshake.LINK:
                handshake.receive_speed(link)

    tacita_errors(serve)


def text_wishes(data: bytes) -> None:
    """What a client sends that has a text written: its wish, and its words before the tokens. A wish that is
    taken fits the plan, and is written as the same bytes."""
    link = Scripted(data)

    def serve() -> None:
        wish = handshake.receive_request(link, TWO_PARTY_PLAN.program)
        assert wish.held + wish.rows + wish.most - 1 <= TWO_PARTY_PLAN.room
        assert wish.to_bytes() == data[: handshake.REQUEST.size]
        while handshake.more_wanted(link):
            pass

    tacita_errors(serve)


def public_parts(data: bytes) -> None:
    """A public part, with the tokenizer that the client builds from it."""
    tacita_errors(lambda: public_part.decode(data).front)


def public_list(data: bytes) -> None:
    """The list of a public folder, as it is and under its right hash; the files behind it have targets of
    their own."""
    tacita_errors(public_folder.parse_manifest, Path(public_folder.MANIFEST), data)
    fields = _parsed(data)
    if (
        isinstance(fields, dict)
        and (body := _spelled({k: v for k, v in fields.items() if k != "sha256"})) is not None
    ):
        sealed = json.dumps({**fields, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        tacita_errors(public_folder.parse_manifest, Path(public_folder.MANIFEST), sealed)


def embedding_tables(data: bytes) -> None:
    """The embedding tables of a public folder."""
    config = CHECKPOINT.config
    tacita_errors(public_folder.parse_tables, "tables", data, table_shapes(config, config.hidden))


def two_party_plan(data: bytes) -> None:
    """A server's two-party plan, as it is and in its one spelling."""
    tacita_errors(parse_plan, data)
    if (spelled := _respelled(data)) is not None and spelled != data:
        tacita_errors(parse_plan, spelled)


def ckks_plan(data: bytes) -> None:
    """A CKKS plan file as a server takes it, under its right hash; and as it is, unless it differs in nothing
    but the hash."""
    text = data.decode("utf-8", errors="replace")
    fields = _parsed(text)
    if (hashed := _rehashed(fields)) is not None:
        tacita_errors(_checked, hashed)
    if hashed is None or _spelled(fields) != data:
        tacita_errors(_checked, text)


def _checked(text: str) -> None:
    """What both sides check, and then what the server alone does."""
    require_circuit(parse(text, "plan.json"))


def request_file(data: bytes) -> None:
    """The envelope of a request, as it is and under its right checksum; the ciphertexts in it are Rust's
    targets."""
    for content in (data, data[:-32] + hashlib.sha256(data[:-32]).digest()):
        tacita_errors(_entries, File(content), "request")


def response_file(data: bytes) -> None:
    """The envelope of a response."""
    for content in (data, data[:-32] + hashlib.sha256(data[:-32]).digest()):
        tacita_errors(_entries, File(content), "response")


def _entries(file: Any, kind: envelope.Kind) -> list[tuple[str, int, bytes]]:
    return list(envelope.stream(file, kind, PLAN, KEY))


def resume_manifest(data: bytes) -> None:
    """The manifest of a resume point, as it is and under its right checksum."""
    tacita_errors(resume.find, Store(data), RUN)
    if (sealed := _resealed(data)) is not None:
        tacita_errors(resume.find, Store(sealed), RUN)


DECODERS: dict[str, Callable[[bytes], object]] = {
    "client_greeting": client_greeting,
    "server_greeting": server_greeting,
    "text_wish": text_wishes,
    "public_part": public_parts,
    "public_list": public_list,
    "embedding_tables": embedding_tables,
    "two_party_plan": two_party_plan,
    "ckks_plan": ckks_plan,
    "request_file": request_file,
    "response_file": response_file,
    "resume_manifest": resume_manifest,
    "torch_pickle": torch_pickle,
    **service_decoders.DECODERS,
}

# Whose lines are counted as covered, by target.
MODULES: dict[str, list[str]] = {
    "client_greeting": ["two_party/protocol/handshake.py"],
    "server_greeting": ["two_party/protocol/handshake.py"],
    "text_wish": ["two_party/protocol/handshake.py"],
    "public_part": ["two_party/protocol/public_part.py", "two_party/plan/check.py"],
    "public_list": ["plans/public_folder.py", "plans/json_fields.py"],
    "embedding_tables": ["texts/embedding.py"],
    "two_party_plan": ["two_party/plan/check.py", "plans/json_fields.py"],
    "ckks_plan": ["plans/plan.py", "plans/json_fields.py"],
    "request_file": ["plans/envelope.py"],
    "response_file": ["plans/envelope.py"],
    "resume_manifest": ["evaluate/resume.py"],
    "torch_pickle": ["checkpoint/pickles.py"],
    **service_decoders.MODULES,
}


def seeds(name: str) -> list[bytes]:
    """Honest inputs of a target: where its corpus begins."""
    if name in service_decoders.DECODERS:
        return service_decoders.seeds(name, TWO_PARTY_PLAN)
    if name == "client_greeting":
        head = handshake.SERVER_HELLO.pack(handshake.MAGIC, handshake.VERSION, 0, bytes(32))
        refusal = handshake.SERVER_HELLO.pack(handshake.REFUSAL, 1, 5, bytes(32))
        granted = handshake.PERMISSION.pack(0, 0)
        return [b"\3" + head + b"not a part" + handshake.AGREED, b"\0" + refusal, granted]
    if name == "server_greeting":
        hello = handshake.CLIENT_HELLO.pack(handshake.MAGIC, handshake.VERSION)
        speed = handshake.LINK + handshake.SPEED.pack(1_000_000, 500)
        wishes = handshake.ECHO + speed + handshake.CLASSIFY + handshake.END
        agreed = bytes.fromhex(PLAN.hash)
        return [hello + asked + agreed + wishes for asked in (handshake.HAVE, handshake.SEND)]
    if name == "text_wish":
        wishes = GenerateRequest(5, 4), GenerateRequest(1, 2, 0.8, 2, held=9, key=bytes(range(16)))
        words = handshake.MORE + handshake.MORE + handshake.ENOUGH
        return [wish.to_bytes() + words for wish in wishes]
    if name == "public_part":
        return [PUBLIC_PART]
    if name == "public_list":
        files = dict.fromkeys(public_folder.CAPS, "00" * 32)
        body = {"format": public_folder.FORMAT, "version": public_folder.VERSION, "files": files}
        return [canonical({**body, "sha256": hashlib.sha256(canonical(body)).hexdigest()})]
    if name == "embedding_tables":
        shapes = table_shapes(CHECKPOINT.config, CHECKPOINT.config.hidden)
        return [to_bytes({name: CHECKPOINT.tensors[name] for name in shapes})]
    if name == "two_party_plan":
        hidden = make_two_party_plan(CHECKPOINT, PlanRequest(tokens=16, texts=TEXTS, embeddings="hidden"))
        return [TWO_PARTY_PLAN.to_bytes(), hidden.to_bytes()]
    if name == "ckks_plan":
        return [canonical(json.loads(plan.to_text())) for plan in (SHORT_PLAN, PLAN)]
    if name == "resume_manifest":
        return [_manifest()]
    if name == "torch_pickle":
        with zipfile.ZipFile(TORCH_FILE) as file:
            return [file.read("state/data.pkl")]
    kind = name.split("_")[0]
    return [_envelope(kind, PLAN.request if kind == "request" else PLAN.response)]


class Scripted:
    """A link whose peer sends these bytes and goes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def send(self, data: bytes) -> None:
        """Nobody listens."""

    def receive(self, count: int) -> bytes:
        """Raises PeerError at the end of the script; no more than a chunk may be asked for at once."""
        assert 0 <= count <= handshake.CHUNK, count
        if self._at + count > len(self._data):
            raise PeerError("the peer is gone", hint="")
        self._at += count
        return self._data[self._at - count : self._at]


NO_CACHE = SimpleNamespace(get=lambda digest: None, put=lambda digest, data: None)


class File:
    """A file in memory, as far as the readers of files ask for one."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __str__(self) -> str:
        return "input"

    def exists(self) -> bool:
        return True

    def stat(self) -> Any:
        return SimpleNamespace(st_size=len(self._data))

    def open(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)

    def read_text(self, encoding: str) -> str:
        return self._data.decode(encoding)


class Store:
    """A store of spilled ciphertexts with nothing but a manifest; see `evaluate.spill.store.SpillStore`."""

    folder = Path("store")

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_manifest(self, most: int) -> str:
        if len(self._data) > most:
            raise ValueError(f"over {most} bytes")
        return self._data.decode("utf-8")


def _fitted(which: int, script: bytes) -> bytes:
    """A server's script with the announced length (bit 0) and hash (bit 1) made those of the part behind.

    The part is all but the last byte, which is the answer about the plan.
    """
    size = handshake.SERVER_HELLO.size
    if len(script) < size:
        return script
    magic, version, length, digest = handshake.SERVER_HELLO.unpack_from(script)
    part = script[size:-1] if len(script) > size else b""
    length = len(part) if which & 1 else length
    digest = hashlib.sha256(part).digest() if which & 2 else digest
    return handshake.SERVER_HELLO.pack(magic, version, length, digest) + script[size:]


def _parsed(data: bytes | str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _spelled(data: Any) -> bytes | None:
    try:
        return canonical(data)
    except (ValueError, RecursionError):
        return None


def _respelled(data: bytes) -> bytes | None:
    return _spelled(_parsed(data))


def _rehashed(fields: Any) -> str | None:
    if not isinstance(fields, dict):
        return None
    hashed = {key: fields[key] for key in fields if key not in ("format", "version", "hash", "prediction")}
    if (content := _spelled(hashed)) is None:
        return None
    return json.dumps({**fields, "hash": hashlib.sha256(content).hexdigest()})


def _resealed(data: bytes) -> bytes | None:
    fields = _parsed(data)
    if not isinstance(fields, dict):
        return None
    body = {key: fields[key] for key in fields if key not in ("format", "version", "sha256")}
    if (content := _spelled(body)) is None:
        return None
    return json.dumps({**fields, "sha256": hashlib.sha256(content).hexdigest()}).encode()


def _manifest() -> bytes:
    file = {"name": "0" * 16 + ".spill", "length": 10, "sha256": "00" * 32}
    body = {
        "run": {"plan": RUN.plan, "key": RUN.key, "request": RUN.request, "release": RUN.release},
        "index": 1,
        "stage": "layer0.scores",
        "complex_names": ["x"],
        "tensors": {"x": [{"file": file, "level": 5, "memory": 100}]},
    }
    sealed = _resealed(json.dumps({"format": resume.FORMAT, "version": resume.VERSION, **body}).encode())
    assert sealed is not None
    return sealed


def _envelope(kind: str, tensors: Any) -> bytes:
    lengths = {tensor.name: [4] * tensor.count for tensor in tensors}
    header = {"kind": kind, "plan": PLAN.hash, "key": KEY, "tensors": lengths}
    content = canonical(header)
    body = b"".join(b"ct.." for tensor in tensors for _ in range(tensor.count))
    whole = struct.pack("<10sHI", envelope.MAGIC, envelope.VERSION, len(content)) + content + body
    return whole + hashlib.sha256(whole).digest()
