"""ARION's shipped sentence and BERT-Tiny, encrypted by us: logits beside its float reference."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from laboratory import Laboratory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "unit"))


def main() -> None:
    import arion

    from tacita.api import describe
    from tacita.checkpoint import pad_hidden
    from tacita.plan.circuit import make_plan
    from tacita.plan.cost import Prices
    from tacita.plan.formulas import formula_prices

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--preset", default="n16")
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    if not arion.available():
        sys.exit(arion.MISSING)
    example = arion.load_example("sst2")
    hidden, mask = pad_hidden(example.hidden, args.tokens)
    info = describe(args.preset)
    prices = Prices.shipped(info.log_n) or formula_prices(info.log_n)
    plan = make_plan(example.checkpoint, info, prices, tokens=args.tokens, hidden_states=[(hidden, mask)])
    lab = Laboratory(plan, example.checkpoint, allow_insecure=args.preset != "n16")
    report = lab.run(hidden, mask).report()
    report["error_to_arions_reference"] = float(np.max(np.abs(np.array(report["logits"]) - example.logits)))
    text = json.dumps(report, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text)


if __name__ == "__main__":
    main()
