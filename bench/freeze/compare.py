"""Frozen figures against those of today: what may differ, and how far.

Counts, levels, bytes and rounds may be equal or lower, seconds equal within 1 % or lower, logits equal within
1e-6. Whatever no rule names must be the same. Some figures only explain others and are not judged: the
operations of a two-party session (its phases and the whole are), and the error that a plan expects of itself,
which is drawn from noise.

Figures that are worse than the frozen ones, each by how much and why, stand in KNOWN. They are shortfalls,
said again at every check: `worse, known`. Whatever is worse still is forbidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

SECONDS, LOGITS = 0.01, 1e-6
LOWER, QUICKER, NEAR, SAME, TOLD = "not higher", "within 1 %", "within 1e-6", "the same", "told only"
RULES = (  # the first pattern that matches the path of a figure
    ("stages/*/levels_*/*", LOWER),
    ("stages/*/counts/*", LOWER),
    ("stages/*/kinds/*", LOWER),
    ("stages/*/seconds", QUICKER),
    ("stages/*/bytes", LOWER),
    ("stages/*/bootstraps*", TOLD),
    ("totals/*", LOWER),
    ("rotation_keys", LOWER),
    ("re*/ciphertexts", LOWER),
    ("re*/levels_each/*", LOWER),
    ("seconds/*", QUICKER),
    ("bytes/*", LOWER),
    ("noise", TOLD),
    ("error*", TOLD),
    ("max_abs_error", TOLD),  # of frozen plans that had it in place of the bound
    ("estimate/seconds/*", QUICKER),
    ("estimate/*", LOWER),
    ("session/operations/*", TOLD),
    ("session/transfers/*", TOLD),
    ("session/*", LOWER),
    ("overflows", LOWER),
    ("logits/*", NEAR),
)


@dataclass(frozen=True)
class Difference:
    """A figure that is another one today. None stands for a figure that is not there."""

    path: str
    old: Any
    new: Any
    rule: str

    @property
    def wrong(self) -> bool:
        """Whether the rule forbids it."""
        return not _holds(self.rule, self.old, self.new)

    def __str__(self) -> str:
        return f"{self.path}: {self.old} -> {self.new} ({self.rule})"


def differences(old: Any, new: Any) -> list[Difference]:
    """All of them, in the order of their paths."""
    return list(_walk((), by_name(old), by_name(new)))


def by_name(facts: Any) -> Any:
    """Stages by name beside their order, their kinds of bootstraps as counts: so each figure has a path."""
    if not isinstance(facts, Mapping) or "stages" not in facts:
        return facts
    stages = {stage["name"]: {**stage, "kinds": _counted(stage["kinds"])} for stage in facts["stages"]}
    return {**facts, "stages": stages, "order": [stage["name"] for stage in facts["stages"]]}


def _counted(kinds: Sequence[str]) -> dict[str, int]:
    return {kind: kinds.count(kind) for kind in set(kinds)}


def _walk(path: tuple[str, ...], old: Any, new: Any) -> Iterator[Difference]:
    if path and path[-1].startswith("levels_") and isinstance(old, Mapping) and isinstance(new, Mapping):
        if len(new) > len(old):
            yield Difference("/".join(path), old, new, SAME)
            return
        old, new = (old, new) if set(new) <= set(old) else (_ranked(old), _ranked(new))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _walk((*path, key), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, pair in enumerate(zip(old, new, strict=True)):
            yield from _walk((*path, str(at)), *pair)
    elif old != new:
        name = "/".join(path)
        yield Difference(name, old, new, _rule(name))


def _ranked(levels: Mapping[str, int]) -> dict[str, int]:
    """Orders live tensors that have other names today by rank, the highest level first."""
    return {f"rank {at}": level for at, level in enumerate(sorted(levels.values(), reverse=True))}


def _rule(path: str) -> str:
    return next((rule for pattern, rule in RULES if fnmatchcase(path, pattern)), SAME)


def _holds(rule: str, old: Any, new: Any) -> bool:
    if rule == TOLD:
        return True
    if not (_number(old) and _number(new)):
        return rule == LOWER and _none_is_zero(old, new)
    limits = {LOWER: old, QUICKER: old * (1 + SECONDS)}
    return bool(abs(new - old) <= LOGITS) if rule == NEAR else rule in limits and new <= limits[rule]


def _none_is_zero(old: Any, new: Any) -> bool:
    """An operation that is not done any more, or one that is new, where its figure is a number."""
    if not all(value is None or _number(value) for value in (old, new)):
        return False
    return bool((new or 0) <= (old or 0))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


PROGRAM = (
    "the public part has the steps of both parties in place of the plan: more bytes of JSON, once a client"
)


@dataclass(frozen=True)
class Known:
    """most: what the figure may be. reason: why it is not lower."""

    most: float
    reason: str


# part -> path of the figure -> what is known of it
KNOWN: Mapping[str, Mapping[str, Known]] = {
    "sst2-two-party": {
        "session/phases/greeting/bytes_received": Known(4_100_700, PROGRAM),
        "session/whole/bytes_received": Known(39_858_300, PROGRAM),
    },
    "minilm-two-party": {
        "session/phases/greeting/bytes_received": Known(95_586_400, PROGRAM),
        "session/whole/bytes_received": Known(468_528_100, PROGRAM),
    },
}


def known(part: str, path: str, value: object) -> str:
    """Why a part's figure may be worse; empty where it may not."""
    found = KNOWN.get(part, {}).get(path)
    return found.reason if found and isinstance(value, int | float) and value <= found.most else ""
