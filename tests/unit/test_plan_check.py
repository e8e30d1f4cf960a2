"""Hostile plans: every altered field, with the hash made right again, is refused by name, and never by
another exception."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_changes import Change, all_of, copied, drop, nested, put
from plans import altered, model, real_plan, rehashed

from tacita.client.session import Client
from tacita.errors import FileError, PlanError, ResourceError
from tacita.placement.predict import file_bytes
from tacita.planning.check_circuit import require_circuit
from tacita.planning.circuit import circuit_of, require_model
from tacita.plans.plan import Plan, parse
from tacita.protocol.public_folder import public_of
from tacita.run import resources

SCHEMES = ("thor", "arion")
MUTATIONS = {"thor": 3000, "arion": 300}  # one text is quicker
CALIBRATION, SPECS = ("circuit", "calibration"), ("circuit", "specs")
ATTENTION, NORM = "layer0.attention", "layer0.norm1"
FITTED = (*SPECS, "nodes", ATTENTION)
FORWARD = "layer0.feed_forward"
CALIBRATED = (*CALIBRATION, "nodes")
NO_POOLER = drop(*CALIBRATED, "pooler.tanh"), drop(*SPECS, "nodes", "pooler.tanh")
ROWS = {
    "linear": [[0.0] * 8] * 2,
    "quadratic": [[0.0] * 8] * 2,
    "constant": [0.0, 0.0],
}  # 2 heads of 8 features
EMPTY = {"linear": [], "quadratic": [], "constant": []}
SERIES = {
    "kind": "chebyshev",
    "function": "tanh",
    "interval": [-1.0, 1.0],
    "domain": [-1.1, 1.1],
    "error": 0.1,
}
TANH = {"kind": "function", "function": {**SERIES, "relative": False, "coefficients": [0.0, 1.0]}}

FRONT = {
    "vocab": 8,
    "positions": 512,
    "types": 2,
    "norm_eps": 0.0,
    "embedding_norm": True,
    "first_token": True,
}

FILE_TABLE = [
    ("decimals 30", put("decimals", value=30), "decimals"),
    ("decimals 4", put("decimals", value=4), "decimals"),
    ("decimals -1", put("decimals", value=-1), "decimals"),
    ("decimals 10^30", put("decimals", value=10**30), "integer above 2"),
    ("noise as large as the step", put("noise", value=1e-3), "3 decimals at noise"),
    ("no noise", put("noise", value=0.0), "noise of 0"),
    ("noise below the last rescaling's", put("noise", value=1e-12), "at least"),
    ("NaN", put("noise", value=float("nan")), "NaN is no finite number"),
    ("NaN in the circuit", put(*CALIBRATION, "answer", value=float("nan")), "NaN is no finite number"),
    ("infinite bound", put(*CALIBRATION, "answer", value=float("inf")), "Infinity is no finite number"),
    ("nesting of 900", put("circuit", "calibration", value=nested(900)), "nested"),
    ("nesting of 20", put("circuit", "calibration", value=nested(20)), "nested"),
    ("name of a node", put(*CALIBRATED, "\x1b[2J", value={}), "not printable"),
    ("tokens", put("tokens", value=1 << 20), "tokens"),
    ("tokens not a power of two", put("tokens", value=7), "texts of a request"),
    ("batch", put("batch", value=1 << 30), "texts of a request"),
    ("lanes", put("lanes", value=3), "lanes"),
    ("scheme", put("scheme", value="bumblebee"), "scheme"),
    ("layers", put("model", "layers", value=10**6), "layers"),
    ("hidden size", put("model", "hidden", value=0), "hidden size"),
    ("heads", put("model", "heads", value=3), "heads"),
    ("commitment", put("model", "commitment", value="zz" * 32), "commitment"),
    ("label that clears the screen", put("model", "labels", value=["\x1b[2J", "positive"]), "not printable"),
    ("label that turns the line", put("model", "labels", value=["a\u202eb", "positive"]), "not printable"),
    (
        "label of a megabyte",
        put("model", "labels", value=["x" * (1 << 20), "positive"]),
        "1048576 characters",
    ),
    ("name of a field", put("model", "\x1b[2J", value=0), "not printable"),
    ("name of a stage", put("stages", 0, "name", value="\x07"), "not printable"),
    ("machine", put("prediction", "machine", value="\x1b]0;owned\x07"), "not printable"),
    ("version", put("version", value=99), "plan version 99, this program reads 4"),
    ("version that is an object", put("version", value={"a": 1}), "plan version"),
    ("slots", put("parameters", "slots", value=1 << 40), "parameters"),
    ("security", put("parameters", "security_bits", value=128), "parameters"),
    ("unknown preset", put("parameters", "preset", value="n99"), "parameters"),
    ("level of the request", put("request", 0, "level", value=-1), "level"),
    ("level above the top", put("request", 0, "level", value=14), "level"),
    ("ciphertexts", put("request", 0, "count", value=10**9), "ciphertexts"),
    ("kind of a tensor", put("request", 0, "kind", value="quaternion"), "kind"),
    ("two tensors of one name", lambda d: d["request"].append(d["request"][0]), "names of the request"),
    ("no response", put("response", value=[]), "names of the response"),
    ("response of another name", put("response", 0, "name", value="x"), "names of the response"),
    ("rotation by 0", put("rotations", value=[[0, 1]]), "rotations"),
    ("rotation by all slots", put("rotations", value=[[512, 1]]), "rotations"),
    ("rotation at a negative level", put("rotations", value=[[1, -1]]), "rotations"),
    ("rotation twice", put("rotations", value=[[1, 1], [1, 2]]), "rotations"),
    ("every rotation", put("rotations", value=[[k, 13] for k in range(1, 513)]), "rotations"),
    (
        "500 rotations",
        put("rotations", value=[[k, 0] for k in range(1, 501)]),
        "beyond those that the stages count",
    ),
    (
        "keys above all levels",
        lambda d: [s.update(bootstraps=[], kinds=[]) for s in d["stages"]],
        "rise without a bootstrap",
    ),
    ("a key above all levels", put("rotations", 0, 1, value=13), "levels of the rotations"),
    ("a tensor that is not there", put("stages", 0, "levels", value={"q": 1}), "levels that rise"),
    ("answer above its level", put("response", 0, "level", value=13), "level of the response"),
    ("no stage", put("stages", value=[]), "number of stages"),
    ("1,000 stages", lambda d: put("stages", value=[d["stages"][0]] * 1000)(d), "number of stages"),
    ("level of a stage", put("stages", 0, "levels", value={"x": -3}), "levels"),
    ("bootstrap of nothing", put("stages", 0, "kinds", value=["real"]), "kinds of bootstraps"),
    ("kind of a bootstrap", put("stages", 0, "kinds", value=["imaginary"]), "kinds of bootstraps"),
    ("bootstrap of an unknown tensor", put("stages", 0, "bootstraps", value=["q"]), "bootstraps"),
    ("a prediction without its fields", put("prediction", "bytes", value={}), "prediction: fields"),
    ("negative bytes", put("prediction", "bytes", "request", value=-1), "prediction: bytes"),
    ("infinite seconds", put("prediction", "seconds", "keygen", value=1e30), "prediction: seconds"),
    ("no seconds of stages", put("prediction", "stage_seconds", value=[]), "prediction: stages"),
    ("a vocabulary of a billion", put("model", "embeddings", value={**FRONT, "vocab": 10**9}), "vocabulary"),
    ("positions", put("model", "embeddings", value={**FRONT, "positions": 0}), "positions"),
    ("token types", put("model", "embeddings", value={**FRONT, "types": -1}), "token types"),
    ("epsilon", put("model", "embeddings", value={**FRONT, "norm_eps": -1.0}), "epsilon"),
    ("an embedding of nothing", put("model", "embeddings", value={}), "damaged plan"),
    ("a field missing", drop("decimals"), "damaged plan"),
    ("a field too many", put("evil", value=1), "unknown field"),
    ("number for a list", put("stages", value=7), "expected list"),
    ("bound of the answer", put("answer", value=-1.0), "layout: bounds"),
    ("bound of the request", put("layout", "request", "bound", value=0.0), "layout: bounds"),
    ("bound of the response", put("layout", "response", "bound", value=1e30), "layout: bounds"),
    ("a layout of another packing", put("layout", "request", "kind", value="columns"), "damaged plan"),
    (
        "a layout of no packing",
        put("layout", "response", "kind", value="x"),
        "kind 'x', expected one of rows, columns",
    ),
    (
        "a layout of another ring",
        put("layout", "request", "slots", value=1 << 40),
        "layout: sizes of the request",
    ),
    (
        "a layout of other tokens",
        put("layout", "request", "tokens", value=16),
        "layout: sizes of the request",
    ),
    ("a layout of other heads", put("layout", "request", "heads", value=1), "layout: heads"),
    ("a layout of wider heads", put("layout", "request", "head_size", value=1 << 40), "layout: heads"),
    ("a layout of other features", put("layout", "request", "size", value=8), "layout: hidden size"),
    ("an answer of other size", put("layout", "response", "size", value=1), "layout: size of the answer"),
    (
        "an answer in other blocks",
        put("layout", "response", "width", value=1),
        "layout: blocks of the response",
    ),
    (
        "logits side by side",
        put("layout", "response", "apart", value=False),
        "layout: blocks of the response",
    ),
    (
        "another ring's answer",
        put("layout", "response", "slots", value=1024),
        "layout: blocks of the response",
    ),
    ("a mask more", put("layout", "request", "all_tokens", value=True), "layout: ciphertexts"),
    ("a mean more", put("layout", "request", "mean", value=True), "layout: ciphertexts"),
    ("more ciphertexts", put("request", 0, "count", value=9), "layout: ciphertexts"),
]

CIRCUIT_TABLE = [
    ("empty calibration", put(*CALIBRATION, value={}), "fields of the calibration"),
    ("no circuit", put("circuit", value={}), "fields of the circuit"),
    ("empty approximations", put(*SPECS, value={}), "fields of the approximations"),
    (
        "bound of the answer that is a list",
        put(*CALIBRATION, "answer", value=[1.0]),
        "fields of the calibration",
    ),
    ("negative bound of the answer", put(*CALIBRATION, "answer", value=-1.0), "bound of the answer"),
    ("other bounds of the answer", put(*SPECS, "answer", value=1e-9), "bound of the answer"),
    ("other model calibrated", put(*CALIBRATION, "sha256", value="00" * 32), "calibrated model"),
    ("interval the wrong way", put(*CALIBRATED, ATTENTION, "scores", value=[1.0, -1.0]), "scores"),
    (
        "variance below zero",
        put(*CALIBRATED, NORM, "variance", value=[-1.0, 1.0]),
        "norm1: interval of variance",
    ),
    ("no calibrated nodes", put(*CALIBRATED, value={}), "calibrated nodes"),
    ("temperatures of no head", put(*CALIBRATION, "temperatures", value={ATTENTION: []}), "temperatures"),
    ("pooling of other nodes", put("model", "pooling", value="mean"), "calibrated nodes"),
    ("layers of other nodes", put("model", "layers", value=2), "calibrated nodes"),
    ("a node missing", drop(*CALIBRATED, NORM), "calibrated nodes"),
    (
        "a node of another model",
        copied((*CALIBRATED, NORM), (*CALIBRATED, "layer1.norm1")),
        "calibrated nodes",
    ),
    ("a node of another kind", copied((*CALIBRATED, NORM), (*CALIBRATED, ATTENTION)), "calibrated nodes"),
    ("a node of no kind", put(*CALIBRATED, NORM, "kind", value="layer"), "fields of the calibration"),
    ("a kind that is a list", put(*CALIBRATED, NORM, "kind", value=[]), "fields of the calibration"),
    ("shift out of range", put(*CALIBRATED, ATTENTION, "shift", value=1e30), "shift of the scores"),
    ("no means", put(*CALIBRATED, ATTENTION, "means", value=[]), "intervals of means"),
    (
        "a mean below zero",
        put(*CALIBRATED, ATTENTION, "means", value=[[-1.0, 1.0]] * 4),
        "intervals of means",
    ),
    (
        "argument the wrong way",
        put(*CALIBRATED, "pooler.tanh", "argument", value=[1.0, 1.0]),
        "interval of argument",
    ),
    ("density of a thousand", put(*CALIBRATED, FORWARD, "density", value=[0.0] * 1000), "density"),
    ("bound of a norm", put(*CALIBRATED, NORM, "result", value=0.0), "norm1: a bound"),
    ("bound of a request", put(*CALIBRATION, "entry", value=-1.0), "bound of the request"),
    ("other bounds of the request", put(*SPECS, "entry", value=1.0), "bound of the request"),
    ("other bounds of an input", put(*SPECS, "inputs", NORM, value=1e-9), "bounds of the inputs"),
    ("a bound of the input of no node", put(*SPECS, "inputs", "x", value=1.0), "bounds of the inputs"),
    (
        "a bound of an input that is text",
        put(*SPECS, "inputs", NORM, value="1"),
        "fields of the approximations",
    ),
    (
        "temperatures of no attention",
        put(*CALIBRATION, "temperatures", NORM, value=[1.0, 1.0]),
        "temperatures",
    ),
    (
        "a temperature above one",
        put(*CALIBRATION, "temperatures", ATTENTION, value=[1.0, 2.0]),
        "temperatures",
    ),
    ("row estimates of no attention", put(*CALIBRATION, "row_estimates", NORM, value=ROWS), "row estimates"),
    (
        "row estimates of one text",
        put(*CALIBRATION, "row_estimates", ATTENTION, value=ROWS),
        "estimates of one text",
    ),
    ("row estimates of one side", put(*FITTED, "rows", value=ROWS), "row estimates"),
    ("row estimates of no head", put(*CALIBRATION, "row_estimates", ATTENTION, value=EMPTY), "row estimates"),
    ("row estimates that are a list", put(*FITTED, "rows", value=[]), "fields of the approximations"),
    (
        "row estimates with another field",
        put(*FITTED, "rows", value={**ROWS, "x": 1}),
        "fields of the approximations",
    ),
    ("an approximated node missing", drop(*SPECS, "nodes", "pooler.tanh"), "approximated nodes"),
    ("an approximated node of another model", put(*SPECS, "nodes", "x", value=TANH), "approximated nodes"),
    (
        "a node approximated by nothing",
        put(*SPECS, "nodes", FORWARD, value=None),
        "fields of the approximations",
    ),
    ("nodes that are a list", put(*SPECS, "nodes", value=[]), "fields of the approximations"),
    (
        "a bound that is true",
        put(*SPECS, "nodes", NORM, "centred", value=True),
        "fields of the approximations",
    ),
    ("a field of a node missing", drop(*SPECS, "nodes", NORM, "centred"), "fields of the approximations"),
    (
        "a field of a node too many",
        put(*SPECS, "nodes", NORM, "extra", value=1.0),
        "fields of the approximations",
    ),
    (
        "root of zero",
        put(*SPECS, "nodes", NORM, "rsqrt", "domain", value=[0.0, 1.0]),
        "approximation of rsqrt",
    ),
    ("unknown approximation", put(*FITTED, "exp", "kind", value="oracle"), "approximations"),
    ("no coefficients", put(*FITTED, "exp", "coefficients", value=[]), "approximation of exp"),
    (
        "100,000 coefficients",
        put(*FITTED, "exp", "coefficients", value=[0.5] * 100_000),
        "approximation of exp",
    ),
    ("a coefficient that is text", put(*FITTED, "exp", "coefficients", value=["1"]), "approximation of exp"),
    ("empty domain", put(*FITTED, "exp", "domain", value=[1.0, 1.0]), "approximation of exp"),
    ("inverse of zero", put(*FITTED, "inverse", "domain", value=[0.0, 1.0]), "approximation of inverse"),
    (
        "deeper than the chain",
        put(*FITTED, "inverse", "relaxation", value=[1.5] * 60),
        "approximation of inverse",
    ),
    ("bound of zero", put(*FITTED, "context", value=0.0), "bound of context"),
    ("bound that is an approximation", put(*FITTED, "context", value={"kind": "x"}), "approximations"),
    ("architecture", put("model", "architecture", value="gpt"), "architecture"),
    ("activation", put("model", "activation", value="swish"), "activation"),
]

HIGHER = put("response", 0, "level", value=1)
MODEL_TABLE = [
    ("labels swapped", lambda d: d["model"]["labels"].reverse(), "labels of the model"),
    ("a label renamed", put("model", "labels", 0, value="other"), "labels of the model"),
    ("pooling", all_of(put("model", "pooling", value="mean"), *NO_POOLER), "pooling of the model"),
    ("another intermediate size", put("model", "intermediate", value=64), "intermediate of the model"),
    ("a rotation more", lambda d: d["rotations"].append([17, 0]), "rotation keys"),
    ("a rotation less", lambda d: d["rotations"].pop(), "rotation keys"),
    ("a rotation at another level", lambda d: d["rotations"][0].__setitem__(1, 0), "rotation keys"),
    (
        "token 0 in place of the copies",
        put("layout", "request", "carried", value=False),
        "layout of the request",
    ),
    ("a request of other bounds", put("layout", "request", "bound", value=1.0), "layout of the request"),
    ("a response of other bounds", put("layout", "response", "bound", value=1.0), "layout of the response"),
    ("other stages", put("stages", 0, "name", value="layer0.other"), "other stages"),
    ("a level that is not reached", put("request", 1, "level", value=0), "cannot run|rotation keys"),
    (
        "a bound whose inverse overflows",
        put(*SPECS, "nodes", NORM, "centred", value=1e-300),
        "cannot be built",
    ),
    ("steps of zero", put(*FITTED, "inverse", "relaxation", value=[0.0] * 5), "cannot be built"),
    (
        "a response above its level",
        all_of(put("stages", -1, "out_levels", value={"answer": 1}), HIGHER),
        "above the lev",
    ),
]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_real_plan_is_accepted(scheme: str) -> None:
    plan = real_plan(scheme)
    assert parse(plan.to_text(), "here") == plan
    assert circuit_of(plan, model()) is circuit_of(plan, model())


@pytest.mark.parametrize(
    ("change", "message"), [row[1:] for row in FILE_TABLE], ids=[row[0] for row in FILE_TABLE]
)
def test_what_no_plan_can_say_is_refused_when_it_is_read(change: Change, message: str) -> None:
    with pytest.raises(FileError, match=message):
        parse(altered(real_plan(), change), "here")


@pytest.mark.parametrize(
    ("change", "message"), [row[1:] for row in CIRCUIT_TABLE], ids=[row[0] for row in CIRCUIT_TABLE]
)
def test_what_no_circuit_is_built_from_is_refused_by_the_server(change: Change, message: str) -> None:
    """A client reads none of it: it would take the approximations and the models' names."""
    with pytest.raises(FileError, match=message):
        require_circuit(parse(altered(real_plan(), change), "here"))


def test_the_server_checks_the_circuit_before_it_builds_it() -> None:
    change = put(*CALIBRATED, NORM, "variance", value=[-1.0, 1.0])
    with pytest.raises(FileError, match="interval of variance"):
        circuit_of(parse(altered(real_plan(), change), "here", real_plan().salt), model())


@pytest.mark.parametrize(
    ("change", "message"), [row[1:] for row in MODEL_TABLE], ids=[row[0] for row in MODEL_TABLE]
)
def test_what_the_model_contradicts_is_refused_by_the_server(change: Change, message: str) -> None:
    """A client, who has no weights, cannot see it: docs/threat-model.md says what such a plan makes it do."""
    plan = parse(altered(real_plan(), change), "here", real_plan().salt)
    with pytest.raises(PlanError, match=message):
        circuit_of(plan, model())


def test_the_name_of_the_models_folder_may_differ() -> None:
    require_model(real_plan(), dataclasses.replace(model(), name="another-folder"))


def test_a_name_or_label_that_a_terminal_would_obey_does_not_get_into_a_plan() -> None:
    from tacita.planning.circuit import model_info

    assert (
        model_info(dataclasses.replace(model(), name="\x1b[2Jx" + "y" * 300), "").name == "?[2Jx" + "y" * 195
    )


@pytest.mark.parametrize(("step", "what"), [("keygen", "evaluation_keys"), ("encrypt", "request")])
def test_disks_are_checked_with_the_clients_own_figures(
    step: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prediction says one byte, and the hash does not cover it."""
    text = altered(real_plan(), put("prediction", "bytes", what, value=1))
    client = Client(public_of(parse(text, "here"), model()), tmp_path, allow_insecure=True)
    need = file_bytes(real_plan())[what]
    assert need > 100_000
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda _: type("Usage", (), {"free": need - 1}))
    with pytest.raises(ResourceError, match="needs"):
        client.keygen() if step == "keygen" else client.encrypt(hidden_states=[[0.0] * 16] * 8)


def test_own_figures_are_the_predictions_of_an_honest_plan() -> None:
    for scheme in SCHEMES:
        plan = real_plan(scheme)
        assert file_bytes(plan).items() <= plan.prediction.bytes.items()


def test_a_number_too_large_for_a_float_and_a_key_that_comes_twice_are_refused() -> None:
    text = real_plan().to_text()
    for old, new in (
        ('"decimals": 3', '"decimals": 1e999'),
        ('"decimals": 3', '"decimals": 3, "decimals": 3'),
    ):
        with pytest.raises(FileError, match=r"not finite|twice"):
            parse(text.replace(old, new), "here")
    with pytest.raises(FileError, match="not a complete plan"):
        parse(text.replace('"decimals": 3', '"decimals": ' + "9" * 5000), "here")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_random_edits_end_in_a_valid_plan_or_in_our_errors(scheme: str) -> None:
    """Whatever is edited: what is read also builds its circuit, or is refused with a PlanError that says
    why."""
    rng, plan = random.Random(9), real_plan(scheme)
    data = json.loads(plan.to_text())
    refused = accepted = 0
    for _ in range(MUTATIONS[scheme]):
        edited = copy.deepcopy(data)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            edit(edited, rng)
        try:
            found = parse(rehashed(edited), "here")
            accepted += 1
            if accepted % 8 == 0:
                circuit_of(replace(found, salt=plan.salt), model())
        except (FileError, PlanError):
            refused += 1
    assert refused > MUTATIONS[scheme] // 2
    assert accepted > MUTATIONS[scheme] // 50  # predictions, slightly other numbers


def edit(data: Any, rng: random.Random) -> None:
    """One random place of the data gets another value, loses one or gains one."""
    at = rng.choice([container for container in containers(data) if container])
    key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
    action = rng.random()
    if action < 0.1:
        del at[key]
    elif action < 0.2 and isinstance(at, list):
        at.insert(key, copy.deepcopy(at[key]))
    elif action < 0.6 and type(at[key]) in (int, float):
        at[key] = type(at[key])(at[key] * rng.choice((-1, 0, 0.5, 1.001, 2, 1000)))
    else:
        at[key] = copy.deepcopy(rng.choice(VALUES))


VALUES = (
    None, True, False, 0, 1, -1, 13, 14, 1 << 31, 1 << 53, 10**40, 0.0, -0.5, 1e-300, 1e300,
    float("nan"), float("inf"), "", "x", "real", "complex", "\x1b[2J", "y" * 300,
    [], {}, [0], [[]], [1.0, 2.0], {"x": 1}, {"kind": "chebyshev"},
    nested(100),
)  # fmt: skip


def containers(data: Any) -> Iterator[Any]:
    """All objects and lists."""
    todo = [data]
    while todo:
        at = todo.pop()
        if isinstance(at, dict | list):
            yield at
            todo += at.values() if isinstance(at, dict) else at


def test_loading_goes_through_the_same_check(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(altered(real_plan(), put("decimals", value=30)))
    with pytest.raises(FileError, match=r"plan\.json: decimals"):
        Plan.load(path)
