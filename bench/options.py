"""Options that several benches share, and how a bench says its figures: JSON, Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from tacita.api import DEFAULT_MODEL
from tacita.cli.columns import read_labelled, texts_of, whole
from tacita.cli.console import reporting
from tacita.cli.options import option, spelled
from tacita.plans.prices.cost import Prices
from tacita.settings import BackendName, PackingName, PlanOptions, PoolingName
from tacita.texts.embed import Text

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"  # that a clone may come without

ModelFolder = Annotated[Path, option("--model", help="Folder of a model, or a shipped one's name.")]
AnyModel = Annotated[Path | None, option("--model", help="Folder of a model (default: the shipped one).")]
Lines = Annotated[Path | None, option("--texts", help="Texts, one a line, or a .tsv file.")]
Wheel = Annotated[Path, option("--wheel", help="As `pip download --no-deps` brings it.")]
Output = Annotated[Path, option("--output", help="Folder to write.")]
Layers = Annotated[int | None, option("--layers", help="The first so many.", min=1)]
Backend = Annotated[BackendName, option("--backend", help="plain and sim encrypt nothing.")]
Keep = Annotated[Path | None, option("--work", help="Keep plan, keys and ciphertexts here.")]
WeightFolder = Annotated[
    Path | None, option("--folder", help="Of a shape: its weights in half precision, made if not there.")
]
PeerPython = Annotated[Path, option("--python", help="Python of an environment of its own.")]

# Settings that benches take from the line alone.
Model = Annotated[Path, spelled("plan", "model")]
Pooling = Annotated[PoolingName | None, spelled("plan", "pooling")]
Packing = Annotated[PackingName | None, spelled("plan", "packing")]
Inputs = Annotated[int | None, spelled("plan", "inputs")]
Tokens = Annotated[int, spelled("plan", "tokens")]
Preset = Annotated[str, spelled("plan", "preset")]
PriceFile = Annotated[Path | None, spelled("plan", "prices")]
Begin = Annotated[str, spelled("plan", "begin")]
Threads = Annotated[int, spelled("run", "threads")]
Memory = Annotated[float, spelled("run", "memory")]
Device = Annotated[str, spelled("run", "device")]
Insecure = Annotated[bool, spelled("run", "allow_insecure")]
MODEL_DEFAULT, PRESET_DEFAULT = DEFAULT_MODEL, PlanOptions().preset


def emit(figures: Any, path: Path | None = None) -> None:
    """Prints figures as JSON, and writes them to the file of `--json`. Raises FileError."""
    with reporting(path, figures):
        print(json.dumps(figures, indent=1), flush=True)


def emit_rows(rows: Iterable[Any]) -> None:
    """Prints a line of JSON for each row, as soon as it is there."""
    for row in rows:
        print(json.dumps(row), flush=True)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a table.

    >>> list(markdown(["a", "b"], [(1, 2)]))
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def shipped_prices(log_n: int = 16) -> Prices:
    """Returns the package's price table of a ring, which is there for all secure ones."""
    prices = Prices.shipped(log_n)
    assert prices is not None
    return prices


def lines_of(file: Path) -> list[Text]:
    """Returns the lines of a file that are not blank, stripped; of a .tsv file the texts, or the pairs, that
    its header names."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return texts_of(lines) if file.suffix == ".tsv" else [line.strip() for line in lines if line.strip()]


def read_examples(path: Path) -> list[tuple[Text, int]]:
    """Reads the (text, label) pairs of a file. Raises InputError naming the first malformed line."""
    return [(line.text, int(line.label)) for line in whole(path, read_labelled(path))]
