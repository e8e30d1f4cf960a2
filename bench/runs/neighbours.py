"""Whose nearest document changes between the float model's vectors and those that a client shows, and why.

    python -m bench neighbours --model DIR --texts dev.tsv --documents train.tsv --asked 248

The `--asked` texts and the first `--of` documents are different sentences; documents are embedded by the
float model. Vectors are those of `bench noise-margins --unseen`: the float model's with the circuit's
approximations, noise of `--inputs` texts on `sim`, rounded as a client does. `same` counts the texts whose
nearest document stays: by approximations alone, with noise, as shown, and with the steps of `--steps`, in
multiples of the noise (the plan's is 64 to 90). Of each text that changes, `gap`: by how much the nearest
document's cosine exceeds the one's that took its place, `moved`: by how much their difference changed,
`margin`: the same gap over the distance of both documents, which is how far the vector may move, and
`likeness`: the cosine of both documents. Texts outside their intervals, of which a client is told, are left
out. Nothing is encrypted. Prints lines of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import tacita
from bench.options import ModelFolder, emit_rows, lines_of
from bench.runs.families import short
from bench.runs.margins import Circuit, Functions, noises
from tacita import api
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.reference import reference
from tacita.cli.options import option
from tacita.packings.approximated import approximated
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.temper import tempered
from tacita.plans.answers import rounding_step
from tacita.plans.plan import Plan

TOKENS = 64
STEPS = (32.0, 16.0, 8.0)
Array = NDArray[np.float64]


def neighbours(
    model: ModelFolder,
    texts: Annotated[Path, option("--texts", help="Lines, or a table's first column.")],
    documents: Annotated[Path, option("--documents", help="The same.")],
    asked: Annotated[int, option("--asked", help="Texts.")] = 248,
    of: Annotated[int, option("--of", help="Documents.")] = 1000,
    inputs: Annotated[int, option("--inputs", help="Texts whose noise is measured.")] = 8,
    steps: Annotated[list[float] | None, option("--steps", help="Times the noise; may be several.")] = None,
    packing: Annotated[str, option("--packing", help="Of ciphertexts.")] = "multidiagonal",
    functions: Functions = "thor",
) -> None:
    """Count texts whose nearest document changes, by approximations, noise or rounding; nothing encrypted."""
    loaded = tacita.load(model)
    chosen = list(islice(short(loaded, lines_of(texts), TOKENS), asked))
    plan = Circuit(packing, functions).plan(loaded, chosen, None)
    others = (text for text in short(loaded, lines_of(documents), plan.tokens) if text not in {*chosen})
    seen = list(vectors(plan, loaded, chosen, noises(plan, loaded, chosen[:inputs])))
    known = Documents.of(plan, loaded, list(islice(others, of)))
    emit_rows(known.changes(seen))
    emit_rows([summary(plan, known, seen, steps or STEPS)])


@dataclass(frozen=True)
class Seen:
    """A text's vectors of length 1: the float model's, with approximations, with noise besides, and as shown.
    step: of what is shown."""

    text: str
    wanted: Array
    near: Array
    noisy: Array
    step: float

    def shown(self, factor: float = 1.0) -> Array:
        """In multiples of the step times a factor."""
        size = self.step * factor
        return np.asarray(np.round(self.noisy / size) * size)


def vectors(plan: Plan, model: Checkpoint, texts: Sequence[str], noise: Sequence[Array]) -> Iterator[Seen]:
    soft = tempered(model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    for number, text in enumerate(texts):
        sample = embed(model, text, plan.tokens)
        found, wanted = approximated(soft, specs, *sample), reference(model, *sample, all_rows=False)
        if found.outside:  # the client is told, and the polynomials mean nothing
            continue
        noisy = unit(found.answer + noise[number % len(noise)])
        step = rounding_step(plan, noisy * np.linalg.norm(wanted.trace["answer"]))
        yield Seen(text, unit(wanted.logits), unit(found.answer), noisy, step)


def unit(vector: Array) -> Array:
    return np.asarray(vector / np.linalg.norm(vector))


@dataclass(frozen=True)
class Documents:
    """texts; vectors: (texts, features), of length 1."""

    texts: Sequence[str]
    vectors: Array

    @classmethod
    def of(cls, plan: Plan, model: Checkpoint, texts: Sequence[str]) -> Documents:
        return cls(texts, np.array([unit(api.reference_logits(plan, model, text)) for text in texts]))

    def nearest(self, vector: Array) -> int:
        return int(np.argmax(self.vectors @ vector))

    def changes(self, seen: Sequence[Seen]) -> Iterator[dict[str, Any]]:
        """Yields the figures of each text that gets another nearest document."""
        for one in seen:
            first, second = self.nearest(one.wanted), self.nearest(one.shown())
            if first != second:
                apart = self.vectors[first] - self.vectors[second]
                gap = float(apart @ one.wanted)
                moved = [one.near - one.wanted, one.noisy - one.near, one.shown() - one.noisy]
                causes = zip(("approximations", "noise", "rounding"), moved, strict=True)
                yield {
                    **{"text": one.text, "documents": [self.texts[first], self.texts[second]]},
                    **{"gap": gap, "moved": -float(apart @ (one.shown() - one.wanted))},
                    **{name: -float(apart @ change) for name, change in causes},
                    **{"margin": gap / float(np.linalg.norm(apart)), "step": one.step},
                    **{"likeness": float(self.vectors[first] @ self.vectors[second])},
                }


def summary(plan: Plan, documents: Documents, seen: Sequence[Seen], steps: Sequence[float]) -> dict[str, Any]:
    """How many nearest documents stay, and the least cosine, by what is done to the float model's vectors."""
    ratio = plan.step / plan.noise
    kinds = {
        "approximations": [one.near for one in seen],
        "with noise": [one.noisy for one in seen],
        "shown": [one.shown() for one in seen],
        **{f"step {size:g}": [one.shown(size / ratio) for one in seen] for size in steps},
    }
    wanted = [documents.nearest(one.wanted) for one in seen]
    found: dict[str, Any] = {"within": len(seen)}
    found |= {
        "noise": plan.noise,
        "step": plan.step,
        "steps": [min(s.step for s in seen), max(s.step for s in seen)],
    }
    for name, each in kinds.items():
        same = sum(documents.nearest(v) == w for v, w in zip(each, wanted, strict=True))
        least = min(float(unit(v) @ one.wanted) for v, one in zip(each, seen, strict=True))
        found[name] = {"same": same, "cosine": least}
    gaps = np.array([np.subtract(*np.sort(documents.vectors @ one.wanted)[:-3:-1]) for one in seen])
    return found | {"gaps": [float(gap) for gap in np.sort(gaps)[:10]]}
