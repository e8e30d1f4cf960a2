"""What a server accepts of a two-party plan that it did not make. What its client accepts of the program is
in `program.program` and `program.sizes`."""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tacita.blocks.base import Attention, FeedForward, Norm, Powers
from tacita.blocks.shapes import Function, Mean, Node, function_of
from tacita.errors import CheckpointError, FileError, PlanError
from tacita.limits import Rules, limits_of, require, try_make
from tacita.models.registry import FAMILIES, Config, nodes, shapes, unknown_option
from tacita.models.registry import check as check_config
from tacita.plans.json_fields import from_json
from tacita.texts.embedding import MAX_CLASSES, MAX_DOCUMENTS, MAX_HIDDEN, MAX_LAYERS, MAX_VOCAB
from tacita.texts.task import NEXT, SEARCH
from tacita.two_party.arithmetic.base import KINDS as FUNCTIONS
from tacita.two_party.arithmetic.base import (
    MEAN_RING,
    MEAN_VALUE,
    MEAN_WEIGHT,
    MOST,
    TURN,
    WHOLE,
    AttentionBounds,
    Formats,
    Interval,
    NormBounds,
    range_bits,
)
from tacita.two_party.arithmetic.functions import norm_layout
from tacita.two_party.plan.plan import FORMAT, REMAKE, VERSION, TwoPartyPlan
from tacita.two_party.program.cost import FEW, MOST_FAILURE, failure_log2
from tacita.two_party.program.program import header_rules

MOST_TABLE_RING = 32
MOST_BASE = 1e9  # of rotary positions; below 1 angles would grow
MOST_MEAN = 2.0 ** (MEAN_RING - 2 - MEAN_WEIGHT - MEAN_VALUE)
LEAST_TURNED = 12  # bits for queries and keys in the ring in which they are turned
LEAST_MIXED = 8  # fewest fraction bits of mixed values before they are normalised


def parse_plan(data: bytes) -> TwoPartyPlan:
    """Parses and checks the peer's bytes. Raises FileError."""
    try:
        fields: Any = json.loads(data)
        header = isinstance(fields, dict) and (fields.pop("format", None), fields.pop("version", None))
        if header != (FORMAT, VERSION):
            raise FileError(f"two-party plan: found {header}, expected {(FORMAT, VERSION)}", hint=REMAKE)
        plan = typing.cast(TwoPartyPlan, from_json(TwoPartyPlan, fields))
        if plan.family not in FAMILIES:
            raise FileError(
                f"two-party plan: family {plan.family!r:.40}", hint=f"known: {', '.join(FAMILIES)}"
            )
        plan = replace(plan, config=from_json(FAMILIES[plan.family].config, plan.config))
        spelled = plan.to_bytes()
    except (ValueError, KeyError, TypeError, PlanError, RecursionError) as error:
        raise FileError(f"two-party plan: damaged ({error})", hint=REMAKE) from None
    if spelled != data:
        raise FileError("two-party plan: not in its one spelling", hint=REMAKE)
    check(plan)
    return plan


def check(plan: TwoPartyPlan) -> None:
    """Raises FileError naming the first field outside the limits of a client that trusts no server."""
    require(_rules(plan), "two-party plan", hint=REMAKE, broken="is out of range")


def _rules(plan: TwoPartyPlan) -> Rules:
    config, formats = plan.config, plan.formats
    yield from limits_of(plan)
    yield from header_rules(plan, config)  # before the family is asked for its nodes
    yield "layers", 1 <= config.layers <= MAX_LAYERS
    yield (
        "hidden size",
        1 <= config.hidden <= MAX_HIDDEN
        and config.heads >= 1
        and (0 < getattr(config, "head_size", 0) <= MAX_HIDDEN or config.hidden % config.heads == 0),
    )
    yield "intermediate size", 1 <= config.intermediate <= 4 * MAX_HIDDEN
    yield "activation", plan.family in FAMILIES and unknown_option(plan.family, config) is None
    yield "options", _options_known(config) and not lacking(config)
    most = {NEXT: MAX_VOCAB}.get(config.task, MAX_DOCUMENTS if config.problem == SEARCH else MAX_CLASSES)
    yield "numbers of an answer", 1 <= config.outputs <= most
    yield "nearest", not plan.nearest or (config.problem == SEARCH and plan.nearest < config.outputs)
    yield "embeddings", config.embeddings
    yield "embedding", (plan.embedding is not None) == (plan.embeddings == "hidden")
    yield "beginning", config.last_token or not plan.begin
    if plan.embedding is not None:
        # padded on its left, a text begins where its client alone knows
        yield "hidden positions", not (config.last_token and config.position_table)
        yield "embedding's entries", formats.table_ring(plan.embedding) <= MOST_TABLE_RING
    yield from _format_rules(formats)
    yield from _node_rules(plan)
    yield from _sum_rules(plan)
    answered = plan.program.answered
    held = 2.0 ** (answered.ring - 1 - answered.fraction)  # a token's logits are opened by nobody
    yield f"answer up to {plan.answer:.3g}", plan.task == NEXT or plan.answer < held
    failure = failure_log2(plan.program.cost().responses)
    yield f"chance of a wrong answer 2^{failure:.1f}", failure <= MOST_FAILURE


def _options_known(config: Config) -> bool:
    """Whether the family takes the options, so that its nodes can be listed."""
    try:
        check_config(config)
    except CheckpointError:
        return False
    return True


def lacking(config: Config) -> str:
    """Returns the first option of its nodes that has no protocol; empty where all have one."""
    for name, node in nodes(config).items():
        if isinstance(getattr(node, "weights", None), Powers) or getattr(node, "deviation", None) is not None:
            return "a retrained model (bpmax or batch normalisation)"
        if (kind := function_of(node)) is not None and kind not in FUNCTIONS:
            return f"{name} has the function {kind!r:.40}"
    return ""


def has_gate(node: Node) -> bool:
    """Whether its function's result is multiplied by another tensor."""
    return isinstance(node, FeedForward) and node.gate is not None


def _node_rules(plan: TwoPartyPlan) -> Rules:
    """Requires that every node of the model has its bounds, and nothing else has."""
    expected = shapes(plan.config, plan.tokens, hidden_embedding=plan.embedding is not None).nodes
    bounds, formats = plan.bounds, plan.formats
    yield "bounds of attention", set(bounds.attention) == _of(expected, Attention)
    yield "bounds of norms", set(bounds.norms) == _of(expected, Norm)
    yield "bounds of functions", set(bounds.functions) == _of(expected, FeedForward, Function)
    yield "bounds of gates", set(bounds.gates) == {name for name in expected if has_gate(expected[name])}
    yield "magnitudes", set(plan.magnitudes) == _of(nodes(plan.config), Attention, FeedForward, Norm)
    room = 2.0 ** (formats.ring - 2 - formats.fraction - formats.weight)
    for name, magnitude in plan.magnitudes.items():
        yield f"{name}: magnitude {magnitude:.3g}", 0.0 < magnitude < room
    for name, node in expected.items():
        if isinstance(node, Attention):
            yield from _position_rules(name, node, formats)
    for name, attention in bounds.attention.items():
        yield from _attention_rules(name, attention, formats, plan.room)
    for name, interval in bounds.functions.items():
        yield from _function_rules(name, interval, function_of(expected[name]), formats)
    for name, bound in bounds.gates.items():
        held = 0.0 < bound <= MOST**2 and formats.gate_ring(bound) <= formats.ring
        yield f"{name}: product {bound:.3g}", held
    for name, norm in bounds.norms.items():
        yield from _norm_rules(name, norm, typing.cast(Norm, expected[name]).size)
    if _of(expected, Mean):
        before = list(expected)[: [isinstance(node, Mean) for node in expected.values()].index(True)]
        last = plan.magnitudes[[name for name in before if isinstance(expected[name], Norm)][-1]]
        yield "mean", last < MOST_MEAN


def _of(nodes: Mapping[str, Node], *kinds: type) -> set[str]:
    return {name for name, node in nodes.items() if isinstance(node, kinds)}


def _format_rules(formats: Formats) -> Rules:
    yield "fraction and weight", formats.fraction + formats.weight <= formats.ring - 8
    yield "product fraction", formats.product_fraction <= formats.fraction
    yield "table", formats.table <= formats.fraction
    yield "normal ring", formats.inverse + 8 <= formats.normal_ring <= formats.ring


def _position_rules(name: str, node: Attention, formats: Formats) -> Rules:
    yield f"{name}: reach {node.reach}", all(s is None or 0 <= s <= MOST for s in node.reach)
    if node.rotary:
        yield f"{name}: heads of {node.head_size}", node.head_size % 2 == 0
        yield f"{name}: base {node.rotary.base}", 1.0 <= node.rotary.base <= MOST_BASE
        yield f"{name}: turns", formats.fraction + TURN + LEAST_TURNED <= formats.turn_ring


def _function_rules(name: str, interval: Interval, kind: str | None, formats: Formats) -> Rules:
    yield f"{name}: argument {interval}", _interval(interval)
    inner = range_bits(*interval) + formats.fraction + 2
    yield f"{name}: argument {interval}", inner <= formats.ring - formats.weight
    if kind == "relu2":
        yield f"{name}: squares of {interval}", formats.square_ring(interval) <= formats.ring


def _norm_rules(name: str, norm: NormBounds, size: int) -> Rules:
    arguments = norm.centred, math.sqrt(norm.variance[0]), norm.gamma
    yield f"{name} {norm}", try_make(lambda: norm_layout(size, *arguments), ValueError) is not None


def _sum_rules(plan: TwoPartyPlan) -> Rules:
    """Requires that norms of many values, which go by ciphertexts, have room for their sums of squares."""
    values, name = plan.program.sizes(plan.tokens, len(plan.begin)), "the input"
    for step in plan.program.steps:
        name = step.parameters.get("name", name)
        if step.op == "norm" and math.prod(shape := values[step.inputs[0]].shape) >= FEW:
            layout = norm_layout(shape[-1], *(step.parameters[each] for each in ("bound", "least", "gamma")))
            over = (layout.span[1] - layout.span[0]) // 2
            yield f"norm behind {name}: rows of {shape[-1]}, deviations over 2^{over}", layout.sums


def _attention_rules(name: str, bounds: AttentionBounds, formats: Formats, tokens: int) -> Rules:
    context = formats.normal_ring - 2 - formats.inverse - LEAST_MIXED
    yield f"{name}: context {bounds.context:.3g}", bounds.context < 2.0**context
    yield f"{name}: scores {bounds.scores}", _interval(bounds.scores)
    room = formats.ring - formats.fraction - formats.weight + formats.product_fraction
    scores, mix = formats.score_ring(bounds), formats.mix_ring(bounds, max(WHOLE, tokens))
    yield f"{name}: scores {bounds.scores}", scores <= room and bounds.score_range <= 24
    yield f"{name}: mixed values up to {bounds.context:.3g}", mix <= room


def _interval(interval: Interval) -> bool:
    return all(math.isfinite(v) for v in interval) and -MOST <= interval[0] < interval[1] <= MOST
