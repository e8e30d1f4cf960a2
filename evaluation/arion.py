"""ARION's shipped sentence and BERT-Tiny, encrypted by us: logits beside its float reference.

There is one sentence for these weights. Intervals come from perturbed and re-ordered copies of its token
vectors, never from itself; the report says how far it lies in them (`largest_excess`, below 1 is inside).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from laboratory import Laboratory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "unit"))


def main() -> None:
    import arion

    from tacita.api import classify_locally, describe
    from tacita.checkpoint import pad_hidden
    from tacita.planning.pipeline import make_plan
    from tacita.planning.request import PlanRequest
    from tacita.plans.prices.cost import Prices
    from tacita.plans.prices.formulas import formula_prices

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--preset", default="n16")
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--copies", type=int, default=64, help="perturbed inputs to calibrate on")
    options.add_argument("--noise", type=float, default=0.25, help="of each feature's standard deviation")
    options.add_argument("--plan-only", action="store_true", help="run on sim, without keys and encryption")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    if not arion.available():
        sys.exit(arion.MISSING)
    example = arion.load_example("sst2")
    hidden, mask = pad_hidden(example.hidden, args.tokens)
    info = describe(args.preset)
    prices = Prices.shipped(info.log_n) or formula_prices(info.log_n)
    copies = [pad_hidden(h, args.tokens) for h in arion.perturbed(example.hidden, args.copies, args.noise)]
    request = PlanRequest(preset=args.preset, prices=prices, tokens=args.tokens, hidden_states=copies)
    plan = make_plan(example.checkpoint, request)
    excess = excess_of(plan, example.checkpoint, hidden, mask)
    if args.plan_only:
        answer = classify_locally(plan, example.checkpoint, hidden_states=example.hidden, backend="sim")
        error = np.max(np.abs(np.array(answer.anyway.logits) - example.logits))
        print(json.dumps({"largest_excess": excess, "error_to_arions_reference": float(error)}, indent=1))
        return
    lab = Laboratory(plan, example.checkpoint, allow_insecure=args.preset != "n16")
    report = lab.run(hidden, mask).report() | {"largest_excess": excess}
    report["error_to_arions_reference"] = float(np.max(np.abs(np.array(report["logits"]) - example.logits)))
    text = json.dumps(report, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text)


def excess_of(plan: Any, model: Any, hidden: np.ndarray, mask: np.ndarray) -> float:
    """Of the sentence over the plan's intervals."""
    from tacita.planning.calibrate.calibrate import Calibration
    from tacita.planning.calibrate.excesses import largest_excess
    from tacita.planning.calibrate.temper import tempered
    from tacita.planning.calibrate.walk import walk

    found = Calibration.from_dict(plan.circuit["calibration"])
    soft = tempered(model, found.temperatures)
    return float(largest_excess(walk(soft, [(hidden, mask)], 1, rows=found.row_estimates), found)[0])


if __name__ == "__main__":
    main()
