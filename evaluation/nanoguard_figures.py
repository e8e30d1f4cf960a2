"""NanoGuard on our prompts: the product's float model beside the original's forward pass, with and without
what we leave out, and the two-party mode's integers beside floats.

    python evaluation/convert_nanoguard.py --wheel metatronnanoguard-0.1.0-py3-none-any.whl --output DIR
    unzip metatronnanoguard-0.1.0-py3-none-any.whl -d WHEEL
    python evaluation/nanoguard_figures.py --model DIR --original WHEEL --padded 120 --fixed 50

The original keeps cosines and sines in brain precision, and attends to 512 tokens whatever the text has. Both
are compared apart: "exact" is without them, "coarse" with the first, "padded" with both, seconds a prompt.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from convert_nanoguard import SIZES, weights
from nanoguard_reference import Original
from numpy.typing import NDArray
from prompts import prompts

from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.reference import reference
from tacita.planning.request import PlanRequest
from tacita.texts.embed import embedded, pad_hidden, tokenize
from tacita.two_party.arithmetic.fixed import FixedTensors
from tacita.two_party.planning import make_two_party_plan

Array = NDArray[np.float64]
PAD, FULL = 8189, 512  # the original's token, and tokens


def floats(model: Checkpoint, text: str) -> Array:
    """Logits of the product."""
    hidden = embedded(model, *tokenize(model, text))
    return np.asarray(reference(model, hidden, np.ones(len(hidden))).logits)


def compared(model: Checkpoint, original: Original, rows: list[tuple[str, str]], pad: bool) -> dict[str, Any]:
    """Largest difference of logits, labels that differ, labels as the prompts were made."""
    worst, other, right, alarms = 0.0, 0, 0, 0
    for text, kind in rows:
        ids = tokenize(model, text)[0]
        padded = ids + [PAD] * (FULL - len(ids)) if pad else ids
        theirs, ours = original.logits(padded, len(ids)), floats(model, text)
        worst = max(worst, float(np.abs(theirs - ours).max()))
        other += int(theirs.argmax() != ours.argmax())
        right += int(model.config.labels[int(ours.argmax())] == kind)
        alarms += int(model.config.labels[int(theirs.argmax())] == kind)
    return {"prompts": len(rows), "worst": worst, "other": other, "ours": right, "theirs": alarms}


def integers(model: Checkpoint, rows: list[tuple[str, str]], tokens: int) -> dict[str, Any]:
    """The two-party mode's integers beside floats, calibrated on the other prompts."""
    plan = make_two_party_plan(
        model, PlanRequest(tokens=tokens, texts=[text for text, _ in prompts("texts")])
    )
    worst, other, overflows = 0.0, 0, 0
    for text, _ in rows:
        hidden, mask = pad_hidden(embedded(model, *tokenize(model, text)), tokens)
        ops = FixedTensors(plan.formats, plan.bounds, Weights(model.tensors), mask)
        found, wanted = plan.run(ops, ops.input(hidden)).floats[0], floats(model, text)
        worst = max(worst, float(np.abs(found - wanted).max()))
        other += int(found.argmax() != wanted.argmax())
        overflows += sum(ops.overflows.values())
    return {"prompts": len(rows), "worst": worst, "other": other, "overflows": overflows}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--original", type=Path, required=True, help="the unpacked wheel")
    options.add_argument("--prompts", type=int, default=120)
    options.add_argument("--padded", type=int, default=0)
    options.add_argument("--fixed", type=int, default=0)
    options.add_argument("--tokens", type=int, default=32)
    args = options.parse_args()
    model, tensors = load(args.model), weights(args.original / "nanoguard" / "assets" / "model.pt")
    exact, coarse = (Original(SIZES, tensors, coarse=coarse) for coarse in (False, True))
    rows, found = prompts("test"), dict[str, Any]()
    found["exact"] = compared(model, exact, rows[: args.prompts], pad=False)
    found["coarse"] = compared(model, coarse, rows[: args.prompts], pad=False)
    if args.padded:
        found["padded"] = compared(model, coarse, rows[: args.padded], pad=True)
    if args.fixed:
        found["fixed"] = integers(model, rows[: args.fixed], args.tokens)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
