"""Making a two-party plan: calibration, bounds of every node, and a check that they fit the formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tacita.blocks.base import Attention, Dense, FeedForward, Norm
from tacita.blocks.shapes import Function
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, FileError, ShapeError
from tacita.models.registry import Config, family_of, nodes
from tacita.packings.executor import within_doubles
from tacita.planning.calibrate.calibrate import (
    DEFAULT,
    Calibration,
    CalibrationOptions,
    calibrate,
    power_above,
)
from tacita.planning.options import Basis
from tacita.planning.request import PlanRequest
from tacita.plans.json_fields import printable
from tacita.texts.task import SEARCH
from tacita.two_party.arithmetic.base import (
    GELU_FORMS,
    KINDS,
    AttentionBounds,
    Bounds,
    Formats,
    NormBounds,
)
from tacita.two_party.plan.check import check, has_gate, lacking
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.program import MOST_TOKENS

# documents are told apart by smaller differences than labels are: docs/decisions/0063
DECIMALS, SCORE_DECIMALS, FINER = 3, 4, Formats(gelu=GELU_FORMS[-1])
LOG_NORM = 24  # of a column of weights, as integers, that the engine multiplies: its `log_norm`
ROWS = 256  # of a matrix, its columns' weights, that are measured at a time


@within_doubles("plan of two parties")
def make_two_party_plan(
    checkpoint: Checkpoint, request: PlanRequest, progress: Callable[[float, float], None] | None = None
) -> TwoPartyPlan:
    """Calibrates a checkpoint and checks that its ranges fit the formats.

    Raises CheckpointError (a retrained model, a range or weights that do not fit), ShapeError (more tokens
    than positions).
    """
    require_ordinary(checkpoint.config)
    _require_tokens(checkpoint.config, request.tokens)
    search = checkpoint.config.problem == SEARCH
    basis = Basis(request.texts, request.hidden_states)
    for option in request.options:
        basis = option.basis(checkpoint, request.tokens, basis)
    calibration = calibrate(
        checkpoint,
        request.tokens,
        basis.texts,
        hidden_states=basis.hidden_states,
        behind=basis.begin,
        options=CalibrationOptions(temper=False, progress=progress or DEFAULT.progress),
    )
    plan = TwoPartyPlan(
        name=printable(checkpoint.name),
        family=family_of(checkpoint.config),
        config=checkpoint.config,
        tokens=request.tokens,
        embeddings=request.embeddings,
        formats=request.formats or (FINER if search else Formats()).for_tokens(request.tokens),
        embedding=basis.embedding,
        bounds=node_bounds(checkpoint, calibration, basis.norms),
        magnitudes=magnitudes(checkpoint.config, calibration),
        answer=calibration.answer,
        decimals=SCORE_DECIMALS if search else DECIMALS,
        begin=basis.begin,
        nearest=request.nearest if search and request.nearest < checkpoint.config.outputs else 0,
        pace=request.prices.pace if request.prices else 1.0,
    )
    try:
        check(plan)
    except FileError as error:
        raise CheckpointError(
            f"{checkpoint.name}: {error}", hint="its values do not fit the two-party formats"
        ) from None
    require_fitting(plan, Weights(checkpoint.tensors))
    return plan


def require_fitting(plan: TwoPartyPlan, weights: Weights) -> None:
    """Raises CheckpointError for weights that no session would take, or take for others: a column of a norm
    above 2^24 as integers, 2^10 with the usual format, whose noise shares could not hide; a norm's factors
    beyond the plan's bound, which would wrap. Reads all weights once."""
    node = ""
    for number, step in enumerate(plan.program.steps):
        node = step.parameters.get("name", node)
        what, _ = plan.recorded.held.get(number, (None, None))
        if isinstance(what, Norm):
            largest, bound = float(np.abs(weights.norm(what)[0]).max()), step.parameters["gamma"]
            if not largest < bound:
                raise CheckpointError(
                    f"{node}: {what.name}.weight has factors up to {largest:.3g}, planned below {bound:.3g}",
                    hint="the plan is of other weights: make it again",
                )
        elif isinstance(what, tuple):
            for each in what:
                _require_short(node, each, weights, plan.formats.weight)


def _require_short(node: str, each: Dense, weights: Weights, fraction: int) -> None:
    with np.errstate(over="ignore"):
        parts = (np.rint(part * 2.0**fraction) for part in weights.parts((each,), ROWS))
        norm = max(float(np.linalg.norm(part, axis=1).max()) for part in parts)
    if norm > 2.0**LOG_NORM:
        raise CheckpointError(
            f"{node}: a column of {each.name}.weight has norm 2^{math.log2(norm) - fraction:.1f}, "
            f"two parties multiply by up to 2^{LOG_NORM - fraction}",
            hint="plan it with fewer fraction bits of weights (`formats` of PlanRequest), or by CKKS",
        )


def require_ordinary(config: Config) -> None:
    """Raises CheckpointError for models with replaced softmax or LayerNorm, or with a function that has no
    protocol."""
    if problem := lacking(config):
        raise CheckpointError(
            f"two-party mode: {problem}",
            hint=f"supported are softmax, LayerNorm and RMSNorm, and the functions {', '.join(KINDS)}; "
            "use `tacita classify` without --connect",
        )


def _require_tokens(config: Config, tokens: int) -> None:
    if not 2 <= tokens <= min(MOST_TOKENS, config.positions):
        raise ShapeError(
            f"two-party mode: {tokens} tokens, the model has {config.positions} positions",
            hint="use fewer tokens",
        )


def node_bounds(
    checkpoint: Checkpoint, calibration: Calibration, norms: Mapping[str, NormBounds] | None = None
) -> Bounds:
    """Returns what the two-party mode publishes of calibrated nodes. norms: of a hidden embedding."""
    attention, functions, normed, gates = {}, {}, dict(norms or {}), {}
    weights = Weights(checkpoint.tensors)
    for name, node in nodes(checkpoint.config).items():
        match node:
            case Attention():
                scored = calibration.attention(name)
                attention[name] = AttentionBounds(scored.scores, scored.context)
            case Norm():
                c, gamma = calibration.norm(name), power_above(weights.norm(node)[0])
                normed[name] = NormBounds(c.centred, c.variance, gamma)
            case FeedForward() | Function():
                functions[name] = calibration.function(name).argument
                if has_gate(node):
                    gates[name] = calibration.function(name).product or 0.0
    return Bounds(attention, functions, normed, gates)


def magnitudes(config: Config, calibration: Calibration) -> dict[str, float]:
    """Returns the largest value that an attention, a norm or a feed-forward takes or gives to a linear
    map."""
    largest: dict[str, float] = {}
    for name, node in nodes(config).items():
        match node:
            case Attention():
                largest[name] = max(calibration.attention(name).input, calibration.attention(name).context)
            case Norm():
                largest[name] = max(calibration.norm(name).sum, calibration.norm(name).result)
            case FeedForward():
                function = calibration.function(name)
                largest[name] = (function.product if has_gate(node) else function.result) or 0.0
    return largest
