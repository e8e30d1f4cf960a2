"""Calibration, tempering and fitting go by names of nodes: a family that the house does not know passes
through."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import tiny
from random_checkpoint import make_random_checkpoint

from tacita.approx.fit import FitError
from tacita.blocks.base import Attention, Dense, FeedForward, Norm
from tacita.blocks.shapes import Shapes
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.errors import CheckpointError, PlanError
from tacita.layouts.registry import QUADRATIC
from tacita.models import registry
from tacita.models.config import Names
from tacita.models.layers import Family
from tacita.packings.lowering import check_specs
from tacita.packings.specs import AttentionSpecs, CircuitSpecs, FunctionSpecs, NormSpecs, approximated
from tacita.planning.calibrate.calibrate import CalibrationOptions as Options
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.calibrate.excesses import excesses
from tacita.planning.calibrate.temper import tempered
from tacita.planning.calibrate.walk import walk
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.two_party.planning import magnitudes, node_bounds

TOKENS = 8
KINDS = {
    "before": "norm", "look": "attention", "between": "norm", "think": "function", "after": "norm",
    "squash": "function",
}  # fmt: skip


@dataclass(frozen=True)
class Steps:
    """A family with norms before the blocks, heads of 4 features and a tanh at the end."""

    hidden: int = 16
    heads: int = 4
    inner: str = "relu"
    normalise: bool = False
    every_token: bool = False
    image: None = None
    backwards: bool = False


def forward(b: Any, m: Steps, x: Any, *, all_rows: bool = False) -> Any:
    query, key, value, output = (Dense(f"weights.{name}", m.hidden, m.hidden) for name in "qkvo")
    inner = FeedForward(Dense("up", m.hidden, 24), m.inner, Dense("down", 24, m.hidden))
    norms = (Norm(f"norms.{i}", m.hidden, 1e-6) for i in range(3))
    x = b.add(
        x,
        b.attention(b.norm(x, next(norms), "before"), Attention(m.heads, query, key, value, output), "look"),
    )
    x = b.add(x, b.feed_forward(b.norm(x, next(norms), "between"), inner, "think"))
    return b.answer(b.function(b.mean(b.norm(x, next(norms), "after"), "all"), "tanh", "squash"))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """Of that family, with one head that is too peaked."""
    family = Family(Steps, {}, forward, Steps, lambda m: Names(()))
    monkeypatch.setitem(registry.FAMILIES, "steps", family)
    return checkpoint(Steps())


def checkpoint(config: Steps) -> Checkpoint:
    walked, rng, tensors = Shapes(), np.random.default_rng(3), {}
    forward(walked, config, (TOKENS, config.hidden))
    for name, shape in walked.tensors.items():
        tensors[name] = rng.normal(0.0, 0.2, shape) + (name.startswith("norms") and name.endswith("weight"))
    tensors["weights.q.weight"][:4] *= 6.0
    frozen: Any = MappingProxyType(tensors)
    return Checkpoint("steps", config, frozen, None, lambda: "00" * 32)  # type: ignore[arg-type]


def samples(model: Checkpoint, count: int = 40) -> list[Any]:
    return [tiny.inputs(model, TOKENS, TOKENS - n % 3, seed=n) for n in range(count)]


def test_an_unknown_family_is_calibrated_tempered_and_fitted(model: Checkpoint) -> None:
    inputs = samples(model)
    found = calibrate(model, TOKENS, hidden_states=inputs)
    assert {name: node.tag for name, node in found.nodes.items()} == KINDS
    assert found.entry >= max(np.abs(hidden).max() for hidden, _ in inputs)
    betas = found.temperatures["look"]
    assert betas[0] < 1.0 and betas[1:] == (1.0, 1.0, 1.0)
    soft = tempered(model, found.temperatures)
    before, after = (one.tensors["weights.q.weight"][:4] for one in (model, soft))
    np.testing.assert_allclose(after, betas[0] * before)
    ranges = walk(soft, inputs, len(inputs), rows=found.row_estimates)
    assert all(each.max() <= 1.0 for each in excesses(ranges, found).values())
    specs = fit_circuit(found, model.config, Accuracy(inverse=1e-2, exp=1e-2, relu=1e-2))
    check_specs(model, specs)
    assert [specs.function(name).function.function for name in ("think", "squash")] == ["relu", "tanh"]
    assert specs.norm("after").rsqrt.interval == found.norm("after").variance
    assert specs.inputs == {"between": found.norm("between").sum}, (
        "the first sum is read twice, the second by a norm alone"
    )
    assert CircuitSpecs.from_json(json.loads(json.dumps(specs.to_dict()))) == specs


def test_an_unknown_familys_row_estimates_and_two_party_bounds(model: Checkpoint) -> None:
    found = calibrate(
        model, TOKENS, hidden_states=samples(model), options=Options(row_estimates=QUADRATIC, temper=False)
    )
    assert set(found.row_estimates) == {"look"} and len(found.row_estimates["look"].linear) == 4
    bounds, largest = node_bounds(model, found), magnitudes(model.config, found)
    assert bounds.attention["look"].scores == found.attention("look").scores
    assert bounds.functions.keys() == {"think", "squash"} and bounds.norms.keys() == {
        "before",
        "between",
        "after",
    }
    assert largest.keys() == {"before", "look", "between", "think", "after"}


def test_a_function_without_an_approximation_is_refused_by_name(model: Checkpoint) -> None:
    found = calibrate(model, TOKENS, hidden_states=samples(model))
    with pytest.raises(PlanError, match="no approximation of 'mish'") as caught:
        fit_circuit(found, replace(model.config, inner="mish"), Accuracy(inverse=1e-2, exp=1e-2))
    assert "gelu" in caught.value.hint and "relu" in caught.value.hint


def test_an_outline_has_the_nodes_of_the_whole_configuration() -> None:
    for options in ({"pooling": "mean", "activation": "relu"}, {"pooling": "cls"}, {"labels": ()}):
        config = make_random_checkpoint(**options).config  # type: ignore[arg-type]
        fields = ("layers", "hidden", "heads", "intermediate", "activation", "pooling", "labels")
        outline = registry.outline("bert", **{name: getattr(config, name) for name in fields})
        known, told = approximated(registry.nodes(config)), approximated(registry.nodes(outline))
        assert known == told and len(known) in (8, 9)


def test_a_configuration_of_no_family_is_refused() -> None:
    with pytest.raises(CheckpointError, match="type Steps"):
        registry.family_of(Steps())  # type: ignore[arg-type]


def test_specs_are_read_strictly() -> None:
    checkpoint = tiny.checkpoint()
    hidden, mask = tiny.inputs(checkpoint, TOKENS, 6)
    data = tiny.specs(checkpoint, reference(checkpoint, hidden, mask), mask).to_dict()
    norm = data["nodes"]["layer0.norm1"]
    for changed, message in (
        ({"centred": "1.0"}, "layer0.norm1: centred"),
        ({"centred": float("nan")}, "expected a number"),
        ({"centred": 10**400}, "too large"),
        ({"rsqrt": 1.0}, "layer0.norm1: rsqrt"),
        ({"rsqrt": {"kind": "oracle"}}, "unknown kind 'oracle'"),
        ({"kind": "function"}, "unknown field .* in FunctionSpecs"),
        ({"kind": ["norm"]}, "expected one of attention, norm, function"),
        ({"shift": 1.0}, "unknown field 'shift' in NormSpecs"),
    ):
        with pytest.raises((PlanError, FitError), match=message):
            CircuitSpecs.from_json(data | {"nodes": {"layer0.norm1": norm | changed}})
    for changed, message in (
        ({"entry": None}, "entry"),
        ({"nodes": []}, "nodes"),
        ({"extra": 1}, "unknown field 'extra'"),
    ):
        with pytest.raises(PlanError, match=message):
            CircuitSpecs.from_json(data | changed)


def test_specs_are_found_by_name_and_kind() -> None:
    checkpoint = tiny.checkpoint()
    hidden, mask = tiny.inputs(checkpoint, TOKENS, 6)
    specs = tiny.specs(checkpoint, reference(checkpoint, hidden, mask), mask)
    kinds = (AttentionSpecs, NormSpecs, FunctionSpecs)
    found = specs.attention("layer0.attention"), specs.norm("layer0.norm2"), specs.function("pooler.tanh")
    assert tuple(map(type, found)) == kinds
    with pytest.raises(PlanError, match=r"'layer1\.attention' is missing, expected AttentionSpecs"):
        specs.attention("layer1.attention")
    with pytest.raises(PlanError, match=r"'layer0\.norm1' is NormSpecs, expected FunctionSpecs"):
        specs.function("layer0.norm1")
    more = replace(specs, nodes={**specs.nodes, "layer9.norm1": found[1]})
    with pytest.raises(PlanError, match=r"specs of 6 nodes, model of 5: they differ in layer9\.norm1"):
        check_specs(checkpoint, more)
