"""Responses that a server forged: none is shown as an answer, and what one opens is what SECURITY.md says."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import envelopes
import numpy as np
import plans
import pytest
from tiny import inputs

from tacita import api, compiled
from tacita.cli import main
from tacita.client.session import load_secret
from tacita.layouts.runs import Runs
from tacita.plans.envelope import PREFIX

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
blake3 = pytest.importorskip("blake3").blake3
pytestmark = pytest.mark.native

HEADER = 83  # bytes before a file's first length
DEGREE = 1 << 10
WIDTHS = (44, 41, 42)  # bits of the preset's first primes, by which residues are packed
CONSTANT = 1 << 40  # below all of these primes
BEFORE = 12  # bytes of a ciphertext before its residues
Forge = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys and a response, in `public` what the client was given."""
    work, plan, model = tmp_path_factory.mktemp("run"), plans.real_plan(), plans.model()
    api.publish(plan, model, work / "public")
    client = api.Client(work / "public", work, allow_insecure=True)
    client.keygen()
    client.encrypt(hidden_states=inputs(model, plans.TOKENS, 8, 5)[0])
    api.Server(plan, model, work, allow_insecure=True, threads=1).evaluate()
    assert client.decrypt().warnings == ()
    return work


@pytest.fixture
def work(answered: Path, tmp_path: Path) -> Path:
    return shutil.copytree(answered, tmp_path / "work")


def forge(work: Path, change: Forge) -> list[float]:
    """Rewrites the body of every ciphertext of response.ct, with right checksums; their scales before."""
    path = work / "response.ct"
    data = path.read_bytes()
    magic, version, length = PREFIX.unpack(data[: PREFIX.size])
    header, cts = json.loads(data[PREFIX.size :][:length]), data[PREFIX.size + length : -32]
    ((name, lengths),) = header["tensors"].items()
    own = [cts[sum(lengths[:i]) :][:count] for i, count in enumerate(lengths)]
    forged = [_ct(ct, change) for ct in own]
    header["tensors"] = {name: [len(ct) for ct in forged]}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    whole = PREFIX.pack(magic, version, len(text)) + text + b"".join(forged)
    path.write_bytes(whole + hashlib.sha256(whole).digest())
    return [struct.unpack("<d", ct[HEADER + 12 :][:8])[0] for ct in own]


def _ct(data: bytes, change: Forge) -> bytes:
    (length,) = struct.unpack("<Q", data[HEADER : HEADER + 8])
    body = change(data[HEADER + 8 :][:length])
    return data[:HEADER] + struct.pack("<Q", len(body)) + body + blake3(body).digest()[:16]


def rescaled(scale: float) -> Forge:
    return lambda body: body[:4] + struct.pack("<d", scale) + body[BEFORE:]


def one_limb(body: bytes) -> bytes:
    """The first residues of both polynomials alone."""
    rows, half = body[BEFORE:], (len(body) - BEFORE) // 2
    first = DEGREE * WIDTHS[0] // 8
    return body[:2] + struct.pack("<H", 1) + body[4:BEFORE] + rows[:first] + rows[half:][:first]


def opening(body: bytes) -> bytes:
    """(0, K) at the same level and scale: decrypted, it is K / scale times the secret."""
    half = (len(body) - BEFORE) // 2
    assert half == sum(WIDTHS) * DEGREE // 8
    rows = [sum(CONSTANT << (width * i) for i in range(DEGREE)) for width in WIDTHS]
    packed = [row.to_bytes(DEGREE * width // 8, "little") for row, width in zip(rows, WIDTHS, strict=True)]
    return body[:BEFORE] + bytes(half) + b"".join(packed)


def slots_of_secret(work: Path) -> np.ndarray:
    """Real parts, from the ternary digits in secret.key."""
    data = np.frombuffer((work / "secret.key").read_bytes()[HEADER + 8 :][: DEGREE // 4], np.uint8)
    digits = ((data[:, None] >> np.arange(0, 8, 2)) & 3).ravel().astype(float) - 1.0
    assert set(digits) == {-1.0, 0.0, 1.0}
    powers = np.array([pow(5, slot, 2 * DEGREE) for slot in range(DEGREE // 2)])
    return np.real(np.exp(1j * np.pi / DEGREE * np.outer(powers, np.arange(DEGREE))) @ digits)


def decrypt(work: Path, *options: str) -> int:
    folders = ["--public", str(work / "public"), "--work", str(work)]
    return main(["decrypt", *folders, "--allow-insecure", *options])


@pytest.mark.parametrize("change", [one_limb, rescaled(2.0**10), rescaled(math.nan), rescaled(2.0**100)])
@pytest.mark.parametrize("options", [(), ("--show-anyway",)])
def test_another_level_or_scale_than_the_plans_is_refused(
    work: Path, change: Forge, options: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    forge(work, change)
    assert decrypt(work, *options) == 2
    printed = capsys.readouterr()
    assert "the plan says" in printed.err or "scale" in printed.err
    assert printed.out == ""


def test_a_response_that_opens_the_key_is_not_shown(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What one decrypts to are linear functions of the secret: so says SECURITY.md."""
    (scale,) = forge(work, opening)
    report = work / "decrypt.json"
    assert decrypt(work, "--json", str(report)) == 2
    printed = capsys.readouterr()
    assert "no answer" in printed.out and not re.search(r"\d", printed.out)
    assert "do not trust the answer" in printed.err
    said = json.loads(report.read_text())
    assert said["label"] is said["logits"] is said["answers"][0]["logits"] is None

    assert decrypt(work, "--show-anyway", "--json", str(report)) == 2
    found, response = json.loads(report.read_text())["logits"], plans.real_plan().layout.response
    slots = slots_of_secret(work)
    pairs = zip(places(response.numbers), places(response.copies), strict=True)
    opened = [
        0.5 * response.bound * CONSTANT / scale * (slots[first] + slots[again]) for first, again in pairs
    ]
    assert found == pytest.approx(opened, abs=0.001)


def places(runs: Runs) -> list[int]:
    """The slots of the numbers in their order."""
    found = {}
    for slot, number, *steps in runs:
        places = np.array([[slot, number]])
        for i in range(0, len(steps), 3):
            far = np.arange(steps[i])[:, None] * steps[i + 1 : i + 3]
            places = (places[:, None] + far).reshape(-1, 2)
        found.update({number: slot for slot, number in places.tolist()})
    return [found[number] for number in sorted(found)]


def test_of_a_batch_the_texts_that_fail_are_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The client makes the response itself: of two texts one has a copy that is off by 3 %."""
    plan, native = plans.real_plan("moai"), compiled.native
    api.publish(plan, plans.model(), tmp_path / "public")
    client = api.Client(tmp_path / "public", tmp_path, allow_insecure=True)
    client.keygen()
    response, slots = plan.layout.response, np.zeros(plan.parameters.slots, complex)
    numbers, copies = (np.reshape(places(runs)[:4], (2, 2)) for runs in (response.numbers, response.copies))
    slots[np.hstack([numbers, copies, np.reshape(places(response.norms)[:2], (2, 1))])] = [
        [0.9, 0.125, 0.9, 0.125, 0.5],
        [0.9, 0.125, 0.927, 0.125, 0.5],
    ]
    secret = load_secret(plan, client.work, allow_insecure=True)
    (tensor,) = plan.response
    made = {tensor.name: [native.encrypt(secret, slots, tensor.level).to_bytes()]}
    envelopes.write(client.work.response, "response", plan.hash, secret.key_id, made)

    assert decrypt(tmp_path, "--count", "2", "--json", str(tmp_path / "decrypt.json")) == 2
    first, second = json.loads((tmp_path / "decrypt.json").read_text())["answers"]
    bound = plan.layout.response.bound
    assert first["logits"] == pytest.approx([0.9 * bound, 0.125 * bound], abs=0.001) and first["trusted"]
    assert second["label"] is second["logits"] is None and second["warnings"]
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].startswith("1: label: ")
    assert printed.out.splitlines()[1] == "2: answer: no answer: its checks failed"
    assert "warning: 2: " in printed.err
