"""The one-input scheme: blocks as stages. THOR's circuit (one input, all heads together, softmax by aSOR) on rows.

Live tensors between stages: x (hidden states / bound, with copies), f (its first token), s (scores), e (exponentials),
c and r (context and, where they need ciphertexts of their own, row sums), n (context / sums), a (centred sum before a
LayerNorm), v (its variance), y (after the first LayerNorm), h and g (before and after the activation), p and t (before
and after the pooler), check, answer. Masks of the request stay live as they came.
"""

from __future__ import annotations

from tacita.packings.rows.attention import Attention
from tacita.packings.rows.first_token import FirstTokenAttention, VectorForward, VectorNorm
from tacita.packings.rows.layout import FeatureLayout
from tacita.packings.rows.norm import Norm
from tacita.packings.rows.pooler import Pooler, mean
from tacita.packings.rows.response import Answering, norm_check
from tacita.slots.base import Backend
from tacita.slots.stage import Live, Stage, keeping

FIXED = frozenset({"mask", "mean"})  # request tensors that pass through every stage as they came


def attention_stages(attention: Attention) -> list[Stage]:
    """x -> a, every token."""

    def scores(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "s": attention.scores(be, live["x"])}

    def exponentials(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "e": attention.exponentials(be, live["s"])}

    def mix(be: Backend, live: Live) -> Live:
        context, sums = attention.mix(be, live["x"], live["e"], live["mask"])
        return {"x": live["x"], "c": context} | ({"r": sums} if sums else {})

    def project(be: Backend, live: Live) -> Live:
        return {"a": attention.project(be, live["x"], live["c"], live.get("r", ()))}

    runs = {"scores": scores, "exp": exponentials, "mix": mix, "project": project}
    return [Stage(name, run) for name, run in runs.items()]


def first_token_stages(attention: FirstTokenAttention) -> list[Stage]:
    """x -> a, the first token in vector packing. Takes the last mask ciphertext, which is the same in every copy."""

    def select(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "f": (attention.select(be, live["x"]),)}

    def scores(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "f": live["f"], "s": attention.scores(be, live["x"], live["f"][0])}

    def exponentials(be: Backend, live: Live) -> Live:
        return {"x": live["x"], "f": live["f"], "e": attention.exponentials(be, live["s"])}

    def mix(be: Backend, live: Live) -> Live:
        context, sums = attention.mix(be, live["x"], live["e"], live["mask"][-1])
        return {"f": live["f"], "c": context, "r": sums}

    def attend(be: Backend, live: Live) -> Live:
        return {"f": live["f"], "n": attention.attend(be, live["c"], live["r"])}

    def project(be: Backend, live: Live) -> Live:
        return {"a": (attention.project(be, live["f"][0], live["n"]),)}

    runs = {"select": select, "scores": scores, "exp": exponentials, "mix": mix, "attend": attend}
    return [Stage(name, run) for name, run in (runs | {"project": project}).items()]


def vector_forward_stages(forward: VectorForward) -> list[Stage]:
    """y -> a in vector packing."""

    def expand(be: Backend, live: Live) -> Live:
        return {"y": live["y"], "h": forward.expand(be, live["y"])}

    def activate(be: Backend, live: Live) -> Live:
        return {"y": live["y"], "g": forward.activate(be, live["h"])}

    def contract(be: Backend, live: Live) -> Live:
        return {"a": forward.contract(be, live["y"], live["g"])}

    return [Stage("expand", expand), Stage("activate", activate), Stage("contract", contract)]


def norm_stages(norm: Norm, out: str, number: int, *, check: bool = False) -> list[Stage]:
    """a -> out. check: also give the norm check of the response."""

    def variance(be: Backend, live: Live) -> Live:
        return {"a": live["a"], "v": (norm.variance(be, live["a"]),)}

    def normalise(be: Backend, live: Live) -> Live:
        root = norm.root(be, live["v"][0])
        result: Live = {out: norm.normalise(be, live["a"], root)}
        return result | ({"check": (norm_check(be, live["v"][0], root, norm.rsqrt),)} if check else {})

    return [Stage(f"variance{number}", variance), Stage(f"norm{number}", normalise)]


def vector_norm_stages(norm: VectorNorm, out: str, number: int, *, check: bool = False) -> list[Stage]:
    """As `norm_stages`, in vector packing."""

    def variance(be: Backend, live: Live) -> Live:
        return {"a": live["a"], "v": (norm.variance(be, live["a"]),)}

    def normalise(be: Backend, live: Live) -> Live:
        root = norm.root(be, live["v"][0])
        result: Live = {out: norm.normalise(be, live["a"], root)}
        return result | ({"check": (norm_check(be, live["v"][0], root, norm.rsqrt),)} if check else {})

    return [Stage(f"variance{number}", variance), Stage(f"norm{number}", normalise)]


def pooler_stages(pooler: Pooler) -> list[Stage]:
    """x -> t in vector packing."""

    def dense(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "p": (pooler.pre_activation(be, live["x"][0]),)}

    def tanh(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "t": (pooler.activate(be, live["p"][0]),)}

    return [Stage("pooler", dense), Stage("tanh", tanh)]


def mean_stage(layout: FeatureLayout) -> Stage:
    """x -> t, the mean over real tokens."""

    def run(be: Backend, live: Live) -> Live:
        return {"check": live["check"], "t": mean(be, live["x"], live["mean"][0], layout)}

    return Stage("mean", run)


def answer_stage(answering: Answering, pooled: str) -> Stage:
    """pooled (t, or x where the raw [CLS] vector is the pooled one), check -> answer: the only tensor left."""

    def run(be: Backend, live: Live) -> Live:
        return {"answer": answering.apply(be, live[pooled], live["check"][0])}

    return Stage("answer", run)


def keeping_masks(stages: list[Stage], prefix: str = "") -> list[Stage]:
    """The stages, renamed, with the request's masks handed on."""
    return keeping(FIXED, stages, prefix)
