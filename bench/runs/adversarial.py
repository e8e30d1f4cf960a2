"""How far texts leave the calibrated intervals of a model: made-up ones, and those of a file. Largest excess
of each stage.

    python -m bench adversarial-texts [--model DIR] [--texts FILE] [--count 400] [--json FILE]

An excess is the distance from an interval's middle in half-widths; above 1 is outside. Texts are seeded:
random word pieces, one rare piece repeated, punctuation alone, letters of other alphabets, one long word,
the shipped words shuffled; each at several lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from bench.options import Lines, ModelFolder, lines_of
from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.console import write_report
from tacita.cli.options import Json, option
from tacita.data import DEFAULT_MODEL
from tacita.layouts.registry import LINEAR, QUADRATIC
from tacita.planning.calibrate.calibrate import Calibration, calibrate, load_texts
from tacita.planning.calibrate.calibrate import CalibrationOptions as Options
from tacita.planning.calibrate.excesses import excesses
from tacita.planning.calibrate.temper import tempered
from tacita.planning.calibrate.walk import Samples, walk
from tacita.texts.embed import Text, tokenize

TOKENS = 128
LENGTHS = (1, 3, 12, 40, 120)
PUNCTUATION = list("!?.,;:'\"()[]{}-/&$#@%*+=<>")
# first letter, how many: Greek, Cyrillic, Hebrew, Arabic, Devanagari, Hiragana, Chinese
ALPHABETS = (
    (0x0391, 24),
    (0x0410, 64),
    (0x05D0, 27),
    (0x0621, 26),
    (0x0905, 48),
    (0x3042, 80),
    (0x4E00, 3000),
)


def adversarial_texts(
    model: ModelFolder = DEFAULT_MODEL,
    texts: Lines = None,
    count: Annotated[int, option("--count", help="Texts of each kind.")] = 400,
    json: Json = None,
) -> None:
    """Show how far made-up texts, and those of a file, leave a model's calibrated intervals, by stage."""
    loaded = api.load(model)
    families: dict[str, list[Text]] = {kind: [*made] for kind, made in kinds(loaded, count).items()}
    families |= {"file": lines_of(texts)} if texts else {}
    report = {}
    for packing in ("rows", "batch"):
        found = calibrate(
            loaded, TOKENS, options=Options(row_estimates=QUADRATIC if packing == "batch" else LINEAR)
        )
        soft = tempered(loaded, found.temperatures)
        report[packing] = {kind: of_family(soft, found, some) for kind, some in families.items()}
        print(*_table(packing, report[packing]), sep="\n")
    write_report(json, report)


def of_family(model: Checkpoint, found: Calibration, texts: Sequence[Text]) -> dict[str, Any]:
    """Excesses of texts of one kind, the largest of each stage."""
    samples = Samples.of(model, TOKENS, texts, ())
    stages = excesses(walk(model, samples.at(range(len(texts))), len(texts), rows=found.row_estimates), found)
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
    assert model.tokenizer is not None
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


def _table(packing: str, report: dict[str, dict[str, Any]]) -> Iterator[str]:
    figures = [("texts", "outside"), next(iter(report.values()))["stages"]]
    yield f"{packing:<26}" + "".join(f"{kind[:14]:>16}" for kind in report)
    for name in figures[0]:
        yield f"{name:<26}" + "".join(f"{one[name]:>16}" for one in report.values())
    for stage in figures[1]:
        yield f"{stage:<26}" + "".join(f"{one['stages'][stage]:>16.3f}" for one in report.values())


def _accepted(model: Checkpoint, make: Callable[[int], str], count: int) -> Iterator[str]:
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
