"""`python -m bench dashformer-functions`, and which of DASHformer's sequences calibrate and which are
measured: never the same. The model is the one that gausslabs published for iDASH 2024.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.models.dashformer import LIST, SEQUENCES, WEIGHTS, convert, is_published
from bench.options import DATA, lines_of
from tacita.approx import exp
from tacita.approx.spec import Spec, free_depth
from tacita.checkpoint import embed, load
from tacita.checkpoint.reference import reference
from tacita.cli.options import option
from tacita.errors import InputError
from tacita.packings.approximated import approximated
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.calibrate.temper import tempered
from tacita.planning.fitting import Accuracy, fit_circuit
from tacita.texts.answer import softmax

Array = NDArray[np.float64]
TOKENS = 50  # amino acids of a sequence
PUBLISHED = DATA / "gausslabs-idash-2024-solution"
FIRST, LAST = 256, 456  # sequences 257 to 456 of the file calibrate
HINT = "python -m bench dashformer --data DIR, with the DASHformer that gausslabs published for iDASH 2024"

Sequences = Annotated[
    Path | None, option("--data", help="The published data, or a folder with sequences.tsv.")
]
Converted = Annotated[Path | None, option("--model", help="Converted folder (default: made from --data).")]

T = TypeVar("T")


def split(examples: Sequence[T]) -> tuple[list[T], list[T]]:
    """(measured, calibrating): the first 256 and those from the 457th on are measured. Raises InputError for
    fewer than 456."""
    if len(examples) < LAST:
        raise InputError(
            f"bench dashformer: {len(examples)} sequences, those from {FIRST + 1} to {LAST} calibrate",
            hint="the whole example_AA_sequences.list, or what was converted from it",
        )
    return [*examples[:FIRST], *examples[LAST:]], list(examples[FIRST:LAST])


@contextmanager
def dashformer_folder(model: Path | None, data: Path | None) -> Iterator[tuple[Path, Path]]:
    """(model folder, file of sequences). Published data are converted for as long as the block lasts.

    model: a converted folder. data: the published data, or a folder with sequences.tsv (default: the
    model's). Raises InputError for folders that are neither, CheckpointError for damaged data.
    """
    if data is not None and is_published(data):
        with tempfile.TemporaryDirectory(prefix="tacita-dashformer-") as folder:
            made = convert(data, Path(folder) / "dashformer")
            yield model or made, made / SEQUENCES
        return
    sequences = (data or model or Path()) / SEQUENCES
    if data is not None and not sequences.is_file():
        raise InputError(f"{data}: has neither {WEIGHTS}/ and {LIST} nor {SEQUENCES}", hint=HINT)
    if model is None:
        raise InputError("bench dashformer: no model", hint=HINT)
    yield model, sequences


def dashformer_functions(
    model: Converted = None,
    data: Sequences = None,
    relu: Annotated[float, option("--relu", help="Root-mean-square error of ReLU.")] = Accuracy().relu,
    chosen_on: Annotated[
        bool, option("--chosen-on", help="On the sequences that calibrate, by which an accuracy is chosen.")
    ] = False,
) -> None:
    """What each approximation costs DASHformer's probabilities, alone and all together, on sequences that
    took no part in calibration: float64, nothing encrypted. A sequence that leaves its intervals, of which a
    client is told, is left out."""
    with dashformer_folder(model, data) as (folder, sequences):
        loaded, (measured, calibrating) = load(folder), split(lines_of(sequences))
    calibration = calibrate(loaded, TOKENS, calibrating)
    specs = fit_circuit(calibration, loaded.config, Accuracy(relu=relu))
    soft = tempered(loaded, calibration.temperatures)
    samples = [embed(loaded, text, TOKENS) for text in (calibrating if chosen_on else measured)]
    exact = softmax(np.array([reference(loaded, *sample).logits for sample in samples]))
    fitted = functions_of(specs)
    for names in (*((name,) for name in fitted), tuple(fitted)):
        some = with_exact(specs, set(names))
        answers = [approximated(soft, some, *sample) for sample in samples]
        inside = np.array([not answer.outside for answer in answers])
        found = softmax(np.array([answer.answer for answer in answers])[inside])
        print(_line(" ".join(names), [fitted[name] for name in names], found, exact[inside]))


@dataclass(frozen=True)
class Exact:
    """A function as it is, in the place of its approximation."""

    numpy: Callable[[Array], Array]
    domain: tuple[float, float] = (-np.inf, np.inf)


EXACT = {
    "exp": Exact(exp.exact),
    "inverse": Exact(lambda x: 1.0 / x),
    "rsqrt": Exact(lambda x: 1.0 / np.sqrt(x)),
    "function": Exact(lambda x: np.maximum(x, 0.0)),  # of DASHformer
}


def functions_of(specs: CircuitSpecs) -> dict[str, Spec]:
    """Node and field -> the approximation."""
    return {
        f"{name}.{field}": getattr(node, field)
        for name, node in specs.nodes.items()
        for field in EXACT
        if getattr(node, field, None) is not None
    }


def with_exact(specs: CircuitSpecs, kept: set[str]) -> CircuitSpecs:
    """Every function as it is, but for those that are kept."""
    nodes: dict[str, Any] = dict(specs.nodes)
    for name in functions_of(specs).keys() - kept:
        node, _, field = name.rpartition(".")
        spec, exact = getattr(nodes[node], field), EXACT[field]
        if isinstance(spec, exp.PowerSpec):
            exact = Exact(partial(exp.exact, shift=spec.shift))
        nodes[node] = replace(nodes[node], **{field: exact})
    return replace(specs, nodes=nodes)


def _line(name: str, specs: list[Spec], found: Array, exact: Array) -> str:
    error = np.abs(found - exact).max(axis=1)
    agreement = np.mean(found.argmax(axis=1) == exact.argmax(axis=1))
    depth, products = sum(free_depth(s) for s in specs), sum(s.multiplications() for s in specs)
    worst = f"largest {error.max():.1e}, 99 % below {np.quantile(error, 0.99):.1e}"
    figures = f"depth {depth:2d}, {products:2d} products: {worst}, same class {100 * agreement:.1f} %"
    return f"{name:30s} {figures}, of {len(found)} inside their intervals"
