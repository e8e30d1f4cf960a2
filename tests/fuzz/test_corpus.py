"""Every Python decoder takes the inputs that fuzzing has kept, and its honest ones, without any fuzzer."""

from __future__ import annotations

from pathlib import Path

import decoders
import pytest
import service_decoders
import trees

CORPUS = Path(__file__).parent / "corpus"
MOST_BYTES = 1 << 20
JSON = ("two_party_plan", "ckks_plan", "program", "http_bodies", "receipt", "control")


@pytest.mark.parametrize("name", decoders.DECODERS)
def test_corpus(name: str) -> None:
    inputs = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    assert inputs, name
    for data in [*inputs, *decoders.seeds(name)]:
        decoders.DECODERS[name](data)


@pytest.mark.parametrize("name", JSON)
def test_a_thousand_changed_documents(name: str) -> None:
    """A short run of what `make fuzz` does for longer."""
    honest = decoders.seeds(name)
    changed = [trees.mutated(honest[seed % len(honest)], seed) for seed in range(1000)]
    for data in filter(None, changed):
        decoders.DECODERS[name](data)


def test_the_honest_inputs_are_accepted() -> None:
    """Had they been refused at the first byte, nothing behind it would be fuzzed."""
    assert decoders.parse_plan(decoders.seeds("two_party_plan")[0]) == decoders.TWO_PARTY_PLAN
    short, whole = (decoders.parse(seed.decode(), "plan") for seed in decoders.seeds("ckks_plan"))
    assert whole.hash == decoders.PLAN.hash and len(short.stages) == len(short.rotations) == 1
    decoders.require_circuit(short)
    assert decoders.public_part.decode(decoders.PUBLIC_PART).plan == decoders.TWO_PARTY_PLAN.program
    for wish in decoders.seeds("text_wish"):
        assert (
            decoders.handshake.receive_request(
                decoders.Scripted(wish), decoders.TWO_PARTY_PLAN.program
            ).to_bytes()
            == wish[:36]
        )
    for kind in ("request", "response"):
        file = decoders.File(decoders.seeds(f"{kind}_file")[0])
        assert list(decoders.envelope.stream(file, kind, decoders.PLAN, decoders.KEY))
    program = decoders.seeds("program")[0]
    assert service_decoders.programs.decode(program).hash == decoders.TWO_PARTY_PLAN.hash
    for message in decoders.seeds("control"):
        assert service_decoders.child_messages(message) == 1
    for read, body in zip(("Models", "Keys", "KeyState"), decoders.seeds("http_bodies"), strict=False):
        assert getattr(service_decoders, read).model_validate_json(body)
    assert service_decoders.files.owner_of(decoders.seeds("key_head")[0]) == service_decoders.ID
    manifest = decoders.Store(decoders.seeds("resume_manifest")[0])
    assert decoders.resume.find(manifest, decoders.RUN) is not None


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < MOST_BYTES
