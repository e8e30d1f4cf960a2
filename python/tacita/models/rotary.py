"""Rotary positions as configurations say them: their base, how many features of a head turn, and by what
their angles are slowed down."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import pi

from tacita.models.fields import Fields
from tacita.texts.embedding import MAX_STATED

BASE, MOST_BASE = 10000.0, 1e9
KINDS = ("default", "linear", "llama3")
MOST_FACTOR = 1024.0  # by which angles are slowed down


def base_of(f: Fields) -> float:
    """Reads the base of the rotary positions; newer files keep it in a field of fields. Refuses one for each
    kind of layers."""
    of = f.part("rope_parameters") or f
    if of is not f and any(isinstance(value, dict) for value in of.data.values()):
        f.refuse("rope_parameters", "one base of all layers")
    return of.number("rope_theta", f.number("rope_theta", BASE, 1.0, MOST_BASE), 1.0, MOST_BASE)


def turning_features(f: Fields, size: int, kind: str) -> int:
    """Reads how many features of a head turn: all of them, or of Phi-3 the first."""
    of = f.part("rope_parameters") or f
    share = of.number("partial_rotary_factor", f.number("partial_rotary_factor", 1.0, 0.0, 1.0), 0.0, 1.0)
    first = int(size * share)
    if share != 1.0 and (kind != "phi3" or first < 2 or first % 2 or size % 2):
        of.refuse("partial_rotary_factor", f"{first} of {size} features of a head; even numbers of Phi-3's")
    return first


def angle_scales(f: Fields, base: float, size: int, first: int) -> tuple[float, ...]:
    """Reads by what the rotary positions of a head are slowed down: linearly, all of them alike; or as LLaMA
    3's, those that turn less than `low` times in the texts of the first training, and none that turns more
    than `high` times. Where the first features alone turn, theirs are the exponents of so small a head, and
    the others stand still. Powers are taken in decimals, so that every machine reads the same numbers."""
    turns = [(2 * i, Decimal(base) ** (Decimal(2 * i) / first)) for i in range(first // 2)]
    scales = _slower(f, [float(each) for _, each in turns])
    if first < size:
        moved = [float(Decimal(base) ** (Decimal(i) / size) / turn) for i, turn in turns]
        return tuple(a * b for a, b in zip(moved, scales, strict=True)) + (0.0,) * ((size - first) // 2)
    return scales if min(scales) < 1.0 else ()


def _slower(f: Fields, tokens: Sequence[float]) -> tuple[float, ...]:
    """Returns a scale for each angle. tokens: in which an unscaled one makes a radian."""
    newer, older = f.part("rope_parameters"), f.part("rope_scaling")
    of = newer or older
    if newer and older:
        f.refuse("rope_scaling", "rope_parameters say it")
    if of is None:
        return (1.0,) * len(tokens)
    kind = of.name("rope_type", KINDS, of.name("type", KINDS, "default"))
    scale = 1.0 if kind == "default" else 1.0 / of.number("factor", 0.0, 1.0, MOST_FACTOR)
    if kind != "llama3":
        return (scale,) * len(tokens)
    low, high = (of.number(f"{end}_freq_factor", 0.0, 2.0**-10, 2.0**20) for end in ("low", "high"))
    if not low < high:
        of.refuse("high_freq_factor", f"it must be more than low_freq_factor, {low:g}")
    first = of.integer("original_max_position_embeddings", MAX_STATED)
    shares = [min(max((first / (2.0 * pi * each) - low) / (high - low), 0.0), 1.0) for each in tokens]
    return tuple(share + (1.0 - share) * scale for share in shares)
