"""Hostile plans as tables: what is changed in a real one, and what the refusal says.

`test_plan_check` runs them.
"""

from __future__ import annotations

from typing import Any

from plan_changes import Change, all_of, copied, drop, nested, put

CALIBRATION, SPECS = ("circuit", "calibration"), ("circuit", "specs")
ATTENTION, NORM = "layer0.attention", "layer0.norm1"
FITTED = (*SPECS, "nodes", ATTENTION)
FORWARD = "layer0.feed_forward"
CALIBRATED = (*CALIBRATION, "nodes")
TENSORS, ANSWER = ("layout", "request", "tensors"), ("layout", "response")
RUNS_IN, RUNS_OUT = "layout: runs of the request", "layout: runs of the response"


def in_rounds(room: float, **calibrated: int) -> Change:
    """Puts a round of softmax into the first attention, whose squares are stored over room^2. calibrated: the
    rounds of calibration, by attention."""

    def change(data: Any) -> None:
        fitted = data["circuit"]["specs"]["nodes"][ATTENTION]
        fitted["rounds"] = [{"inverse": fitted["inverse"], "room": room, "steepest": 9.0}]
        if calibrated:
            data["circuit"]["calibration"]["rounds"] = calibrated

    return change


NO_POOLER = drop(*CALIBRATED, "pooler.tanh"), drop(*SPECS, "nodes", "pooler.tanh")
ROWS = {
    "linear": [[0.0] * 8] * 2,
    "quadratic": [[1.0] * 8] * 2,
    "constant": [0.0, 0.0],
}  # 2 heads of 8 features
LINEAR_ROWS = {**ROWS, "quadratic": [[0.0] * len(v) for v in ROWS["quadratic"]]}
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


def _cap(data: Any, level: int) -> None:
    """Lowers every tensor to this level where it is higher."""
    tables = [stage[name] for stage in data["stages"] for name in ("levels", "out_levels")]
    for table in tables:
        table.update({tensor: min(at, level) for tensor, at in table.items()})
    for tensor in data["request"]:
        tensor["level"] = min(tensor["level"], level)


FILE_TABLE = [
    ("decimals 30", put("decimals", value=30), "decimals"),
    ("decimals 4", put("decimals", value=4), "decimals"),
    ("decimals -1", put("decimals", value=-1), "decimals"),
    ("decimals 10^30", put("decimals", value=10**30), "integer above 2"),
    ("gap of a model that chooses no word", put("gap", value=0.1), "gap of a choice"),
    ("gap of text", put("gap", value="wide"), "damaged plan"),
    ("noise as large as the step", put("noise", value=1e-3), "3 decimals at noise"),
    ("no noise", put("noise", value=0.0), "noise of 0"),
    ("noise below the last rescaling's", put("noise", value=1e-14), "at least"),
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
    ("version", put("version", value=99), "plan version 99, this program reads 7"),
    ("version that is an object", put("version", value={"a": 1}), "plan version"),
    ("slots", put("parameters", "slots", value=1 << 40), "parameters"),
    ("security", put("parameters", "security_bits", value=128), "parameters"),
    ("unknown preset", put("parameters", "preset", value="n99"), "parameters"),
    ("level of the request", put("request", 0, "level", value=-1), "level"),
    ("level above the top", put("request", 0, "level", value=17), "level"),
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
        "coefficient products in rows",
        lambda d: d["stages"][0]["counts"].update(coefficient_product=1),
        "coefficient products outside their packing",
    ),
    (
        "keys above all levels",
        lambda d: [s.update(bootstraps=[], kinds=[]) for s in d["stages"]],
        "rise without a bootstrap",
    ),
    ("a key above all levels", lambda d: _cap(d, 12), "levels of the rotations"),  # there are keys of 13
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
    (
        "a share of texts above 1",
        put("prediction", "error", "share", value=1.5),
        "prediction: share of texts",
    ),
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
    ("a layout of another packing", put("layout", "packing", value="columns"), "layout: packing"),
    ("another ring's request", put("layout", "request", "slots", value=1 << 40), "sizes of the request"),
    ("a request of other tokens", put("layout", "request", "tokens", value=16), "sizes of the request"),
    ("a request of more texts", put("layout", "request", "texts", value=1 << 40), "sizes of the request"),
    ("a request of other features", put("layout", "request", "size", value=8), "sizes of the request"),
    ("an answer of other size", put("layout", "response", "size", value=1), "layout: size of the answer"),
    ("another ring's answer", put("layout", "response", "slots", value=1024), "sizes of the response"),
    ("answers of more texts", put("layout", "response", "texts", value=2), "sizes of the response"),
    ("more ciphertexts of answers", put("layout", "response", "count", value=2), "layout: ciphertexts"),
    ("more ciphertexts of a mask", put(*TENSORS, "mask", "count", value=9), "layout: ciphertexts"),
    ("a tensor of no name", copied((*TENSORS, "mask"), (*TENSORS, "x")), "layout: ciphertexts"),
    ("a tensor of something else", put(*TENSORS, "mask", "source", value="key"), RUNS_IN),
    ("a tensor of no runs", put(*TENSORS, "mask", "runs", value=[]), RUNS_IN),
    ("half a run", put(*TENSORS, "mask", "runs", 0, value=[0, 0, 1]), RUNS_IN),
    ("a run of nothing", put(*TENSORS, "mask", "runs", 0, value=[0, 0, 0, 1, 1]), RUNS_IN),
    ("a run that stands still", put(*TENSORS, "mask", "runs", 0, value=[0, 0, 2, 0, 1]), RUNS_IN),
    ("a run before the first slot", put(*TENSORS, "mask", "runs", 0, value=[-1, 0]), RUNS_IN),
    ("a run that goes back", put(*TENSORS, "mask", "runs", 0, value=[8, 0, 2, -1, 1]), RUNS_IN),
    ("a run behind the last slot", put(*TENSORS, "mask", "runs", 0, value=[0, 0, 513, 1, 0]), RUNS_IN),
    ("a run of 2^150 slots", put(*TENSORS, "mask", "runs", 0, value=[0, 0, *[1 << 50, 1, 0] * 3]), RUNS_IN),
    ("a run of seven steps", put(*TENSORS, "mask", "runs", 0, value=[0, 0, *[1, 1, 1] * 7]), RUNS_IN),
    ("a run behind the last number", put(*TENSORS, "hidden", "runs", 0, value=[0, 128]), RUNS_IN),
    ("a mask that goes round and round", put(*TENSORS, "mask", "runs", 0, value=[0, 8 * 64 + 512]), RUNS_IN),
    (
        "slots filled a hundred times",
        lambda d: put(*TENSORS, "mask", "runs", value=[[0, 0, 512, 1, 0]] * 100)(d),
        RUNS_IN,
    ),
    ("9,000 runs", put(*TENSORS, "hidden", "runs", value=[[0, 0]] * 9000), RUNS_IN),
    ("a run that is a number", put(*TENSORS, "mask", "runs", 0, value=0), "damaged plan"),
    ("a run of fractions", put(*TENSORS, "mask", "runs", 0, value=[0.5, 0]), "damaged plan"),
    ("numbers that stand nowhere", put(*ANSWER, "numbers", value=[[0, 0]]), RUNS_OUT),
    ("copies that are the numbers", copied((*ANSWER, "numbers"), (*ANSWER, "copies")), RUNS_OUT),
    ("a check that is a number", put(*ANSWER, "norms", value=[[0, 0]]), RUNS_OUT),
    ("no check", put(*ANSWER, "norms", value=[]), RUNS_OUT),
    ("no zeros", put(*ANSWER, "zeros", value=[]), RUNS_OUT),
    ("zeros of another text", put(*ANSWER, "zeros", value=[[0, 1]]), RUNS_OUT),
    ("copies behind the last slot", put(*ANSWER, "copies", value=[[512, 0, 2, 1, 1]]), RUNS_OUT),
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
        "quadratic row estimates of one text",
        put(*CALIBRATION, "row_estimates", ATTENTION, value=ROWS),
        "estimates of this packing",
    ),
    (
        "linear row estimates that no attention has",
        put(*CALIBRATION, "row_estimates", ATTENTION, value=LINEAR_ROWS),
        "row estimates",
    ),
    ("linear row estimates of one side", put(*FITTED, "rows", value=LINEAR_ROWS), "row estimates"),
    ("row estimates of one side", put(*FITTED, "rows", value=ROWS), "row estimates"),
    ("row estimates of no head", put(*CALIBRATION, "row_estimates", ATTENTION, value=EMPTY), "row estimates"),
    ("row estimates that are a list", put(*FITTED, "rows", value=[]), "fields of the approximations"),
    (
        "row estimates with another field",
        put(*FITTED, "rows", value={**ROWS, "x": 1}),
        "fields of the approximations",
    ),
    (
        "rounds of softmax in rows alone",
        put(*CALIBRATION, "rounds", value={ATTENTION: 1}),
        "rounds of softmax",
    ),
    ("rounds that were not calibrated", in_rounds(1.5), "rounds of softmax"),
    ("a round that is stored over less", in_rounds(0.5, **{ATTENTION: 1}), "what a round is stored over"),
    ("a round of nothing", put(*FITTED, "rounds", value=[None]), "fields of the approximations"),
    ("rounds that are a number", put(*FITTED, "rounds", value=1.0), "fields of the approximations"),
    ("more rounds than there are", put(*CALIBRATION, "rounds", value={ATTENTION: 9}), "from 1 to 3"),
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
    ("token 0 in another place", put(*TENSORS, "hidden", "runs", 0, 1, value=1), "layout of the request"),
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
