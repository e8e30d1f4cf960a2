"""A name that a part does not know is refused by that part: it never stands for the nearest known one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit, build_circuit
from eager import Known, SharedTensors
from random_checkpoint import make_random_checkpoint, write_folder
from safetensors.numpy import load_file

from tacita import api
from tacita.approx.functions import Functions
from tacita.blocks.floats import FloatTensors
from tacita.blocks.weights import Weights
from tacita.checkpoint import from_tensors, load
from tacita.checkpoint.reference import reference
from tacita.checkpoint.weights import read_tensors
from tacita.errors import CheckpointError, FileError, InputError, PlanError, ShapeError
from tacita.layouts.columns import BatchShape
from tacita.layouts.registry import Shape
from tacita.models.config import Names
from tacita.planning.request import PlanRequest, objective_of
from tacita.planning.survey import phases_of
from tacita.plans import envelope
from tacita.plans.plan import Plan
from tacita.plans.scheme import scheme_named, shape_of
from tacita.schemes.choose import Option
from tacita.schemes.registry import scheme_of
from tacita.slots.linear import LinearPlan
from tacita.two_party.arithmetic.base import Bounds, Formats
from tacita.two_party.plan.check import check, parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

TEXTS = ["a fine film", "the plot is dull"]
MODEL = make_random_checkpoint(layers=1)
TINY = tiny.checkpoint()


@pytest.fixture(scope="module")
def plan() -> Plan:
    return api.plan(MODEL, tokens=16, preset="insecure_toy_n10", texts=TEXTS)


@pytest.fixture(scope="module")
def two_party_plan() -> TwoPartyPlan:
    return make_two_party_plan(MODEL, PlanRequest(tokens=8, texts=TEXTS))


def with_config(model, **changes):
    """A checkpoint that nobody checked."""
    return replace(model, config=replace(model.config, **changes))


def tiny_specs():
    hidden, mask = tiny.inputs(TINY, 16, 9)
    return tiny.specs(TINY, tiny.run_reference(TINY, hidden, mask), mask, 1e-3)


@pytest.mark.parametrize("backend", ["ckks", "Sim", "", "shares"])
def test_no_backend_answers_in_the_place_of_another(plan: Plan, backend: str) -> None:
    with pytest.raises(InputError, match="backend"):
        api.classify_locally(plan, MODEL, TEXTS[0], backend=backend)
    with pytest.raises(InputError, match="backend"):
        api.classify_batch_locally(plan, MODEL, TEXTS[:1], backend=backend)


@pytest.mark.parametrize("changes", [{"activation": "gelu_new"}, {"activation": "mish"}, {"pooling": "max"}])
def test_no_checkpoint_has_an_unknown_activation_or_pooling(changes: dict[str, str]) -> None:
    (name, value) = next(iter(changes.items()))
    with pytest.raises(CheckpointError, match=f"{name} '{value}'"):
        from_tensors(replace(MODEL.config, **changes), MODEL.tensors)


def test_poolings_in_the_reference_and_in_circuits() -> None:
    hidden, mask = tiny.inputs(TINY, 16, 9)
    wrong, specs = with_config(TINY, pooling="max"), tiny_specs()
    with pytest.raises(PlanError, match="pooling 'max'"):
        reference(wrong, hidden, mask)
    with pytest.raises(PlanError, match="pooling 'max'"):
        build_circuit(wrong, specs, 512, 16)
    with pytest.raises(PlanError, match="pooling 'max'"):
        build_batch_circuit(wrong, specs, BatchShape(128, 16))


@pytest.mark.parametrize("interpreter", ["floats", "shares"])
@pytest.mark.parametrize("kind", ["selu", "gelu_new", "GELU", ""])
def test_activations_of_two_parties(kind: str, interpreter: str) -> None:
    x, mask = np.ones((4, 3)), np.ones(4)
    bounds, none = Bounds({}, {"n": (-2.0, 2.0)}, {}), Weights({})
    with pytest.raises(PlanError, match=f"function '{kind}'"):
        if interpreter == "floats":
            FloatTensors(none, mask).function(x, kind, "n")
        else:
            known = Known(Formats(), bounds, 4, mask=mask)
            shared = SharedTensors(SimpleNamespace(is_client=True), known)  # no engine is asked
            shared.function(shared.own(x), kind, "n")


@pytest.mark.parametrize("changes", [{"activation": "selu"}, {"pooling": "max"}, {"pooling": ""}])
def test_models_and_plans_of_two_parties(two_party_plan: TwoPartyPlan, changes: dict[str, str]) -> None:
    (name, value) = next(iter(changes.items()))
    config = replace(MODEL.config, **changes)
    wrong = replace(two_party_plan, config=config)
    told = f"function '{value}'" if name == "activation" else f"pooling '{value}'"
    with pytest.raises(PlanError, match=told):
        wrong.predicted_bytes()
    with pytest.raises(FileError, match="activation is out of range"):
        check(wrong)
    with pytest.raises(FileError, match="activation is out of range"):
        parse_plan(wrong.to_bytes())


def test_a_pooler_without_its_interval_is_refused(two_party_plan: TwoPartyPlan) -> None:
    functions = {
        name: found for name, found in two_party_plan.bounds.functions.items() if name != "pooler.tanh"
    }
    with pytest.raises(FileError, match="bounds of functions is out of range"):
        check(replace(two_party_plan, bounds=replace(two_party_plan.bounds, functions=functions)))


def test_embeddings_and_forms_of_two_parties(two_party_plan: TwoPartyPlan) -> None:
    with pytest.raises(InputError, match="embeddings 'hiden'"):
        make_two_party_plan(MODEL, PlanRequest(tokens=8, texts=TEXTS, embeddings="hiden"))
    with pytest.raises(InputError, match="form 'abs6'"):
        make_two_party_plan(MODEL, PlanRequest(tokens=8, texts=TEXTS, formats=Formats(gelu="abs6")))
    for changes in ({"embeddings": "hiden"}, {"correlations": "silent"}, {"formats": Formats(gelu="abs6")}):
        with pytest.raises(FileError, match="is out of range"):
            check(replace(two_party_plan, **changes))


def test_schemes_packings_and_objectives(plan: Plan) -> None:
    for call in (lambda: scheme_named("thorn"), lambda: phases_of(lambda _: None, ["thorn"])):
        with pytest.raises(InputError, match="no scheme 'thorn'"):
            call()
    with pytest.raises(PlanError, match="packing 'diagonals'"):
        Shape("diagonals", "hoisted", 512, 16)
    with pytest.raises(PlanError, match="packing rows with rotations 'double'"):
        Shape("rows", "double", 512, 16)
    with pytest.raises(PlanError, match="scheme 'columns'"):
        shape_of(replace(plan, scheme="columns"))
    with pytest.raises(InputError, match="no scheme 'thorn'") as caught:
        api.plan(MODEL, tokens=16, scheme="thorn")  # type: ignore[call-overload]
    assert caught.value.hint == "did you mean thor? one of thor, leaf, arion, moai, bumblebee, auto"
    with pytest.raises(InputError, match="no scheme 'auto'"):
        scheme_of("auto")
    for name in ("speed", ""):
        with pytest.raises(InputError, match=f"no objective '{name}'"):
            api.plan(MODEL, tokens=16, objective=name)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"no objective '{name}'"):
            Option("thor", 2, plan).seconds(name)  # type: ignore[arg-type]
    option = Option("thor", 2, plan)
    assert option.seconds(objective_of("throughput")) == 2 * option.seconds(objective_of("latency"))
    assert option.seconds("throughput") == 2 * option.seconds("latency")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no preset 'n18'"):
        api.plan(MODEL, tokens=16, preset="n18")


def test_functions_and_phases() -> None:
    for variant in ("nexus", ""):
        with pytest.raises(InputError, match="no variant"):
            Functions.of(variant)
    for name in ("selu", "softplus", "activation", "fit"):
        with pytest.raises(PlanError, match=f"no approximation of '{name}' in variant tacita") as caught:
            Functions().fit(name, (-1.0, 1.0), 1e-3)
        assert (
            caught.value.hint
            == "there are tanh, silu, elu, gelu_tanh, relu, relu2, exp, inverse, rsqrt, gelu"
        )
    with pytest.raises(PlanError, match="no phase 'polish thor'"):
        phases_of(lambda _: None, ["thor"]).enter("polish", "thor")


def test_kinds_of_files_ciphertexts_and_events(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="kind 'answer'"):
        envelope._expected("answer", plan)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="split 'tiny'"):
        LinearPlan.from_diagonals({(0, 0, 1): np.ones(8)}, split="tiny")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["I32", "F8_E4M3", "BOOL", "f32"])
def test_types_of_stored_tensors(dtype: str, tmp_path: Path) -> None:
    folder = write_folder(MODEL, tmp_path)
    name, tensor = next(iter(load_file(folder / "model.safetensors").items()))
    raw = {name: {"dtype": dtype, "shape": list(tensor.shape), "data": tensor.tobytes()}}
    stored = SimpleNamespace(path=folder, names=raw, read=lambda names: raw)
    with pytest.raises(CheckpointError, match=f"has type {dtype}"):
        read_tensors(stored, Names(("bert.",)), {name: tensor.shape})


@pytest.mark.parametrize(
    "fields",
    [{"attention_variant": "bpmix"}, {"norm_variant": "group"}, {"norm_variant": ""}, {"hidden_act": "mish"}],
)
def test_names_in_a_models_configuration(fields: dict[str, str], tmp_path: Path) -> None:
    folder = write_folder(MODEL, tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(CheckpointError, match=repr(next(iter(fields.values())))):
        load(folder)
