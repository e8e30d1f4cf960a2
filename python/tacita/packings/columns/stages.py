"""Stages of the batch schemes, on interleaved columns and, once only the first token matters, on cells.

Live tensors between stages: x (hidden states), c and r (unnormalised context and row means), a (centred sum before a
LayerNorm), v (its variance), y (after the first LayerNorm); in the last layer f (first token in every token), s, e, w, k
(scores, exponentials, masked exponentials, attention weights), h and g (around the activation), p and t (around tanh,
or the mean answers); check and answer. The request's mask stays live as it came.
"""

from __future__ import annotations

from tacita.packings.columns.attention import BatchAttention
from tacita.packings.columns.feed_forward import BatchForward
from tacita.packings.columns.first_token import BatchFirstToken, CellNorm
from tacita.packings.columns.layout import Array
from tacita.packings.columns.norm import BatchNorm
from tacita.packings.columns.pooler import CellPooler
from tacita.packings.columns.response import CellAnswering, MeanAnswering, norm_check
from tacita.slots.base import Backend
from tacita.slots.stage import Live, Stage


def attention_stages(attention: BatchAttention) -> list[Stage]:
    """x -> a."""

    def attend(be: Backend, live: Live) -> Live:
        context, means = attention.attend(be, live["x"], live["mask"][0])
        return {"x": live["x"], "c": context, "r": means}

    def project(be: Backend, live: Live) -> Live:
        return {"a": attention.project(be, live["x"], live["c"], live["r"])}

    return [Stage("attend", attend), Stage("project", project)]


def norm_stages(norm: BatchNorm, out: str, number: int, check: Array | None = None) -> list[Stage]:
    """a -> out. check: the cell (see `BatchResponse.check_cell`) of the response's norm check, if that is made here: in the
    last layer of a model that averages over tokens. There the mask multiplies 1/sqrt, one ciphertext, and not the answers,
    which would take a level more: out is what is left to add up over tokens.
    """

    def variance(be: Backend, live: Live) -> Live:
        return {"a": live["a"], "v": (norm.variance(be, live["a"]),)}

    def normalise(be: Backend, live: Live) -> Live:
        root = norm.root(be, live["v"][0])
        factor = root if check is None else be.mul(root, live["mask"][0])
        return {out: norm.normalise(be, live["a"], factor)} | _check(be, norm, live, root, check)

    return [Stage(f"variance{number}", variance), Stage(f"norm{number}", normalise)]


def forward_stage(forward: BatchForward) -> Stage:
    """y -> a."""

    def run(be: Backend, live: Live) -> Live:
        return {"a": forward.apply(be, live["y"])}

    return Stage("forward", run)


def first_token_stages(attention: BatchFirstToken) -> list[Stage]:
    """x -> a in cells."""

    def select(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "f": attention.select(be, live["x"])}

    def scores(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "f": live["f"], "s": attention.scores(be, live["x"], live["f"])}

    def exponentials(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "f": live["f"], "e": attention.exponentials(be, live["s"])}

    def weigh(be: Backend, live: Live) -> Live:
        weighed, sums = attention.weigh(be, live["e"], live["mask"][0])
        return {"x": live["x"], "f": live["f"], "w": weighed, "r": sums}

    def attend(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "f": live["f"], "k": attention.attend(be, live["w"], live["r"])}

    def project(be: Backend, live: Live) -> Live:
        return {"a": attention.project(be, live["x"], live["f"], live["k"])}

    runs = {"select": select, "scores": scores, "exp": exponentials, "weigh": weigh, "attend": attend}
    return [Stage(name, run) for name, run in (runs | {"project": project}).items()]


def cell_norm_stages(norm: CellNorm, out: str, number: int, check: Array | None = None) -> list[Stage]:
    """As `norm_stages`, in cells."""

    def variance(be: Backend, live: Live) -> Live:
        return {"a": live["a"], "v": (norm.variance(be, live["a"]),)}

    def normalise(be: Backend, live: Live) -> Live:
        root = norm.norm.root(be, live["v"][0])
        return {out: norm.norm.normalise(be, live["a"], root)} | _check(be, norm.norm, live, root, check)

    return [Stage(f"variance{number}", variance), Stage(f"norm{number}", normalise)]


def pooler_stages(pooler: CellPooler) -> list[Stage]:
    """x -> t in cells."""

    def dense(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "p": pooler.dense.apply(be, live["x"])}

    def tanh(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "t": pooler.activate(be, live["p"])}

    return [Stage("pooler", dense), Stage("tanh", tanh)]


def mean_stage(answering: MeanAnswering) -> Stage:
    """x -> t, the answer columns of every sequence."""

    def run(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "t": answering.mean(be, live["x"])}

    return Stage("mean", run)


def answer_stage(answering: CellAnswering | MeanAnswering, pooled: str) -> Stage:
    """pooled (t, or x where the raw [CLS] vector is the pooled one), check -> answer: the only tensor left."""

    def run(be: Backend, live: Live) -> Live:
        return {"answer": answering.apply(be, live[pooled], live["check"][0])}

    return Stage("answer", run)


def _check(be: Backend, norm: BatchNorm, live: Live, root: object, cell: Array | None) -> Live:
    if cell is None:
        return {}
    top = norm.entry / norm.size**0.5
    return {"check": (norm_check(be, live["v"][0], root, norm.rsqrt, top, cell),)}
