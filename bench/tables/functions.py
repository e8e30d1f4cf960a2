"""Writes docs/papers.md's table of functions: the papers' constants and our refits on the default model's
intervals.

    python -m bench functions [--model DIR] [--tokens 128] [--write]

Without --write the table is printed. Intervals are those of the shipped sentences; errors are measured on
them, for each layer, and the largest is given. "Logits" rows run the float model with each variant's
functions on the same sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from bench.options import ModelFolder, Tokens
from bench.tables import pages, statistical_max
from bench.tables.statistical_max import shift_cost
from tacita.approx import exp, fit, inverse, rsqrt
from tacita.approx.activations import gelu
from tacita.approx.poly import chebyshev_spec, series_depth, series_multiplications
from tacita.approx.spec import Spec, free_depth
from tacita.approx.variants import arion, moai
from tacita.approx.variants.functions import FITS, Functions
from tacita.checkpoint import Checkpoint, embed, load
from tacita.checkpoint.reference import reference
from tacita.cli.options import TOKENS_DEFAULT, option
from tacita.data import DEFAULT_MODEL
from tacita.packings.approximated import approximated
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import calibrate, load_texts
from tacita.planning.calibrate.calibration import (
    AttentionCalibration,
    Calibration,
    FunctionCalibration,
    NormCalibration,
)
from tacita.planning.fitting import fit_circuit
from tacita.texts.embed import tokenize

POINTS = 20001
TANH = "pooler.tanh"
Array = NDArray[np.float64]
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Measured:
    """A way to compute a function: depth and products at the free scale, largest error over all layers."""

    what: str
    depth: int | None
    products: int | None
    error: float


def functions(
    model: ModelFolder = DEFAULT_MODEL,
    tokens: Tokens = TOKENS_DEFAULT,
    write: Annotated[bool, option("--write", help="Into docs/papers.md, in place of printing it.")] = False,
) -> None:
    """Both papers' functions, as printed and refitted, on a model's intervals: for docs/papers.md."""
    loaded, texts = load(model), load_texts()
    samples = [embed(loaded, text, len(tokenize(loaded, text)[0])) for text in texts]
    table = list(lines(loaded, calibrate(loaded, tokens, texts), samples))
    pages.write(pages.DOCS / "papers.md", "functions", table) if write else print(*table, sep="\n")


def lines(
    model: Checkpoint, calibration: Calibration, samples: Sequence[tuple[Array, Array]]
) -> Iterator[str]:
    """Markdown."""
    specs = {name: fit_circuit(calibration, model.config, functions=Functions.of(name)) for name in FITS}
    yield (
        "| function, error | paper | the paper's constants: depth, products, error | refitted: depth, "
        "products, error | ours by default |"
    )
    yield "|---|---|---|---|---|"
    for title, paper, fixed, fitted, default in rows(calibration, model.config.hidden, specs):
        yield f"| {title} | {paper} | {_cell(fixed)} | {_cell(fitted)} | {_cell(default)} |"
    yield from shift_lines(model, calibration, samples)
    yield ""
    yield (
        f"Largest error of a logit over the {len(samples)} sentences, all functions of one variant, no "
        "encryption: "
        + ", ".join(
            f"{name} {max(_logit_error(model, s, x) for x in samples):.4f}" for name, s in specs.items()
        )
    )


Row = tuple[str, str, Measured, Measured, Measured]


def rows(calibration: Calibration, features: int, specs: dict[str, CircuitSpecs]) -> Iterator[Row]:
    scored = [calibration.attention(name) for name in named(calibration, "attention")]

    def ours(end: str, field: str, variant: str) -> Measured:
        return _fitted([getattr(specs[variant].nodes[name], field) for name in named(calibration, end)])

    default = ours("attention", "exp", "tacita")
    yield "exp, absolute", "MOAI", moai_exp(scored), ours("attention", "exp", "moai"), default
    yield "exp, absolute", "ARION", arion_exp(scored), ours("attention", "exp", "arion"), default
    default = ours("attention", "inverse", "tacita")
    yield "1/x, relative", "MOAI", moai_inverse(scored), ours("attention", "inverse", "moai"), default
    yield "1/x, relative", "ARION", arion_inverse(scored), ours("attention", "inverse", "arion"), default
    for end in ("norm1", "norm2"):
        title, default = f"1/sqrt(x), LayerNorm {end[-1]}, relative", ours(end, "rsqrt", "tacita")
        norms = [calibration.norm(name) for name in named(calibration, end)]
        yield title, "MOAI", moai_rsqrt(norms, end, features), ours(end, "rsqrt", "moai"), default
        yield title, "ARION", arion_rsqrt(norms, end), ours(end, "rsqrt", "arion"), default
    inner = [calibration.function(name) for name in named(calibration, "feed_forward")]
    default = ours("feed_forward", "function", "tacita")
    yield "GELU, absolute", "MOAI", moai_gelu(inner), ours("feed_forward", "function", "moai"), default
    yield "GELU, absolute", "ARION", arion_gelu(inner), ours("feed_forward", "function", "arion"), default
    wide = (-61.0, 108.0)
    found = {name: FITS[name]["gelu"](wide, 2e-2) for name in FITS}
    title = "GELU on BERT-base's [-61, 108], absolute"
    yield (
        title,
        "MOAI",
        _series("tanh(p(x)), degree 23 on [-20, 10]", *_tanh_gelu(wide), 3, 3),
        _one(found["moai"]),
        _one(found["tacita"]),
    )
    at = _series_error(gelu.exact, (-61.0, 136.0), 255, wide)
    yield (
        title,
        "ARION",
        _series("degree 255 on [-61, 136]", 255, at),
        _one(found["arion"]),
        _one(found["tacita"]),
    )
    if TANH in calibration.nodes:
        top = _one(specs["tacita"].function(TANH).function)
        at = _series_error(np.tanh, (-10.0, 10.0), 63, calibration.function(TANH).argument)
        yield "tanh, absolute", "ARION", _series("degree 63 on [-10, 10]", 63, at), top, top


def named(calibration: Calibration, end: str) -> list[str]:
    """Nodes with this last part of their name, layer by layer."""
    return [name for name in calibration.nodes if name.endswith(f".{end}")]


def moai_exp(layers: Sequence[AttentionCalibration]) -> Measured:
    found = [moai.limit(c.scores, 7, shift=c.shift) for c in layers]
    errors = [_worst(s.numpy, partial(exp.exact, shift=s.shift), s.interval) for s in found]
    return Measured("(1 + x/128)^128", free_depth(found[0]), found[0].multiplications(), max(errors))


def arion_exp(layers: Sequence[AttentionCalibration]) -> Measured:
    error = max(_series_error(np.exp, (-60.0, 15.0), 44, (c.scores[0] - c.shift, 0.0)) for c in layers)
    return _series("degree 44 on [-60, 15]", 44, error)


def moai_inverse(layers: Sequence[AttentionCalibration]) -> Measured:
    """b = prod (1 + e^(2^i)), e = 1 - x for x in (0, 2): the sums of exp, shifted so that they lie there."""
    least = min(c.means[0][0] / c.means[0][1] for c in layers)
    return Measured("16 steps on (0, 2)", 17, 2 * 16 - 2, (1.0 - least) ** (2.0**17))


def arion_inverse(layers: Sequence[AttentionCalibration]) -> Measured:
    """On the sums, which is what the paper's circuit sees."""
    domain = (0.02, 400.0)
    spec = arion.series_spec(domain, domain, 255, 2)
    error = max(_worst(spec.numpy, inverse.exact, c.sums, relative=True) for c in layers)
    return Measured("degree 255 on [0.02, 400], 2 steps", free_depth(spec), spec.multiplications(), error)


def moai_rsqrt(layers: Sequence[NormCalibration], key: str, features: int) -> Measured:
    """Their one line; the input is features * variance after attention (equation 5), the variance after
    feed-forward (6)."""
    factor = float(features) if key == "norm1" else 1.0

    def theirs(v: Array) -> Array:
        x = factor * v
        y = -1.29e-4 * x + 0.129
        for _ in range(6):
            y = 0.5 * y * (3.0 - x * y * y)
        return y * math.sqrt(factor)

    error = max(_worst(theirs, rsqrt.exact, c.variance, relative=True) for c in layers)
    return Measured("line, 4 Newton, 2 Goldschmidt", 1 + 2 * 4 + 1 + 2 * 2, 3 * 6, error)


def arion_rsqrt(layers: Sequence[NormCalibration], key: str) -> Measured:
    """Plain Newton steps after their series for BERT-Tiny."""
    domain = (0.01, 6.0) if key == "norm1" else (0.1, 2000.0)
    start = chebyshev_spec("rsqrt", rsqrt.exact, domain, domain, 31)

    def theirs(v: Array) -> Array:
        y = start.numpy(v)
        for _ in range(2):
            y = 0.5 * y * (3.0 - v * y * y)
        return y

    error = max(_worst(theirs, rsqrt.exact, c.variance, relative=True) for c in layers)
    what = f"degree 31 on [{domain[0]:g}, {domain[1]:g}], 2 Newton"
    return Measured(what, free_depth(start) + 4, start.multiplications() + 6, error)


def moai_gelu(layers: Sequence[FunctionCalibration]) -> Measured:
    return _series(
        "tanh(p(x)), degree 23 on [-20, 10]", 23, max(_tanh_gelu(c.argument)[1] for c in layers), 3, 3
    )


def _tanh_gelu(interval: fit.Interval) -> tuple[int, float]:
    """(degree, error) of x (1 + P(p(x))) / 2 with P ~ tanh."""
    series = fit.remez(np.tanh, (-20.0, 10.0), 23)
    inner = math.sqrt(2.0 / math.pi)
    return 23, _worst(lambda x: 0.5 * x * (1.0 + series(inner * (x + 0.044715 * x**3))), gelu.exact, interval)


def arion_gelu(layers: Sequence[FunctionCalibration]) -> Measured:
    error = max(_series_error(gelu.exact, (-61.0, 136.0), 255, c.argument) for c in layers)
    return _series("degree 255 on [-61, 136]", 255, error)


def shift_lines(
    model: Checkpoint, calibration: Calibration, samples: Sequence[tuple[Array, Array]]
) -> Iterator[str]:
    """The constant shift, ARION's statistical maximum and ours: where shifted scores and log row sums lie."""
    rows = [(mask, reference(model, *x).trace) for x in samples for mask in [x[1]]]
    yield ""
    yield (
        "| shift of the scores, layer | offset, slope | shifted scores | row means of the exponentials, "
        "largest / least |"
    )
    yield "|---|---|---|---|"
    for i in range(model.config.layers):
        found = [(trace[f"layer{i}.attention.scores"], mask) for mask, trace in rows]
        scores = [s[..., mask > 0.0] for s, mask in found]
        logs = [np.log(np.exp(s).mean(axis=-1)) for s in scores]
        top, span = max(s.max() for s in scores), max(v.max() for v in logs) - min(v.min() for v in logs)
        yield (
            f"| constant (MOAI), {i} | - | [{min(s.min() for s in scores) - top:.2f}, 0] | "
            f"{np.exp(span):.1f} |"
        )
        yield _shift_line("ARION's constants", i, statistical_max.papers(found, 128))
        yield _shift_line("fitted", i, statistical_max.fit(found, (-60.0, 0.0)))
    g = 8
    cost = {masked: shift_cost(128 // g, g, masked) for masked in (False, True)}
    yield ""
    yield "Cost of the encrypted shift a head at m = 128 (16 babies, 8 giants), 2 levels: " + "; ".join(
        f"{'means over the real keys' if masked else 'over all keys'} {c.rotations} rotations, "
        f"{c.relinearisations} "
        f"relinearisations, {c.products} products"
        for masked, c in cost.items()
    )


def _shift_line(name: str, i: int, spec: statistical_max.ShiftSpec) -> str:
    low, high = spec.scores
    ratio = spec.means[1] / spec.means[0]
    return f"| {name}, {i} | {spec.offset:.2f}, {spec.slope:.3f} | [{low:.2f}, {high:.2f}] | {ratio:.1f} |"


def _worst(f: Function, exact: Function, interval: fit.Interval, relative: bool = False) -> float:
    x = np.linspace(*interval, POINTS)
    wrong = np.abs(f(x) - exact(x))
    return float(np.max(wrong / np.abs(exact(x)) if relative else wrong))


def _series_error(f: Function, domain: fit.Interval, degree: int, interval: fit.Interval) -> float:
    return _worst(fit.remez(f, domain, degree), f, interval)


def _series(what: str, degree: int, error: float, levels: int = 0, products: int = 0) -> Measured:
    return Measured(what, series_depth(degree) + levels, series_multiplications(degree) + products, error)


def _one(spec: Spec) -> Measured:
    return _fitted([spec])


def _fitted(specs: Sequence[Spec]) -> Measured:
    """The layer of most depth and products, the largest error of all."""
    most = max(specs, key=lambda s: (free_depth(s), s.multiplications()))
    return Measured(_describe(most), free_depth(most), most.multiplications(), max(s.error for s in specs))


def _describe(spec: Spec) -> str:
    data = spec.to_dict()
    series = f"degree {len(data['coefficients']) - 1}" if "coefficients" in data else ""
    described = {
        "power": lambda: f"{series}, {data['squarings']} squarings" if data["squarings"] else series,
        "chebyshev": lambda: series,
        "even": lambda: f"x/2 + {series} in x^2",
        "goldschmidt": lambda: f"{len(data['relaxation'])} relaxed steps",
        "series_goldschmidt": lambda: (
            f"degree {len(data['start']['coefficients']) - 1}, {len(data['relaxation'])} steps"
        ),
        "newton": lambda: f"degree {len(data['start']['coefficients']) - 1}, {len(data['steps'])} Newton",
        "coupled": lambda: f"line, {len(data['newton']['steps'])} Newton, {len(data['steps'])} Goldschmidt",
        "extended_gelu": lambda: f"{data['extensions']} extensions, odd {series}",
    }
    return described[spec.kind]()


def _logit_error(model: Checkpoint, specs: CircuitSpecs, sample: tuple[Array, Array]) -> float:
    return float(np.abs(approximated(model, specs, *sample).answer - reference(model, *sample).logits).max())


def _cell(m: Measured) -> str:
    error = f"{m.error:.1e}" if m.error > 1e-15 else "< 1e-15"
    return f"{m.what}: {m.depth}, {m.products}, {error}"
