"""iDASH 2024 DASHformer, as published by gausslabs -> a Hugging Face-like folder and labelled sequences.

    python evaluation/convert_dashformer.py --output DIR [--data ../shared/data/gausslabs-idash-2024-solution]

`python -m bench dashformer --data DATA` converts for itself; this keeps the folder. What it writes:
tacita.checkpoint.dashformer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tacita.checkpoint.dashformer import convert

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "gausslabs-idash-2024-solution"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--output", type=Path, required=True)
    args = options.parse_args()
    convert(args.data, args.output)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
