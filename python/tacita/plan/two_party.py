"""The plan of the two-party mode: what both parties must agree on before a session, all of it public.

Sizes of the model, number of tokens, fixed-point formats, and calibrated intervals with their margin, rounded outwards to 8 bits
(`plan.outwards`). No weights. The intervals are nevertheless a fingerprint: who holds a candidate checkpoint can calibrate it and
compare.
The server makes it from the checkpoint and sends it; the client checks every number before it acts on one.
"""

from __future__ import annotations

import hashlib
import json
import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tacita.blocks.base import Attention, FeedForward, Norm, Powers
from tacita.blocks.meaning import Meaning
from tacita.blocks.shapes import Function, Mean, Node
from tacita.blocks.tensors import Operations, T, W
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, FileError, InputError, PlanError
from tacita.front.embed import Text
from tacita.front.limits import MAX_CLASSES, MAX_HIDDEN, MAX_LAYERS, MAX_POSITIONS, MAX_VOCAB
from tacita.models.registry import FAMILIES, Config, family_of, forward, front, module_of, nodes, shapes, unknown_option
from tacita.plan.calibrate import MARGIN, Calibration, Progress, calibrate, load_texts
from tacita.plan.correlations import KINDS
from tacita.plan.hidden_embedding import hidden_embedding, power_above
from tacita.plan.strict_json import printable
from tacita.plan.two_party_failure import MOST_FAILURE, failure_log2
from tacita.plan.typed_json import canonical, from_json, to_json
from tacita.two_party.base import (
    GELU_FORMS,
    MEAN_RING,
    MEAN_VALUE,
    MEAN_WEIGHT,
    AttentionBounds,
    Bounds,
    EmbeddingBounds,
    Formats,
    Interval,
    NormBounds,
    mix_ring,
    range_bits,
    score_range,
    score_ring,
    table_ring,
)
from tacita.two_party.count import Cost, CountTensors
from tacita.two_party.functions import norm_layout

FORMAT = "tacita-two-party"
VERSION = 3
DECIMALS = 3
EMBEDDINGS = ("published", "hidden")
MAX_NAME, MAX_LABEL, MAX_TYPES = 200, 200, 16
MOST_TOKENS = 512
MOST = 2.0**20  # magnitude that no interval of a model that works comes near
MOST_TABLE_RING = 32
MOST_MEAN = 2.0 ** (MEAN_RING - 2 - MEAN_WEIGHT - MEAN_VALUE)
LEAST_MIXED = 8  # fewest fraction bits of mixed values before they are normalised
EMBEDDING_NORM = "embedding.norm"
Rules = Iterable[tuple[str, bool]]
REMAKE = "the peer runs another release, or the connection is not to a tacita server"


@dataclass(frozen=True)
class TwoPartyPlan:
    """See the module's docstring.

    name: of the model. family: a name in `models.registry`; config: of its type.
    embeddings: "published" (the client gets the tables and embeds) or "hidden" (embedding: what is public
    of it). bounds: of the model's nodes. magnitudes: of what each node gives or takes. answer: bound of a logit, or of the
    pooled vector before the client normalises it.
    decimals: logits are rounded to. correlations: kind of the correlated transfers of a session (see `plan.correlations`).
    """

    name: str
    family: str
    config: Any
    tokens: int
    embeddings: str
    formats: Formats
    embedding: EmbeddingBounds | None
    bounds: Bounds
    magnitudes: Mapping[str, float]
    answer: float
    decimals: int
    correlations: str = "ferret"

    @cached_property
    def hash(self) -> str:
        """sha256, hex, of the canonical JSON with format and version."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical({"format": FORMAT, "version": VERSION, **to_json(self)})

    def run(self, operations: Operations[T, W], x: T) -> T:
        """The model on an interpreter: hidden states, or rows of a hidden word table, (tokens, hidden) -> answer (1, outputs)."""
        blocks = Meaning(operations)
        return forward(blocks, self.config, front(blocks, self.config, x) if self.embedding else x)


def counted(plan: TwoPartyPlan) -> Cost:
    """What one text costs. Takes a millisecond."""
    ops, hidden = CountTensors(plan.formats, plan.bounds, plan.tokens), plan.config.hidden
    x = (plan.tokens, hidden) if plan.embedding is None else ops.words(plan.tokens, hidden, words_ring(plan))
    plan.run(ops, x)
    return ops.cost


def make_two_party_plan(
    checkpoint: Checkpoint,
    tokens: int,
    texts: Iterable[Text] | None = None,
    *,
    embeddings: str = "published",
    formats: Formats | None = None,
    margin: float = MARGIN,
    progress: Progress | None = None,
) -> TwoPartyPlan:
    """Calibrates a checkpoint and checks that its ranges fit the formats.

    tokens: of every request. texts: calibration sentences (default: the shipped ones). margin: see `plan.calibrate`.
    Raises CheckpointError (a retrained model, a range that does not fit), InputError.
    """
    require_ordinary(checkpoint.config)
    _require_tokens(checkpoint.config, tokens)
    _require_names(embeddings, formats)
    embedding, norms = None, dict[str, NormBounds]()
    if embeddings == "hidden":
        texts = list(load_texts() if texts is None else texts)
        embedding, norm, samples = hidden_embedding(checkpoint, tokens, texts, margin)
        norms = {EMBEDDING_NORM: norm} if norm else {}
        found = calibrate(checkpoint, tokens, hidden_states=samples, margin=margin, progress=progress, temper=False)
    else:
        found = calibrate(checkpoint, tokens, texts, margin=margin, progress=progress, temper=False)
    plan = TwoPartyPlan(
        name=printable(checkpoint.name),
        family=family_of(checkpoint.config),
        config=checkpoint.config,
        tokens=tokens,
        embeddings=embeddings,
        formats=formats or Formats(),
        embedding=embedding,
        bounds=node_bounds(checkpoint, found, norms),
        magnitudes=magnitudes(checkpoint.config, found),
        answer=found.answer,
        decimals=DECIMALS,
    )
    try:
        check(plan)
    except FileError as error:
        raise CheckpointError(
            f"{checkpoint.name}: {error}", hint="its values do not fit the two-party formats"
        ) from None
    return plan


def words_ring(plan: TwoPartyPlan) -> int:
    """Bits in which rows of a hidden word table are shared. Raises PlanError for a plan that publishes it."""
    if plan.embedding is None:
        raise PlanError("two-party plan: its embedding is published", hint="there is nothing to look up")
    return table_ring(plan.formats, plan.embedding)


def require_ordinary(config: Config) -> None:
    """Raises CheckpointError for models with replaced softmax or LayerNorm."""
    if not _ordinary(config):
        raise CheckpointError(
            "two-party mode: a retrained model (bpmax or batch normalisation)",
            hint="supported are softmax and LayerNorm; use `tacita classify` without --connect",
        )


def _known(config: Config) -> bool:
    """Whether the family takes the options, so that its nodes can be listed."""
    try:
        module_of(config).check_names(config)
    except CheckpointError:
        return False
    return True


def _ordinary(config: Config) -> bool:
    """Whether there are protocols for every option of its nodes."""
    found = nodes(config).values()
    return not any(
        isinstance(getattr(node, "weights", None), Powers) or getattr(node, "deviation", None) is not None
        for node in found
    )


def parse_plan(data: bytes) -> TwoPartyPlan:
    """The peer's bytes -> checked plan. Raises FileError."""
    try:
        fields: Any = json.loads(data)
        known = isinstance(fields, dict) and (fields.pop("format", None), fields.pop("version", None))
        if known != (FORMAT, VERSION):
            raise FileError(f"two-party plan: found {known}, expected {(FORMAT, VERSION)}", hint=REMAKE)
        plan = typing.cast(TwoPartyPlan, from_json(TwoPartyPlan, fields))
        if plan.family not in FAMILIES:
            raise FileError(f"two-party plan: family {plan.family!r:.40}", hint=f"known: {', '.join(FAMILIES)}")
        plan = replace(plan, config=from_json(FAMILIES[plan.family].config, plan.config))
        spelled = plan.to_bytes()
    except (ValueError, KeyError, TypeError, PlanError, RecursionError) as error:
        raise FileError(f"two-party plan: damaged ({error})", hint=REMAKE) from None
    if spelled != data:
        raise FileError("two-party plan: not in its one spelling", hint=REMAKE)
    check(plan)
    return plan


def check(plan: TwoPartyPlan) -> None:
    """Raises FileError naming the first field outside its limits: what a client accepts from a server it does not trust."""
    for what, good in _rules(plan):
        if not good:
            raise FileError(f"two-party plan: {what} is out of range", hint=REMAKE)


def _rules(plan: TwoPartyPlan) -> Rules:
    config, formats = plan.config, plan.formats
    yield "name", _printable(plan.name, MAX_NAME)
    yield "layers", 1 <= config.layers <= MAX_LAYERS
    yield "hidden size", 1 <= config.hidden <= MAX_HIDDEN and config.heads >= 1 and config.hidden % config.heads == 0
    yield "intermediate size", 1 <= config.intermediate <= 4 * MAX_HIDDEN
    yield "vocabulary", 1 <= config.vocab <= MAX_VOCAB and 1 <= config.positions <= MAX_POSITIONS
    yield "types", 0 <= config.types <= MAX_TYPES
    yield "activation", plan.family in FAMILIES and unknown_option(plan.family, config) is None
    yield "options", _known(config) and _ordinary(config)
    yield "epsilon", 0.0 <= config.norm_eps <= 0.1
    yield "labels", len(config.labels) <= MAX_CLASSES and all(_printable(label, MAX_LABEL) for label in config.labels)
    yield "correlations", plan.correlations in KINDS
    yield "tokens", 2 <= plan.tokens <= MOST_TOKENS
    yield "embeddings", plan.embeddings in EMBEDDINGS and config.embeddings
    yield "decimals", 0 <= plan.decimals <= 9 and 0.0 < plan.answer <= MOST
    yield "embedding", (plan.embedding is not None) == (plan.embeddings == "hidden")
    if plan.embedding:
        yield from _embedding_rules(plan.embedding, formats)
    yield from _format_rules(formats)
    yield "normalisation of a classifier's answer", not (config.normalise and config.labels)
    yield from _node_rules(plan)
    failure = failure_log2(counted(plan).responses)
    yield f"chance of a wrong answer 2^{failure:.1f}", failure <= MOST_FAILURE


def _node_rules(plan: TwoPartyPlan) -> Rules:
    """Every node of the model has its bounds, and nothing else has."""
    known = shapes(plan.config, plan.tokens, hidden_embedding=plan.embedding is not None).nodes
    bounds, formats = plan.bounds, plan.formats
    yield "bounds of attention", set(bounds.attention) == _of(known, Attention)
    yield "bounds of norms", set(bounds.norms) == _of(known, Norm)
    yield "bounds of functions", set(bounds.functions) == _of(known, FeedForward, Function)
    yield "magnitudes", set(plan.magnitudes) == _of(known, Attention, FeedForward, Norm) - {EMBEDDING_NORM}
    room = 2.0 ** (formats.ring - 2 - formats.fraction - formats.weight)
    for name, magnitude in plan.magnitudes.items():
        yield f"{name}: magnitude {magnitude:.3g}", 0.0 < magnitude < room
    for name, attention in bounds.attention.items():
        yield from _attention_rules(name, attention, formats)
    for name, interval in bounds.functions.items():
        yield f"{name}: argument {interval}", _interval(interval)
        inner = range_bits(*interval) + formats.fraction + 2
        yield f"{name}: argument {interval}", inner <= formats.ring - formats.weight
    for name, norm in bounds.norms.items():
        yield from _norm_rules(name, norm, plan.config.hidden)
    if _of(known, Mean):
        last = plan.magnitudes[[name for name, node in known.items() if isinstance(node, Norm)][-1]]
        yield "mean", last < MOST_MEAN


def _of(nodes: Mapping[str, Node], *kinds: type) -> set[str]:
    return {name for name, node in nodes.items() if isinstance(node, kinds)}


def _format_rules(formats: Formats) -> Rules:
    yield "ring", 32 <= formats.ring <= 64
    yield "fraction", 8 <= formats.fraction <= 24 and 6 <= formats.weight <= 20
    yield "fraction and weight", formats.fraction + formats.weight <= formats.ring - 8
    yield "product fraction", 8 <= formats.product_fraction <= formats.fraction
    yield "table", 8 <= formats.table <= formats.fraction
    yield "gelu", formats.gelu in GELU_FORMS
    yield "inverse", 8 <= formats.inverse <= 24
    yield "normal ring", formats.inverse + 8 <= formats.normal_ring <= formats.ring


def _embedding_rules(bounds: EmbeddingBounds, formats: Formats) -> Rules:
    yield "embedding's entries", 0.0 < bounds.entry <= MOST and table_ring(formats, bounds) <= MOST_TABLE_RING


def _norm_rules(name: str, norm: NormBounds, size: int) -> Rules:
    yield f"{name} {norm}", _interval(norm.variance) and norm.variance[0] > 0.0
    yield f"{name} {norm}", 0.0 < norm.centred <= MOST and 0.0 < norm.gamma <= MOST
    yield f"{name} {norm}", _normalises(size, norm)


def _attention_rules(name: str, bounds: AttentionBounds, formats: Formats) -> Rules:
    context = formats.normal_ring - 2 - formats.inverse - LEAST_MIXED
    yield f"{name}: context {bounds.context:.3g}", 0.0 < bounds.context < 2.0**context
    yield f"{name}: scores {bounds.scores}", _interval(bounds.scores)
    room = formats.ring - formats.fraction - formats.weight + formats.product_fraction
    scores, mix = score_ring(formats, bounds), mix_ring(formats, bounds, MOST_TOKENS)
    yield f"{name}: scores {bounds.scores}", scores <= room and score_range(bounds) <= 24
    yield f"{name}: mixed values up to {bounds.context:.3g}", mix <= room


def _normalises(size: int, bounds: NormBounds) -> bool:
    try:
        norm_layout(size, bounds)
    except ValueError:
        return False
    return True


def _printable(text: str, most: int) -> bool:
    """Short, and without characters that a terminal would obey."""
    return len(text) <= most and text.isprintable()


def _interval(interval: Interval) -> bool:
    return all(math.isfinite(v) for v in interval) and -MOST <= interval[0] < interval[1] <= MOST


def node_bounds(checkpoint: Checkpoint, found: Calibration, norms: Mapping[str, NormBounds] | None = None) -> Bounds:
    """What the two-party mode publishes of calibrated nodes. norms: of the embedding, where that is hidden."""
    attention, functions, normed = {}, {}, dict(norms or {})
    for name, node in nodes(checkpoint.config).items():
        match node:
            case Attention():
                scored = found.attention(name)
                attention[name] = AttentionBounds(scored.scores, scored.context)
            case Norm():
                c, gamma = found.norm(name), power_above(checkpoint.tensors[f"{node.name}.weight"])
                normed[name] = NormBounds(c.centred, c.variance, gamma)
            case FeedForward() | Function():
                functions[name] = found.function(name).argument
    return Bounds(attention, functions, normed)


def magnitudes(config: Config, found: Calibration) -> dict[str, float]:
    """The largest value that an attention, a norm or a feed-forward takes or gives."""
    largest: dict[str, float] = {}
    for name, node in nodes(config).items():
        match node:
            case Attention():
                largest[name] = max(found.attention(name).input, found.attention(name).context)
            case Norm():
                largest[name] = max(found.norm(name).sum, found.norm(name).result)
            case FeedForward():
                largest[name] = found.function(name).result
    return largest


def _require_names(embeddings: str, formats: Formats | None) -> None:
    """Before the minutes of calibration."""
    if embeddings not in EMBEDDINGS:
        raise InputError(f"two-party mode: embeddings {embeddings!r}", hint=f"one of {', '.join(EMBEDDINGS)}")
    if formats and formats.gelu not in GELU_FORMS:
        raise InputError(f"two-party mode: form {formats.gelu!r} of gelu", hint=f"one of {', '.join(GELU_FORMS)}")


def _require_tokens(config: Config, tokens: int) -> None:
    if not 2 <= tokens <= min(MOST_TOKENS, config.positions):
        raise InputError(
            f"two-party mode: {tokens} tokens, the model has {config.positions} positions", hint="use fewer tokens"
        )
