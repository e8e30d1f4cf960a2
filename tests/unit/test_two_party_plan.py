"""The public plan of the two-party mode: made from a checkpoint, one spelling, and refused when a field is
out of its limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from random_checkpoint import make_random_checkpoint

from tacita.checkpoint import from_tensors
from tacita.errors import CheckpointError, FileError, ShapeError
from tacita.models.encoders.retrained import Retrained
from tacita.planning.two_party import make_two_party_plan
from tacita.planning.wish import Wish
from tacita.plans.two_party.check import parse_plan
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.plans.typed_json import canonical

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(make_random_checkpoint(), Wish(tokens=16, texts=TEXTS))


def test_the_plan_survives_the_wire(plan: TwoPartyPlan) -> None:
    found = parse_plan(plan.to_bytes())
    assert found == plan and found.hash == plan.hash
    assert len(plan.bounds.attention) == 2 and "pooler.tanh" in plan.bounds.functions


def test_the_plan_holds_no_weights_and_no_hash_of_them(plan: TwoPartyPlan) -> None:
    checkpoint = make_random_checkpoint()
    assert checkpoint.sha256 not in plan.to_bytes().decode()
    assert replace(plan, name="x").hash != plan.hash


def test_heads_with_peaked_scores_are_not_tempered() -> None:
    checkpoint = make_random_checkpoint(layers=1)
    sharp = dict(checkpoint.tensors)
    sharp["encoder.layer.0.attention.self.query.weight"] = (
        40.0 * sharp["encoder.layer.0.attention.self.query.weight"]
    )
    plan = make_two_party_plan(
        from_tensors(checkpoint.config, sharp, checkpoint.tokenizer), Wish(tokens=16, texts=TEXTS)
    )
    assert plan.bounds.attention["layer0.attention"].scores[1] > 50.0


WIDE = "layer0.feed_forward"


def attention(data: Any) -> Any:
    return data["bounds"]["attention"]["layer0.attention"]


def functions(data: Any) -> Any:
    return data["bounds"]["functions"]


def norms(data: Any) -> Any:
    return data["bounds"]["norms"]


DAMAGES = {
    "version": lambda d: d.update(version=4),
    "unknown field": lambda d: d.update(more=1),
    "missing field": lambda d: d.pop("bounds"),
    "tokens": lambda d: d.update(tokens=1 << 20),
    "tokens as text": lambda d: d.update(tokens="16"),
    "hidden": lambda d: d["config"].update(hidden=1 << 30),
    "heads": lambda d: d["config"].update(heads=3),
    "ring": lambda d: d["formats"].update(ring=65),
    "interval": lambda d: attention(d).update(scores=[1.0, 1.0]),
    "huge": lambda d: functions(d).update({WIDE: [-1e300, 1e300]}),
    "variance": lambda d: norms(d)["layer1.norm1"].update(variance=[-1.0, 1.0]),
    "peaked scores": lambda d: attention(d).update(scores=[-1e6, 1e6]),
    "wide activation": lambda d: (functions(d).update({WIDE: [-1e5, 1e5]}), d["formats"].update(ring=46)),
    "deviation": lambda d: norms(d)["layer0.norm2"].update(variance=[1e-12, 1.0]),
    "gamma": lambda d: norms(d)["layer0.norm2"].update(gamma=0.0),
    "a norm without bounds": lambda d: norms(d).pop("layer1.norm2"),
    "bounds of another node": lambda d: norms(d).update({"layer2.norm1": norms(d)["layer1.norm1"]}),
    "an attention too many": lambda d: d["bounds"]["attention"].update({"layer9.attention": attention(d)}),
    "pooler": lambda d: functions(d).pop("pooler.tanh"),
    "more layers than bounds": lambda d: d["config"].update(layers=3),
    "magnitude of no node": lambda d: d["magnitudes"].update({"pooler": 1.0}),
    "magnitude": lambda d: d["magnitudes"].update({"layer0.norm1": 1e10}),
    "label": lambda d: d["config"].update(labels=["x" * 1000, "y"]),
    "label that clears the screen": lambda d: d["config"].update(labels=["\x1b[2J", "y"]),
    "name that clears the screen": lambda d: d.update(name="\x1b[2J"),
    "retrained": lambda d: d["config"]["retrained"].update(attention_variant="bpmax"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_plan_is_refused(plan: TwoPartyPlan, damage: str) -> None:
    data = json.loads(plan.to_bytes())
    DAMAGES[damage](data)
    with pytest.raises(FileError, match="two-party plan"):
        parse_plan(canonical(data))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"format": NaN}'])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(FileError):
        parse_plan(data)


def test_an_infinite_number_is_refused(plan: TwoPartyPlan) -> None:
    answer = f'"answer":{json.dumps(plan.answer)}'.encode()
    with pytest.raises(FileError, match="damaged"):
        parse_plan(plan.to_bytes().replace(answer, b'"answer":1e999'))


def test_another_spelling_is_refused(plan: TwoPartyPlan) -> None:
    with pytest.raises(FileError, match="spelling"):
        parse_plan(json.dumps(json.loads(plan.to_bytes())).encode())


def test_ranges_that_do_not_fit_are_found_at_conversion() -> None:
    checkpoint = make_random_checkpoint()
    big = dict(checkpoint.tensors)
    big["encoder.layer.1.output.LayerNorm.bias"] = big["encoder.layer.1.output.LayerNorm.bias"] + 1e10
    with pytest.raises(CheckpointError, match=r"layer1\.norm2: magnitude"):
        make_two_party_plan(
            from_tensors(checkpoint.config, big, checkpoint.tokenizer), Wish(tokens=16, texts=TEXTS)
        )


def test_retrained_models_are_refused() -> None:
    checkpoint = make_random_checkpoint()
    batch = Retrained(norm_variant="batch", deviations=((1.0, 1.0),) * 2)
    retrained = from_tensors(
        replace(checkpoint.config, retrained=batch), checkpoint.tensors, checkpoint.tokenizer
    )
    with pytest.raises(CheckpointError, match="retrained"):
        make_two_party_plan(retrained, Wish(tokens=16, texts=TEXTS))


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(ShapeError, match="64 positions"):
        make_two_party_plan(make_random_checkpoint(), Wish(tokens=128, texts=TEXTS))
