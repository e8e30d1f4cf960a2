"""What rows kept as ciphertexts save: a step of `tacita generate --cache` beside the whole text anew, as
planned, and its logits beside floats.

    python evaluation/kept_rows.py --tokens 32 --steps 6 --backend sim

Prompts are read row by row (docs/decisions/0038). Nothing is encrypted.
"""

from __future__ import annotations

import argparse

import numpy as np

import tacita
from tacita.checkpoint import Checkpoint
from tacita.data import DEFAULT_DECODER
from tacita.generation.cached import cached_in_the_clear
from tacita.generation.clear import Floats
from tacita.planning.calibrate.calibrate import texts_for
from tacita.plans.plan import Plan
from tacita.schemes.base import CLEAR
from tacita.texts.embed import embedded, tokenize


def main() -> None:
    """See the module."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--model", default=DEFAULT_DECODER)
    options.add_argument("--preset", default="n16")
    options.add_argument("--tokens", type=int, default=32)
    options.add_argument("--steps", type=int, default=6)
    options.add_argument("--texts", type=int, help="to calibrate on, all by default")
    options.add_argument("--backend", choices=sorted(CLEAR), default="sim")
    options.add_argument("--text", default="Elizabeth could not help thinking that it was all over with him")
    given = options.parse_args()
    model = tacita.load(given.model)
    texts = [str(text) for text in texts_for(model)][: given.texts]
    common = {"scheme": "thor", "tokens": given.tokens, "preset": given.preset, "texts": texts}
    anew, step = (tacita.plan(model, cache=cache, **common) for cache in (False, True))
    assert isinstance(anew, Plan) and isinstance(step, Plan)
    for what, plan in (("whole text", anew), ("a step", step)):
        print(f"{what}: {plan.predicted_seconds():.1f} s planned, {plan.bootstraps} bootstraps")
    print("kept at levels", {tensor.name: tensor.level for tensor in step.kept})
    walk(model, step, given.backend, tokenize(model, given.text)[0][: given.steps])


def walk(model: Checkpoint, plan: Plan, backend: str, ids: list[int]) -> None:
    """Reads these tokens one by one, beside the float model."""
    floats, ask = Floats(model), cached_in_the_clear(plan, model, backend)
    rows = embedded(model, ids, [0] * len(ids))
    for place in range(len(ids)):
        wanted = floats.logits(rows[place : place + 1], np.ones(place + 1))
        answer = ask(rows[: place + 1])
        logits = answer.anyway.vector
        off, same = float(np.max(np.abs(logits - wanted))), logits.argmax() == wanted.argmax()
        print(f"token {place}: logits within {off:.4f}, same token {same}, trusted {answer.trusted}")


if __name__ == "__main__":
    main()
