"""How far texts leave the calibrated intervals of a model: made-up ones, and those of a file. Largest excess
of each stage.

    python evaluation/adversarial_texts.py [--model DIR] [--texts FILE] [--count 400] [--json FILE]

An excess is the distance from an interval's middle in half-widths; above 1 is outside. Texts are seeded:
random word pieces, one rare piece repeated, punctuation alone, letters of other alphabets, one long word,
random words shouted; each at several lengths.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.layouts.registry import LINEAR, QUADRATIC
from tacita.planning.calibrate.calibrate import calibrate, load_texts
from tacita.planning.calibrate.excesses import excesses
from tacita.planning.calibrate.row_estimates import Rows
from tacita.planning.calibrate.samples import Samples
from tacita.planning.calibrate.temper import tempered
from tacita.planning.calibrate.walk import walk
from tacita.texts.embed import tokenize

TOKENS = 128
LENGTHS = (1, 3, 12, 40, 120)
PUNCTUATION = list("!?.,;:'\"()[]{}-/&$#@%*+=<>")
ALPHABETS = (
    (0x0391, 24),
    (0x0410, 64),
    (0x05D0, 27),
    (0x0621, 26),
    (0x0905, 48),
    (0x3042, 80),
    (0x4E00, 3000),
)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", default=api.DEFAULT_MODEL)
    options.add_argument("--texts", type=Path, help="one a line; of a .tsv the first column")
    options.add_argument("--count", type=int, default=400, help="texts of each kind")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    model = api.load(args.model)
    families = {kind: list(texts) for kind, texts in kinds(model, args.count).items()}
    if args.texts:
        families["file"] = lines(args.texts)
    report = {}
    for packing in ("rows", "batch"):
        found = calibrate(model, TOKENS, row_estimates=QUADRATIC if packing == "batch" else LINEAR)
        soft = tempered(model, found.temperatures)
        report[packing] = {
            kind: of_family(soft, found.row_estimates, found, texts) for kind, texts in families.items()
        }
        show(packing, report[packing])
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def of_family(model: Checkpoint, rows: Rows, found, texts: list[str]) -> dict[str, object]:
    samples = Samples.of(model, TOKENS, texts, ())
    stages = excesses(walk(model, samples.at(range(len(texts))), len(texts), rows=rows), found)
    worst = np.max(list(stages.values()), axis=0)
    return {
        "texts": len(texts),
        "outside": int((worst > 1.0).sum()),
        "largest": float(worst.max()),
        "stages": {name: round(float(each.max()), 3) for name, each in stages.items()},
        "text": texts[int(worst.argmax())][:80],
    }


def kinds(model: Checkpoint, count: int) -> dict[str, Iterator[str]]:
    """Seeded texts of each kind that the tokenizer accepts, of LENGTHS pieces, words or letters."""
    rng = np.random.default_rng(0)
    pieces = [piece for piece in model.tokenizer.get_vocab() if not piece.startswith("[")]
    pieces = [piece.removeprefix("##") for piece in sorted(pieces)]
    shipped = sorted({word for text in load_texts() for word in text.split()})
    makers = {
        "random pieces": lambda n: " ".join(rng.choice(pieces, n)),
        "one piece repeated": lambda n: " ".join([str(rng.choice(pieces))] * n),
        "punctuation": lambda n: " ".join(rng.choice(PUNCTUATION, n)),
        "other alphabets": lambda n: _letters(rng, n),
        "one long word": lambda n: "".join(rng.choice(pieces, n)),
        "shipped words shuffled": lambda n: " ".join(rng.choice(shipped, n)),
    }
    return {kind: _accepted(model, make, count) for kind, make in makers.items()}


def lines(path: Path) -> list[str]:
    found = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [line.split("\t")[0] for line in found[1:]] if path.suffix == ".tsv" else found


def show(packing: str, report: dict[str, dict[str, object]]) -> None:
    stages = list(next(iter(report.values()))["stages"])
    print(f"{packing:<26}" + "".join(f"{kind[:14]:>16}" for kind in report))
    for name in ("texts", "outside"):
        print(f"{name:<26}" + "".join(f"{one[name]:>16}" for one in report.values()))
    for stage in stages:
        print(f"{stage:<26}" + "".join(f"{one['stages'][stage]:>16.3f}" for one in report.values()))


def _accepted(model: Checkpoint, make, count: int) -> Iterator[str]:
    made = 0
    while made < count:
        text = make(LENGTHS[made % len(LENGTHS)])
        if len(tokenize(model, text)[0]) <= TOKENS:
            yield text
            made += 1


def _letters(rng: np.random.Generator, n: int) -> str:
    first, size = ALPHABETS[int(rng.integers(len(ALPHABETS)))]
    letters = [chr(first + int(i)) for i in rng.integers(size, size=n)]
    return " ".join("".join(letters[at : at + 5]) for at in range(0, n, 5))


if __name__ == "__main__":
    main()
