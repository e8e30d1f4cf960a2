"""The frozen figures by name: one file each, that can be computed and compared alone.

Sums over the stages of a plan are written out in `totals`, so that they mean the same next year; their names
are those that `sim` counts. Files are for reading diffs: keys sorted, and each list or object that fits into
a line stands in one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.freeze import subject
from bench.freeze.subject import Facts
from bench.options import DATA
from bench.runs.stages import RELINEARISATIONS, ROTATIONS

SENTENCES = DATA / "sst2" / "validation.tsv"
DASHFORMER = DATA / "gausslabs-idash-2024-solution"
COUNT = 20  # sentences whose logits are frozen
SESSION_TEXTS = "a film of quiet beauty", "a waste of time , and the ending is worse"
CIPHERTEXT_PRODUCTS = "mul", "tensor", "outer"
PLAINTEXT_PRODUCTS = "mul_plain", "mul_lifted", "mul_scalar", "matmul"
WIDTH = 108


@dataclass(frozen=True)
class Part:
    """compute: the figures, as JSON data. needs: a file or folder outside the repository."""

    compute: Callable[[], Facts]
    needs: Path | None = None


def _planned(make: Callable[[str], Any], scheme: str, weights: str) -> Facts:
    facts = subject.plan_facts(make(scheme))
    return {**facts, "weights": weights, "prices": subject.prices_facts(), "totals": totals(facts["stages"])}


def _sst2_two_party() -> Facts:
    plan = subject.sst2_two_party()
    told = subject.session(plan, subject.sst2_tiny(), SESSION_TEXTS)
    return {**subject.two_party_facts(plan), "session": told, "weights": "models/sst2-tiny"}


def _minilm_estimate() -> Facts:
    return {**subject.two_party_facts(subject.minilm_two_party()), "weights": subject.MINILM_WEIGHTS}


def _minilm_session() -> Facts:
    told = subject.session(subject.minilm_two_party(), subject.minilm(), SESSION_TEXTS[:1])
    return {"session": told, "weights": subject.MINILM_WEIGHTS}


def _validation() -> tuple[list[str], str]:
    """The sentences, and what they are. Their licence keeps them out of the tree: a hash stands for them."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()[1 : COUNT + 1]
    texts = [line.rpartition("\t")[0].strip() for line in lines]
    return texts, f"the first {COUNT} of SST-2's validation set"


def _shipped() -> tuple[list[str], str]:
    return list(subject.shipped_texts(COUNT)), f"{COUNT} of the shipped calibration sentences, spread evenly"


def _logits(source: Callable[[], tuple[list[str], str]], make: Callable[[Sequence[str]], Facts]) -> Facts:
    """make: from the texts to logits by the name of what ran, and other figures."""
    texts, named = source()
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return {"sentences": {"source": named, "sha256": digest}, **make(texts)}


def _of_circuit(scheme: str) -> Callable[[Sequence[str]], Facts]:
    def made(texts: Sequence[str]) -> Facts:
        return {"logits": {name: subject.circuit_logits(scheme, texts, name) for name in ("sim", "plain")}}

    return made


def _of_float_and_fixed(texts: Sequence[str]) -> Facts:
    fixed, overflows = subject.fixed_logits(texts)
    return {"logits": {"float": subject.float_logits(texts), "fixed": fixed}, "overflows": overflows}


PARTS = {  # seconds each, of batches, MiniLM-L6 and sessions a minute or some
    **{
        f"sst2-{scheme}": Part(partial(_planned, subject.sst2_plan, scheme, "models/sst2-tiny"))
        for scheme in ("thor", "arion", "moai")
    },
    **{
        f"minilm-{scheme}": Part(partial(_planned, subject.minilm_plan, scheme, subject.MINILM_WEIGHTS))
        for scheme in ("thor", "arion")
    },
    "dashformer-arion": Part(
        partial(_planned, partial(subject.dashformer_plan, DASHFORMER), "arion", "published, converted"),
        DASHFORMER,
    ),
    "sst2-two-party": Part(_sst2_two_party),
    "minilm-estimate": Part(_minilm_estimate),
    "minilm-two-party": Part(_minilm_session),
    "logits-shipped": Part(lambda: _logits(_shipped, _of_float_and_fixed)),
    "logits-validation": Part(lambda: _logits(_validation, _of_float_and_fixed), SENTENCES),
    "logits-thor": Part(lambda: _logits(_validation, _of_circuit("thor")), SENTENCES),
    "logits-arion": Part(lambda: _logits(_validation, _of_circuit("arion")), SENTENCES),
}


def totals(stages: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Operations of one request without those inside bootstraps; bootstraps by kind of ciphertext."""
    counts: Counter[str] = Counter()
    for stage in stages:
        counts.update(stage["counts"])
    kinds = Counter(kind for stage in stages for kind in stage["kinds"])
    rotations, relinearised = (sum(counts[op] for op in ops) for ops in (ROTATIONS, RELINEARISATIONS))
    return {
        "bootstraps": kinds.total(),
        **{f"bootstraps_{kind}": count for kind, count in kinds.items()},
        "rotations": rotations,
        "key_switches": rotations + relinearised,
        "ciphertext_products": sum(counts[op] for op in CIPHERTEXT_PRODUCTS),
        "plaintext_products": sum(counts[op] for op in PLAINTEXT_PRODUCTS),
        **{f"all_{op}": count for op, count in counts.items()},
    }


def to_text(value: Any) -> str:
    """The file's content. Floats keep all their digits."""
    return _spread(value, 0) + "\n"


def _spread(value: Any, depth: int) -> str:
    """value: at this depth, from its opening bracket on."""
    line = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)
    if len(line) + depth <= WIDTH or not isinstance(value, list | Mapping):
        return line
    if isinstance(value, list):
        return _bracketed("[]", [_spread(item, depth + 1) for item in value], depth)
    items = [f"{json.dumps(key)}: {_spread(value[key], depth + 1)}" for key in sorted(value)]
    return _bracketed("{}", items, depth)


def _bracketed(brackets: str, items: list[str], depth: int) -> str:
    inside = ",\n".join(" " * (depth + 1) + item for item in items)
    return f"{brackets[0]}\n{inside}\n{' ' * depth}{brackets[1]}"
