"""The public plan of the two-party mode: made from a checkpoint, one spelling, and refused when a field is
out of its limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita.approx.fit import FitError
from tacita.checkpoint import Checkpoint, embed, from_tensors, load
from tacita.checkpoint.reference import reference
from tacita.checkpoint.texts import load_texts
from tacita.data import DEFAULT_MODEL
from tacita.errors import CheckpointError, FileError, PlanError, ShapeError
from tacita.models.retrained import Retrained
from tacita.planning.request import PlanRequest
from tacita.plans.json_fields import canonical
from tacita.schemes.base import silent
from tacita.schemes.choose import choose_plan
from tacita.schemes.registry import scheme_of
from tacita.two_party.arithmetic.base import Formats
from tacita.two_party.arithmetic.functions import NormLayout, norm_layout
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.server import TwoPartyServer

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(make_random_checkpoint(), PlanRequest(tokens=16, texts=TEXTS))


def test_the_plan_survives_the_wire(plan: TwoPartyPlan) -> None:
    found = parse_plan(plan.to_bytes())
    assert found == plan and found.hash == plan.hash
    assert len(plan.bounds.attention) == 2 and "pooler.tanh" in plan.bounds.functions


def test_the_plan_holds_no_weights_and_no_hash_of_them(plan: TwoPartyPlan) -> None:
    checkpoint = make_random_checkpoint()
    assert checkpoint.sha256 not in plan.to_bytes().decode()
    assert replace(plan, name="x").hash != plan.hash


def sharper(model: Checkpoint, layer: int, factor: float) -> Checkpoint:
    """The model with a layer's queries times a factor, so that its scores are that much larger."""
    (key,) = (name for name in model.tensors if name.endswith(f"layer.{layer}.attention.self.query.weight"))
    tensors = {**model.tensors, key: factor * model.tensors[key]}
    return from_tensors(model.config, tensors, model.tokenizer)


def test_heads_with_peaked_scores_are_not_tempered() -> None:
    sharp = sharper(make_random_checkpoint(layers=1), 0, 40.0)
    plan = make_two_party_plan(sharp, PlanRequest(tokens=16, texts=TEXTS))
    assert plan.bounds.attention["layer0.attention"].scores[1] > 50.0


def test_scores_whose_exponentials_are_no_doubles_are_answered_as_by_floats() -> None:
    """Scores of [-960, 1176]: a sum of exponentials is as small as e^-1900 beside the largest."""
    known = load(DEFAULT_MODEL)
    vectors = from_tensors(replace(known.config, pooling="mean", labels=()), known.tensors, known.tokenizer)
    sharp, texts = sharper(vectors, 1, 300.0), load_texts()
    plan = make_two_party_plan(sharp, PlanRequest(tokens=48, texts=texts[:100]))
    assert plan.bounds.attention["layer1.attention"].scores[0] < -745.0
    for text in texts[100:130]:
        sample = embed(sharp, text, 48)
        wanted = reference(sharp, *sample).trace["answer"]
        (found,) = scheme_of("bumblebee").in_the_clear(plan, sharp, [sample], "sim", 0, silent)
        cosine = found.vector @ wanted / np.linalg.norm(found.vector) / np.linalg.norm(wanted)
        assert cosine >= 0.999


@pytest.mark.parametrize("scheme", ["bumblebee", "thor", "arion"])
@pytest.mark.parametrize("factor", [1e6, 1e300])
def test_a_model_beyond_doubles_is_planned_or_refused_in_a_line(scheme: str, factor: float) -> None:
    sharp = sharper(make_random_checkpoint(), 1, factor)
    request = PlanRequest(tokens=16, texts=TEXTS, scheme=scheme, preset="insecure_toy_n11")
    with pytest.raises((CheckpointError, FitError, PlanError)) as caught:
        choose_plan(sharp, request)
    assert "\n" not in str(caught.value)


def lengthened(model: Checkpoint, norm: float) -> Checkpoint:
    """The model with a column of the last feed-forward's inner weights of this norm, which nothing reads."""
    (inner,) = (name for name in model.tensors if name.endswith("layer.1.intermediate.dense.weight"))
    (outer,) = (name for name in model.tensors if name.endswith("layer.1.output.dense.weight"))
    tensors = {**model.tensors, inner: model.tensors[inner].copy(), outer: model.tensors[outer].copy()}
    tensors[inner][5] *= norm / np.linalg.norm(tensors[inner][5])
    tensors[outer][:, 5] = 0.0
    return from_tensors(model.config, tensors, model.tokenizer)


def test_a_column_of_weights_that_no_product_takes_is_refused_before_a_text(plan: TwoPartyPlan) -> None:
    """The engine would refuse it in the middle of one. With fewer fraction bits it is planned."""
    inside, beyond = (lengthened(make_random_checkpoint(), norm) for norm in (1023.0, 2048.0))
    text = r"layer1.feed_forward: a column of .*intermediate.dense.weight has norm 2\^11\.0, .* up to 2\^10"
    request = PlanRequest(tokens=16, texts=TEXTS, scheme="bumblebee")
    make_two_party_plan(inside, request)
    with pytest.raises(CheckpointError, match=text):
        make_two_party_plan(beyond, request)
    with pytest.raises(CheckpointError, match=text):
        TwoPartyServer(plan, beyond)
    coarse = make_two_party_plan(beyond, replace(request, formats=Formats(weight=12)))
    assert TwoPartyServer(coarse, beyond).plan == coarse


def test_factors_of_a_norm_that_the_plan_has_no_room_for_are_refused(plan: TwoPartyPlan) -> None:
    """A plan of a model that was trained on since: the engine would multiply by what is left of them."""
    model = make_random_checkpoint()
    (name,) = (name for name in model.tensors if name.endswith("layer.0.attention.output.LayerNorm.weight"))
    tensors = {**model.tensors, name: 8.0 * model.tensors[name]}
    with pytest.raises(CheckpointError, match=r"layer0.*LayerNorm.weight has factors up to 8.7.*below 2"):
        TwoPartyServer(plan, from_tensors(model.config, tensors, model.tokenizer))


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


def test_an_answer_fits_the_ring_in_which_it_is_opened(plan: TwoPartyPlan) -> None:
    """Beyond, it would come back with the other sign, within its bound: nobody would be warned."""
    data = json.loads(plan.to_bytes())
    most = 2.0 ** (plan.program.answered.ring - 1 - plan.program.answered.fraction)
    assert parse_plan(canonical({**data, "answer": most - 1.0})).answer == most - 1.0
    with pytest.raises(FileError, match=r"answer up to 5\.24e\+05 is out of range"):
        parse_plan(canonical({**data, "answer": most}))


def test_norms_of_many_values_have_room_for_their_sums(
    plan: TwoPartyPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would refuse them in every session."""
    assert norm_layout(1024, 256.0, 1.0, 1.0).sums and not norm_layout(1024, 256.0, 0.5, 1.0).sums
    monkeypatch.setattr(NormLayout, "sums", False)
    assert parse_plan(plan.to_bytes()) == plan, "of few values they are not taken"
    monkeypatch.setattr("tacita.two_party.plan.check.FEW", 1)
    with pytest.raises(FileError, match=r"norm behind layer0.attention: rows of 16, deviations over 2\^3 is"):
        parse_plan(plan.to_bytes())


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
            from_tensors(checkpoint.config, big, checkpoint.tokenizer), PlanRequest(tokens=16, texts=TEXTS)
        )


def test_retrained_models_are_refused() -> None:
    checkpoint = make_random_checkpoint()
    batch = Retrained(norm_variant="batch", deviations=((1.0, 1.0),) * 2)
    retrained = from_tensors(
        replace(checkpoint.config, retrained=batch), checkpoint.tensors, checkpoint.tokenizer
    )
    with pytest.raises(CheckpointError, match="retrained"):
        make_two_party_plan(retrained, PlanRequest(tokens=16, texts=TEXTS))


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(ShapeError, match="64 positions"):
        make_two_party_plan(make_random_checkpoint(), PlanRequest(tokens=128, texts=TEXTS))
