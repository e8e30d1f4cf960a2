"""Making a two-party plan: calibration, bounds of every node, and a check that they fit the formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tacita.blocks.base import Attention, FeedForward, Norm
from tacita.blocks.shapes import Function
from tacita.calibrate.calibrate import MARGIN, Calibration, Progress, calibrate, load_texts
from tacita.calibrate.hidden_embedding import hidden_embedding, power_above
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, FileError, InputError
from tacita.front.embed import Text
from tacita.models.registry import Config, family_of, nodes
from tacita.plans.strict_json import printable
from tacita.plans.two_party.check import MOST_TOKENS, check, ordinary
from tacita.plans.two_party.plan import EMBEDDINGS, TwoPartyPlan
from tacita.two_party.base import (
    GELU_FORMS,
    AttentionBounds,
    Bounds,
    Formats,
    NormBounds,
)

DECIMALS = 3


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

    tokens: of every request. texts: calibration sentences (default: the shipped ones). margin: see
    `calibrate.calibrate`. Raises CheckpointError (a retrained model, a range that does not fit), InputError.
    """
    require_ordinary(checkpoint.config)
    _require_tokens(checkpoint.config, tokens)
    _require_names(embeddings, formats)
    embedding, norms = None, dict[str, NormBounds]()
    if embeddings == "hidden":
        texts = list(load_texts() if texts is None else texts)
        embedding, norms, samples = hidden_embedding(checkpoint, tokens, texts, margin)
        found = calibrate(
            checkpoint, tokens, hidden_states=samples, margin=margin, progress=progress, temper=False
        )
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


def require_ordinary(config: Config) -> None:
    """Raises CheckpointError for models with replaced softmax or LayerNorm."""
    if not ordinary(config):
        raise CheckpointError(
            "two-party mode: a retrained model (bpmax or batch normalisation)",
            hint="supported are softmax and LayerNorm; use `tacita classify` without --connect",
        )


def _require_names(embeddings: str, formats: Formats | None) -> None:
    """Before the minutes of calibration."""
    if embeddings not in EMBEDDINGS:
        raise InputError(f"two-party mode: embeddings {embeddings!r}", hint=f"one of {', '.join(EMBEDDINGS)}")
    if formats and formats.gelu not in GELU_FORMS:
        raise InputError(
            f"two-party mode: form {formats.gelu!r} of gelu", hint=f"one of {', '.join(GELU_FORMS)}"
        )


def _require_tokens(config: Config, tokens: int) -> None:
    if not 2 <= tokens <= min(MOST_TOKENS, config.positions):
        raise InputError(
            f"two-party mode: {tokens} tokens, the model has {config.positions} positions",
            hint="use fewer tokens",
        )


def node_bounds(
    checkpoint: Checkpoint, found: Calibration, norms: Mapping[str, NormBounds] | None = None
) -> Bounds:
    """What the two-party mode publishes of calibrated nodes. norms: of the embedding, where that is
    hidden."""
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
