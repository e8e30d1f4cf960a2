"""Every layer's output, encrypted at 128-bit security, beside the float reference: issue point "layers within
0.01"."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from laboratory import Laboratory

from tacita.api import DEFAULT_MODEL, load, plan
from tacita.checkpoint import embed

SENTENCES = (
    "a film of quiet beauty , and the ending stayed with me for days",
    "the plot makes no sense and the jokes are worse",
    "it is neither good nor bad , just long",
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", type=Path, default=DEFAULT_MODEL)
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--limit", type=int, default=1)
    options.add_argument("--data", type=Path, help="a .tsv file instead of the built-in sentences")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    texts = list(SENTENCES)
    if args.data:
        texts = [line.split("\t")[0] for line in args.data.read_text().splitlines()[1:]]
    model = load(args.model)
    lab = Laboratory(plan(model, tokens=args.tokens), model)
    runs = [lab.run(*embed(model, text, args.tokens)).report() for text in texts[: args.limit]]
    text = json.dumps(runs, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text)


if __name__ == "__main__":
    main()
