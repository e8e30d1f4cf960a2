"""A published run that a stranger checks again: `record` makes one with keys to throw away, `recheck` proves
it.

A folder of a run holds the plan, the request, the response, what was asked and answered, and the *secret
key*. That key is made for this one run and given away with it. So whoever has the model can see that the
request encrypts the text, that the response decrypts to the answer, and that the circuit, evaluated anew,
leads from the one to the other. Evaluation keys are not in the folder: they are made again from the secret
key, with other errors, so the second response has other bytes and the same answer.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacita import compiled
from tacita.api import Client, Server, reference_logits
from tacita.checkpoint import Checkpoint
from tacita.client.session import embedded, load_secret
from tacita.errors import FileError, InputError
from tacita.planning.circuit import require_model
from tacita.plans import engine, envelope, json_fields
from tacita.plans.files import Workdir, replacing, require, sha256_of
from tacita.plans.plan import Plan
from tacita.plans.public_folder import public_of
from tacita.schemes.base import Report, save
from tacita.texts.answer import Answer
from tacita.version import __version__

KIT = "run.json"
FILES = ("plan.json", "weights.salt", "secret.key", "request.ct", "response.ct")
MOST_BYTES = 50_000_000  # of the folder
REQUEST_NOISE = 2.0**-20  # of a slot of a fresh encryption, far above what its error can be


@dataclass(frozen=True)
class Check:
    """One thing that was checked, and what it showed."""

    name: str
    detail: str


def record(folder: Path, plan: Plan, model: Checkpoint, text: str, *, report: Report, **how: Any) -> Answer:
    """Runs `text` encrypted under a key of its own, and writes what `recheck` reads into the folder.

    how: threads, memory, allow_insecure, device, as of `Server`. Cost: key generation and one evaluation;
    evaluation keys are removed again. Raises InputError for a folder that is not empty, for a folder above
    50 MB (the plan is then too large for a published run), for an answer that failed its checks and as the
    steps do.
    """
    require_new(folder, text)
    work, insecure = Workdir(folder), bool(how.get("allow_insecure"))
    save(plan, work.plan)
    client = Client(public_of(plan, model), work, allow_insecure=insecure, one_user=True)
    try:
        client.keygen(report)
        client.encrypt(text)
        Server(plan, model, work, **how).evaluate(report)
        answer = client.decrypt(text)
    finally:
        for extra in (work.evaluation_keys, work.key_use):
            extra.unlink(missing_ok=True)
    if answer.empty:
        raise InputError(
            "record: the answer failed its checks", hint="calibrate on texts like it: [plan] texts"
        )
    if (size := sum((folder / name).stat().st_size for name in FILES)) > MOST_BYTES:
        raise InputError(f"{folder}: a run of {size} bytes, at most {MOST_BYTES}", hint="fewer --tokens")
    claims = {"release": __version__, "text": text, "label": answer.label, "logits": list(answer.logits)}
    sums = {name: sha256_of(folder / name) for name in FILES}
    with replacing(folder / KIT) as path:
        path.write_text(json.dumps({"kit": 1, **claims, "files": sums}, indent=1) + "\n", encoding="utf-8")
    return answer


def require_new(folder: Path, text: str) -> None:
    """Raises InputError for a folder that holds files, and for a text that no run is published with."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: not empty", hint="name a new folder")
    if not text.isprintable() or not 0 < len(text) <= json_fields.MAX_STRING:
        hint = "a run is published with its text"
        raise InputError(f"a text of {len(text)} characters, 1 to {json_fields.MAX_STRING}", hint=hint)


def recheck(folder: Path, model: Checkpoint, *, report: Report, **how: Any) -> Iterator[Check]:
    """Checks a folder that `record` wrote, and yields each check when it has passed.

    model: the one that the plan is committed to. how: as of `record`. Cost: as `record`; 6 GB and a minute
    for the default plan. Raises FileError naming the first check that fails, CheckpointError for another
    model.
    """
    claims = _read(folder)
    yield Check("files", f"{len(FILES)} files have the sums that {KIT} states")
    insecure = bool(how.get("allow_insecure"))
    plan = Plan.load(folder / "plan.json")
    require_model(plan, model)
    yield Check("plan", f"{plan.name}, {plan.privacy}; the model is the one it is committed to")
    with tempfile.TemporaryDirectory(prefix="tacita-recheck-") as temporary:
        work = Workdir(Path(temporary))
        for name in FILES:
            shutil.copyfile(folder / name, work.path / name)
        work.secret_key.chmod(0o600)
        client = Client(public_of(plan, model), work, allow_insecure=insecure, one_user=True)
        error = _request_error(client, claims.text)
        _require(error <= REQUEST_NOISE, "the request encrypts another text")
        yield Check(
            "request", f"encrypts the text: slots differ by 2^{np.log2(max(error, 1e-300)):.0f} at most"
        )
        answer = client.decrypt(claims.text)
        same = not answer.empty and (answer.label, answer.logits) == (claims.label, claims.logits)
        _require(same, "the response decrypts to another answer")
        yield Check("response", f"decrypts to {answer.summary}")
        client.keygen(report, keep_secret=True)
        Server(plan, model, work, **how).evaluate(report)
        again = client.decrypt(claims.text)
        step = 2 * plan.logit_step
        apart = float(np.max(np.abs(np.subtract(again.logits, answer.logits))))
        _require(apart <= step and again.label == answer.label, "evaluated again, the answer is another")
        yield Check("evaluation", f"with new evaluation keys leads to the same answer, within {apart:.2g}")
        exact = reference_logits(plan, model, claims.text)
        yield Check("float", f"the model in the clear differs by {np.max(np.abs(exact - answer.logits)):.2g}")


def _request_error(client: Client, text: str) -> float:
    """Decrypts the request, and returns the largest distance of a slot from those that the text is packed
    to."""
    plan, work = client.plan, client.work
    secret = load_secret(plan, work, allow_insecure=client.allow_insecure)
    packed = plan.layout.request.pack([embedded(plan, client.public.front, text, None)])
    largest = 0.0
    with engine.translated(FileError, str(work.request)):
        for name, index, data in envelope.stream(work.request, "request", plan, secret.key_id):
            slots = secret.decrypt(compiled.native.Ciphertext.from_bytes(secret.params, data))
            meant = np.resize(packed[name][index], slots.shape)
            largest = max(largest, float(np.max(np.abs(slots - meant))))
    return largest


@dataclass(frozen=True)
class _Claims:
    """What a folder says of itself, in KIT. release: that recorded it. files: name -> SHA-256."""

    kit: int
    release: str
    text: str
    label: str | None
    logits: tuple[float, ...]
    files: Mapping[str, str]


def _read(folder: Path) -> _Claims:
    """Reads what a folder says of itself, and checks its files against it. Raises FileError."""
    path = require(folder / KIT, "recheck --record")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("too large")
        claims: _Claims = json_fields.from_json(_Claims, json_fields.loads(path.read_text(encoding="utf-8")))
        if claims.kit != 1 or set(claims.files) != set(FILES):
            raise ValueError("of another version")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: no run that can be checked ({error})", hint="have it copied anew"
        ) from error
    _require(sum(_size(folder / name) for name in FILES) <= MOST_BYTES, "the files are above 50 MB")
    for name in FILES:
        _require(sha256_of(folder / name) == claims.files[name], f"{name} is not the file that was recorded")
    return claims


def _size(path: Path) -> int:
    return require(path, "recheck --record").stat().st_size


def _require(passed: bool, problem: str) -> None:
    if not passed:
        raise FileError(f"recheck: {problem}", hint="the run is damaged, or was not what it says it is")
