"""A decoder's step on one new row, with the rows of earlier tokens kept as ciphertexts: docs/decisions/0032.

    python evaluation/kept_rows.py --tokens 32 --steps 6 --backend sim

What an attention reads, the norm's result before it, is kept for every layer in the packing of rows, the last
token first. A step takes the new token's vector and a mask from the client and computes one row:

    layer i:  kept rows turned by one row, the new one in the free place     1 level below the new one
              attention of one query over them, as a last layer has it (`rows.first_token`)
              the rest of the layer on a vector

so every layer of it is the last layer of a whole text. The rows kept for the next step are the turned ones,
at one level below the norm's result: the same level after every step, so nothing drains and one circuit
serves all steps. A prompt is read token by token here. Beside it stands what the whole text takes anew.
Nothing is encrypted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacita import api
from tacita.blocks.graph import record
from tacita.blocks.weights import Weights
from tacita.calibrate.calibrate import survey, texts_for
from tacita.checkpoint import Checkpoint
from tacita.data import DEFAULT_DECODER
from tacita.front.embed import embedded, tokenize
from tacita.generation.clear import Floats
from tacita.models.registry import forward
from tacita.packings.arrays import Array
from tacita.packings.base import Block, Circuit, Held, Operation, Target, stages_of
from tacita.packings.layouts import LINEAR
from tacita.packings.lowered import build, in_slots
from tacita.packings.lowering import _Lowering
from tacita.packings.one_text.parts import Built, Form
from tacita.packings.rows.exponentials import Exponentials
from tacita.packings.rows.first_token import FirstTokenAttention
from tacita.packings.rows.layout import FeatureLayout, RowsShape
from tacita.packings.rows.parts import RowParts
from tacita.packings.rows.request import HIDDEN, MASK
from tacita.packings.specs import CircuitSpecs
from tacita.packings.vector.layout import VectorLayout
from tacita.placement.leveled import prices_of
from tacita.placement.placement import Placement
from tacita.planning.build import RESPONSE, Placed, place_circuit
from tacita.planning.fitting import fit_circuit
from tacita.plans.plan import ParameterInfo
from tacita.plans.presets import PRESETS, noise_of
from tacita.plans.scheme import first_shape
from tacita.run import executor
from tacita.slots.base import Backend, Ct
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.slots.stage import Live

Cts = tuple[Ct, ...]
Make = Callable[[ParameterInfo, Sequence[tuple[int, int]]], Any]


def kept_of(node: str) -> str:
    """The tensor of the rows that an attention reads."""
    return f"{node}.rows"


def later(be: Backend, kept: Cts, new: Ct, layout: FeatureLayout, slots: int) -> Cts:
    """Kept rows and a new vector -> the rows of the next text: row t is row t - 1 of before, row 0 the
    vector. One level below the vector. What was the last row must have been zero. Cost: a rotation a
    ciphertext."""
    window, found = layout.shape.window, []
    for number, (ct, features) in enumerate(zip(kept, layout.index, strict=True)):
        first = np.zeros(slots)
        first[:window] = features >= 0
        placed = be.mul_vector(be.rotate(new, number * window), first)
        rows = be.drop_to(ct, min(be.level(ct), be.level(placed)))
        found.append(be.add(be.rotate(rows, -window), placed))
    return tuple(found)


@dataclass(frozen=True)
class StepRequest:
    """The new row as a vector and the mask of the whole text: the client's; the kept rows: the server's."""

    vector: VectorLayout
    layout: FeatureLayout
    nodes: tuple[str, ...]
    entry: float

    @property
    def counts(self) -> Mapping[str, int]:
        """Ciphertexts per tensor."""
        return {HIDDEN: 1, MASK: 1} | {kept_of(node): self.layout.count for node in self.nodes}

    def pack(self, samples: Sequence[tuple[Array, Array]]) -> dict[str, list[Array]]:
        """(new row (1, size), mask (tokens,) of all rows, the new one first): the client's part alone."""
        ((row, mask),) = samples
        keep = np.repeat(mask / mask.sum(), self.layout.shape.window)
        return {HIDDEN: [self.vector.pack(row[0] / self.entry)], MASK: [keep]}


class StepParts(RowParts):
    """Rows, of which one is new. Its tensors are vectors, and attention reads the kept rows besides.

    made: the rows for the next step, by tensor, of the last run: the highest of those that its stages made.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.made: dict[str, Cts] = {}

    def entry(self) -> Held[Form]:
        """See the contract."""
        return Held(HIDDEN, 1, Form(self._specs.entry, vector=True))

    def step_request(self) -> StepRequest:
        """In place of `request`."""
        nodes = tuple(step.name for step in self._graph.steps if step.op == "attention")
        return StepRequest(self._vector, self._layout, nodes, self._specs.entry)

    def _first_token(self, name: str, block: Block[Form], target: Target, built: Built) -> list[Operation]:
        x, kept = block.x.live, kept_of(name)
        attention = FirstTokenAttention.build(*built, self._layout, self._windows, carried=False)
        parts = ("scores", "context", "sums", "attended")
        scores, context, sums, attended = (f"{name}.{part}" for part in parts)
        exponential = Exponentials.of(name, attention.specs.exp, attention.early, attention.seen)

        def score(be: Backend, new: Cts, rows: Cts) -> Cts:
            return attention.scores(be, self._later(be, kept, rows, new), new)

        def mix(be: Backend, live: Live) -> Live:
            rows = self._later(be, kept, live[kept], live[x])
            found = attention.mix(be, rows, exponential.found(be, live), live[MASK])
            return dict(zip((context, sums), found, strict=True))

        return [
            Operation.of(f"{name}.scores", (x, kept), scores, score),
            *exponential.stages,
            Operation(f"{name}.mix", (x, kept, exponential.read), mix),
            Operation.of(f"{name}.attend", (context, sums), attended, attention.attend),
            Operation.of(f"{name}.project", (block.residual.live, attended), target.live, attention.project),
        ]

    def _later(self, be: Backend, name: str, kept: Cts, new: Cts) -> Cts:
        rows, before = later(be, kept, new[0], self._layout, self._slots), self.made.get(name)
        if before is None or be.level(rows[0]) > be.level(before[0]):
            self.made[name] = rows
        return rows


@dataclass(eq=False)
class Stepper:
    """A placed step, and the state that a server would keep: the rows of each node. be: see `stepper`; here
    it is client and server in one."""

    model: Checkpoint
    placed: Placed
    anew: Placement  # of the whole text
    request: StepRequest
    made: dict[str, Cts]  # see `StepParts`
    be: Any
    kept: dict[str, Cts] = field(default_factory=dict)
    length: int = 0

    def levels(self) -> Mapping[str, int]:
        return {**self.placed.placement.request, **self.placed.fixed_levels}

    def begin(self) -> None:
        """No rows: ciphertexts of zero, which the server can write by itself."""
        zero, count = np.zeros(1), self.request.layout.count
        levels = self.levels()
        for node in self.request.nodes:
            name = kept_of(node)
            self.kept[name] = tuple(self.be.encrypt(zero, levels[name]) for _ in range(count))

    def logits(self, row: Array) -> Array:
        """Of the text so far and this row behind it."""
        self.length += 1
        mask = (np.arange(self.request.layout.shape.tokens) < self.length).astype(np.float64)
        levels, packed = self.levels(), self.request.pack([(row, mask)])
        live: Live = {n: tuple(self.be.encrypt(v, levels[n]) for v in vs) for n, vs in packed.items()}
        self.made.clear()
        stages, circuit = self.placed.stages, self.placed.circuit
        out = executor.run(stages, circuit.stages, self.be, {**live, **self.kept})
        self.kept = dict(self.made)
        (answer,) = self.placed.circuit.response.read([self.be.decrypt(ct) for ct in out[RESPONSE]])
        assert answer.sound(), answer.norm_check
        return answer.values


def step_circuit(
    model: Checkpoint, specs: CircuitSpecs, slots: int, tokens: int
) -> tuple[Circuit, StepRequest, StepParts]:
    """The circuit of one new row, behind up to tokens - 1 kept ones."""
    config = in_slots(model).config
    graph = record(lambda b, x: forward(b, config, x), 1, config.hidden)
    parts = StepParts(graph, Weights(model.tensors), specs, RowsShape(slots, tokens))
    lowering = _Lowering(graph, parts, specs)
    for step in graph.steps:
        lowering.enter(step)
    request = parts.step_request()
    fixed = frozenset({MASK, *map(kept_of, request.nodes)})
    stages = tuple(stages_of(lowering.operations, fixed))
    return Circuit(stages, request, parts.response(), fixed), request, parts


def stepper(model: Checkpoint, preset: str, tokens: int, texts: Sequence[str], make: Make) -> Stepper:
    """Calibrated on whole texts, as a plan for these is. make: of parameters and rotation keys, a backend
    that encrypts and decrypts as well."""
    info = PRESETS[preset]
    calibration = survey(in_slots(model), tokens, list(texts), row_estimates=LINEAR).calibration
    specs = fit_circuit(calibration, model.config, tokens=tokens)
    circuit, request, parts = step_circuit(model, specs, info.slots, tokens)
    placed = place_circuit(circuit, info, prices_of(info, None))
    whole = build(in_slots(model), specs, first_shape("thor", info.slots, tokens, "rows"))
    anew = place_circuit(whole, info, prices_of(info, None)).placement
    return Stepper(model, placed, anew, request, parts.made, make(info, placed.rotations))


BACKENDS: Mapping[str, Make] = {
    "plain": lambda info, rotations: PlainBackend(info.slots, info.max_level),
    "sim": lambda info, rotations: SimBackend(info.slots, info.max_level, inject=True, noise=noise_of(info)),
}


def main() -> None:
    """See the module."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--model", default=DEFAULT_DECODER)
    options.add_argument("--preset", default="n16")
    options.add_argument("--tokens", type=int, default=32)
    options.add_argument("--steps", type=int, default=6)
    options.add_argument("--texts", type=int, help="to calibrate on, all by default")
    options.add_argument("--backend", choices=sorted(BACKENDS), default="sim")
    options.add_argument("--text", default="Elizabeth could not help thinking that it was all over with him")
    given = options.parse_args()
    model = api.load(given.model)
    texts = [str(text) for text in texts_for(model)][: given.texts]
    found = stepper(model, given.preset, given.tokens, texts, BACKENDS[given.backend])
    placed = found.placed.placement
    print(f"whole text: {found.anew.seconds:.1f} s planned, {found.anew.bootstraps} bootstraps")
    print(f"a step: {placed.seconds:.1f} s planned, {placed.bootstraps} bootstraps, kept at levels")
    print(dict(found.placed.fixed_levels))
    for step in placed.steps:
        print(f"  {step.stage:<30} {step.seconds + step.bootstrap_seconds:6.2f} {', '.join(step.bootstraps)}")
    _write(found, model, tokenize(model, given.text)[0][: given.steps])


def _write(found: Stepper, model: Checkpoint, ids: Sequence[int]) -> None:
    """Reads these tokens one by one, beside the float model."""
    walker, rows = Floats(model), embedded(model, list(ids), [0] * len(ids))
    found.begin()
    for place in range(len(ids)):
        wanted = walker.logits(rows[place : place + 1], np.ones(place + 1))
        got = found.logits(rows[place : place + 1])
        off, same = float(np.max(np.abs(got - wanted))), got.argmax() == wanted.argmax()
        levels = [found.be.level(cts[0]) for cts in found.kept.values()]
        print(f"token {place}: logits within {off:.4f}, same token {same}, kept at {levels}")


if __name__ == "__main__":
    main()
