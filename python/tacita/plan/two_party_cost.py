"""What one text of a two-party plan sends, both directions together, before anything runs.

Bits per element are those that the protocols state (`crates/mpc/src/nonlinear`, `linear`, `products`), correlations included; a sum of
them, so good to a fifth. Small products fill a ciphertext only in part, which is what the whole ones below are for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tacita.errors import PlanError
from tacita.models.bert import POOLINGS
from tacita.plan.correlations import quicker
from tacita.plan.two_party import TwoPartyPlan, words_ring
from tacita.two_party.base import unknown_kind

GELU = {"abs4": 1380, "abs8": 1780}  # bits an element
RELU = 420
EXP, TANH = 2250, 2000
NORM, NORM_SLOT = 130, 1144  # bits an element, and a slot of the ciphertexts that carry it
NORM_ROWS = 810  # bits a slot of the one ciphertext each way that carries what belongs to rows
QUOTIENT = 900  # bits a slot
ROW = 2 * 8 * 2000  # bits for the reciprocal of a row, in softmax and LayerNorm
REQUEST, RESPONSE = 85, 65  # bits a coefficient, with weights on the other side
SHARED_REQUEST, SHARED_RESPONSE = 62, 32  # with shares on the other side
COEFFICIENTS = 8192  # of a ciphertext
TRANSFERS = {"activation": 40, "score": 40, "norm": 3}  # correlated transfers an element, to a third
SECONDS_A_MB, SECONDS_A_BILLION, ROUNDS_A_LAYER = 0.0207, 4.0, 180
SET_UP = 4_200_000  # bytes, once a session


@dataclass(frozen=True)
class _Rows:
    """Rows of a layer: those that keys and values need, and those that the rest needs."""

    all: int
    kept: int


def expected_bytes(plan: TwoPartyPlan) -> int:
    """Of one text, without the set-up of the session."""
    config = plan.config
    bits = _look_up(plan) if plan.embedding else 0.0
    for index in range(config.layers):
        alone = config.first_token and index == config.layers - 1
        bits += _layer(plan, _Rows(plan.tokens, 1 if alone else plan.tokens))
    bits += _pooling(plan)
    if config.classes:
        bits += _linear(1, config.hidden, config.classes)
    return int(bits / 8)


def expected_transfers(plan: TwoPartyPlan) -> int:
    """Correlated transfers of one text."""
    config, total = plan.config, 0
    for index in range(config.layers):
        rows = 1 if config.first_token and index == config.layers - 1 else plan.tokens
        total += TRANSFERS["activation"] * rows * config.intermediate
        total += TRANSFERS["score"] * config.heads * rows * plan.tokens
        total += 2 * TRANSFERS["norm"] * rows * config.hidden
    return total


@dataclass(frozen=True)
class LinkSpeed:
    """bits_per_second, one way; round_trip: seconds."""

    bits_per_second: float
    round_trip: float


LINKS = {"LAN": LinkSpeed(1e9, 0.5e-3), "WAN": LinkSpeed(4e8, 4e-3)}


def multiplications(plan: TwoPartyPlan) -> float:
    """Of weights with values, for one text."""
    config, total = plan.config, 0.0
    for index in range(config.layers):
        rows = 1 if config.first_token and index == config.layers - 1 else plan.tokens
        size = config.hidden**2 * (2 * plan.tokens + 2 * rows) + 2 * rows * config.hidden * config.intermediate
        total += float(size)
    return total


def expected_seconds(plan: TwoPartyPlan, link: LinkSpeed | None = None) -> float:
    """Of one text, a core a party on the measured machine (2-core EPYC, AVX-512); None: both on one machine.

    Processor time goes with what is sent (SECONDS_A_MB) and with the weights' products (SECONDS_A_BILLION), as fitted to four measured
    models from 1 to 84 s, which it meets within 20 %. A link adds its bytes and rounds, though part of them overlaps with work.
    """
    megabytes = expected_bytes(plan) / 1e6
    working = SECONDS_A_MB * megabytes + SECONDS_A_BILLION * multiplications(plan) / 1e9
    if link is None:
        return working
    rounds = ROUNDS_A_LAYER * plan.config.layers
    return working + 8e6 * megabytes / link.bits_per_second + rounds * link.round_trip


def for_link(plan: TwoPartyPlan, bits_per_second: float) -> TwoPartyPlan:
    """The plan with the correlated transfers that are quicker over such a link, for a session of one text."""
    return replace(plan, correlations=quicker(expected_transfers(plan), bits_per_second))


def _look_up(plan: TwoPartyPlan) -> float:
    """Rows of the hidden table, their extension, and the norm after them."""
    values = plan.tokens * plan.config.hidden
    bits = 2.0 * (words_ring(plan) + 5) * _whole(values) + plan.formats.ring * values
    return bits + _norm(plan.tokens, plan.config.hidden) if plan.config.embedding_norm else bits


def _layer(plan: TwoPartyPlan, rows: _Rows) -> float:
    hidden, wide = plan.config.hidden, plan.config.intermediate
    total = _linear(rows.all, hidden, 3 * hidden)
    total += _linear(rows.kept, hidden, hidden) + _linear(rows.kept, hidden, wide) + _linear(rows.kept, wide, hidden)
    total += _attention(plan, rows)
    total += _activation(plan) * rows.kept * wide
    return total + 2 * _norm(rows.kept, hidden)


def _pooling(plan: TwoPartyPlan) -> float:
    """From the last hidden states to the pooled vector; [CLS] itself is there already."""
    hidden = plan.config.hidden
    match plan.config.pooling:
        case "pooler":
            return _linear(1, hidden, hidden) + TANH * hidden
        case "cls":
            return 0.0
        case "mean":
            return _shared(plan.tokens, hidden * plan.tokens, hidden)
        case unknown:
            raise PlanError(f"two-party mode: pooling {unknown!r}", hint=f"supported: {', '.join(POOLINGS)}")


def _activation(plan: TwoPartyPlan) -> int:
    match plan.config.activation:
        case "relu":
            return RELU
        case "gelu":
            return GELU[plan.formats.gelu]
        case unknown:
            raise unknown_kind(unknown)


def _norm(rows: int, hidden: int) -> float:
    return NORM * rows * hidden + NORM_SLOT * _whole(rows * hidden) + NORM_ROWS * _whole(rows) + ROW * rows


def _attention(plan: TwoPartyPlan, rows: _Rows) -> float:
    config = plan.config
    scores = config.heads * rows.kept * rows.all
    total: float = EXP * scores + ROW * config.heads * rows.kept
    query, key, score = rows.kept * config.head_size, rows.all * config.head_size, rows.kept * rows.all
    total += config.heads * (_shared(query, key, score) + _shared(score, key, query))
    return total + QUOTIENT * _whole(rows.kept * config.hidden)


def _linear(rows: int, inputs: int, outputs: int) -> float:
    return REQUEST * _whole(rows * inputs) + RESPONSE * _whole(rows * outputs)


def _shared(left: int, right: int, result: int) -> float:
    return SHARED_REQUEST * (_whole(left) + _whole(right)) + SHARED_RESPONSE * _whole(result)


def _whole(count: int) -> int:
    """Coefficients of whole ciphertexts."""
    return -(-count // COEFFICIENTS) * COEFFICIENTS
