"""Runs a program on one party's shares: the steps of `steps.OPERATIONS` on the native engine.

Both parties run the same steps in the same order. The client, which has no weights, knows which rows are
real; the server, which does not see that, adds what it knows of the model (`Model`). What a step says was
checked before (`sizes`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tacita.two_party.arithmetic.base import Array, Format, Integers
from tacita.two_party.arithmetic.masked import MaskedProduct
from tacita.two_party.arithmetic.residues import Share, Words, from_floats, reconstruct, reduced
from tacita.two_party.arithmetic.rotary import turned_from
from tacita.two_party.arithmetic.text_steps import nearest
from tacita.two_party.program.program import Program
from tacita.two_party.program.sizes import Value
from tacita.two_party.program.steps import Step, joins, last_reads
from tacita.two_party.program.tiles import Tile, tiles_of, visible

Watch = Callable[[str], None]


class Model(Protocol):
    """What the server knows of the model, by the number of a step."""

    def matrix(self, step: int) -> Integers:
        """Returns the integers (inputs, outputs) of a linear map, row by row in memory."""

    def bias(self, step: int, shape: tuple[int, ...], first: int, key: int = 0, head: int = 0) -> Integers:
        """Returns what is added to a result of this shape: the bias of a linear map, or what belongs to the
        positions of rows, of which the first is at `first`, or to their distances from keys from `key` on,
        of heads from `head` on."""

    def norm(self, step: int) -> tuple[Array, Array]:
        """Returns the factors and offsets of a norm."""


@dataclass(frozen=True)
class Past:
    """This party's share of rows that were read before. rows: how many. stores: by the order of the steps
    that append to them, (heads, rows, d) each."""

    rows: int = 0
    stores: tuple[Words, ...] = field(default=(), repr=False)

    def first(self, rows: int) -> Past:
        """Returns what was there when the first `rows` rows were read."""
        return Past(rows, tuple(np.ascontiguousarray(store[:, :rows]) for store in self.stores))


class Prepared:
    """Products that were made before the rows are known, by the numbers of their steps.

    A further token of a text is one row, and a product of one row costs the two parties nearly what one of 32
    does. So they make the ciphertexts' part for 32 rows of random masks at once; each row later costs its own
    bytes and a plain product at the server (`prepare_weights` of the engine, `masked`). The maps of a whole
    text are made in the same way (`Ahead`).
    """

    def __init__(self) -> None:
        self.linear: dict[int, Any] = {}
        self.products: dict[int, MaskedProduct] = {}
        self._single = False  # whether single rows are prepared

    @property
    def left(self) -> int:
        """Single rows for which everything is prepared."""
        each = (*self.linear.values(), *self.products.values())
        return min((one.left for one in each), default=0) if self._single else 0

    def prepare(self, party: Any, program: Program, model: Model | None, past: Past, rows: int) -> None:
        """Prepares so many rows behind `past`, and drops what was left before of maps that have fewer. Costs
        what the products of all these rows do. Raises PeerError."""
        values = program.sizes(1, past.rows)
        self._single = True
        for number, step in enumerate(program.steps):
            if step.op == "linear" and not (number in self.linear and self.linear[number].left >= rows):
                sizes = (rows, values[step.inputs[0]].shape[1], step.parameters["outputs"])
                self.prepare_map(party, number, sizes, step.parameters["ring"], model)
        for number, step in enumerate(program.steps):
            if step.op == "product" and past.rows and step.parameters["store"] is not None:
                store, group = past.stores[step.parameters["store"]], values[step.inputs[0]].shape[1]
                old, axis = (np.swapaxes(store, 1, 2), -1) if step.parameters["transposed"] else (store, -2)
                ring = values[step.outputs[0]].ring
                how = {"group": group, "rows": rows, "axis": axis}
                self.products[number] = MaskedProduct.prepare(party, old, ring, **how)

    def prepare_map(
        self, party: Any, number: int, shape: tuple[int, int, int], ring: int, model: Model | None
    ) -> None:
        """Prepares one linear map. shape: rows, inputs, outputs. ring: of its result."""
        matrix = model.matrix(number) if model else None
        self.linear[number] = party.prepare_weights(matrix, shape, ring)


class Ahead:
    """The texts of one session whose products with weights are made before the texts are known, map by map.

    A map's masks are the client's random numbers, drawn for this text alone, so nothing that is sent depends
    on a text; each serves once, and a later text sends its rows less their masks. Both parties make the same
    calls in the same order. A text that comes in the middle takes the maps that are there.
    """

    def __init__(self, party: Any, program: Program, model: Model | None = None) -> None:
        self._party, self._program, self._model = party, program, model
        self._maps, self._texts = program.maps(), deque[Prepared]()

    @property
    def texts(self) -> int:
        """Texts that all maps are prepared of."""
        return len(self._texts) - any(len(text.linear) < len(self._maps) for text in self._texts)

    @property
    def any(self) -> bool:
        """Whether a map of a text is prepared."""
        return bool(self._texts)

    def begins(self) -> bool:
        """Tells whether the next map is the first of a text."""
        return self.texts == len(self._texts)

    def prepare(self) -> None:
        """Prepares one map: as many rounds and bytes as its product takes. Raises PeerError."""
        if self.begins():
            self._texts.append(Prepared())
        text = self._texts[-1]
        at = self._maps[len(text.linear)]
        ring = self._program.steps[at.number].parameters["ring"]
        text.prepare_map(self._party, at.number, at.shape, ring, self._model)

    def take(self) -> Prepared:
        """Takes what is prepared of one text, which is gone with it; nothing, where no text is prepared."""
        return self._texts.popleft() if self._texts else Prepared()


@dataclass
class Run:
    """One run. party: the engine's `TwoParty`, set up. mask: 1 for a real row of all so far, the past's
    first; at the client alone. model: at the server alone. watch: called as each node begins. prepared: as
    far as it goes. past: rows before; afterwards with those of this run."""

    party: Any
    program: Program
    mask: Array | None = None
    model: Model | None = None
    watch: Watch = lambda node: None
    prepared: Prepared | None = None
    past: Past = field(default_factory=Past)
    _tile: Tile | None = field(default=None, init=False, repr=False)

    def answer(self, x: Words) -> Words:
        """Runs all steps on this party's share of the input (rows, hidden), and returns its share of the
        answer. Raises FileError for steps that do not fit, before anything is sent; PeerError."""
        values = self.program.sizes(len(x), self.past.rows)
        self._stores: list[Words] = []
        self._rows = len(x)
        registers: dict[int, Words] = {0: x}
        steps, result = self.program.steps, self.program.result
        self._joins, self._frees = joins(steps, result), last_reads(steps, result)
        self._walk(range(len(steps)), registers, values)
        if self._stores:
            self.past = Past(self.past.rows + len(x), tuple(self._stores))
        return registers[self.program.result]

    def _walk(self, numbers: range, registers: dict[int, Words], values: Sequence[Value]) -> None:
        """Runs these steps; those of tiles for tile after tile."""
        number = numbers.start
        while number < numbers.stop:
            if end := self._joins.get(number):
                self._run_tiles(range(number, end), registers, values)
                number = end
            else:
                self.step(number, self.program.steps[number], registers, values)
            for register in self._frees[number]:
                del registers[register]
            number += 1

    def _run_tiles(self, numbers: range, registers: dict[int, Words], values: Sequence[Value]) -> None:
        """Runs the steps of tiles, and their join."""
        (begin, end), steps = (numbers.start, numbers.stop), self.program.steps
        (heads, queries, _), (_, keys, _), _ = (registers[i].shape for i in steps[begin].inputs)
        self._parts = []
        for self._tile in tiles_of(steps[begin].parameters, heads, queries, keys):
            self.step(begin, steps[begin], registers, values)
            self._walk(range(begin + 1, end), registers, values)
            self._parts.append((self._tile, registers[steps[end].inputs[0]]))
        self._tile = None
        self.step(end, steps[end], registers, values)

    def step(self, number: int, step: Step, registers: dict[int, Words], values: Sequence[Value]) -> None:
        """Runs one step, and writes its registers."""
        inputs = [registers[i] for i in step.inputs]
        shape = values[step.outputs[0]].shape if step.outputs else ()
        value = RUN[step.op](self, _Place(number, step.parameters, shape), *inputs)
        results = value if isinstance(value, tuple) else (value,)
        registers.update(zip(step.outputs, map(np.ascontiguousarray, results), strict=bool(step.outputs)))

    def reduced(self, values: Words, ring: int) -> Words:
        """Reduces residues modulo 2^ring."""
        return reduced(values, ring)

    def shifted_down(self, values: Words, bits: int, ring: int) -> Words:
        """Drops so many low bits; the client adds one unit (see `residues`)."""
        return reduced((values >> np.uint64(bits)) + np.uint64(self.party.is_client), ring)

    def hide(self, at: _Place, x: Words) -> Words:
        """Takes the gap from the scores of what a query does not see."""
        if self.mask is None:
            return x
        mask, first = self.mask, None
        if self._tile:
            mask, first = mask[slice(*self._tile.keys)], self._tile.first
        near = visible(mask, x.shape[1:], at["back"], at["on"], first)
        gap = np.where(near, 0.0, float(at["gap"]))
        return self.reduced(x - from_floats(gap, at["fraction"], at["ring"]).values, at["ring"])

    def average(self, at: _Place) -> Words:
        """Returns 1/n for each of the n real rows, at the client, up or down so that all are 1 together: of
        8,160 rows each would be 129 units for 128.5, and their mean too large by 0.4 %."""
        if self.mask is None:
            return np.zeros(at.shape, np.uint64)
        ends = np.rint(np.ldexp(np.cumsum(self.mask) / self.mask.sum(), at["fraction"]))
        return from_floats(np.diff(ends, prepend=0.0)[None, None], 0, at["ring"]).values

    def turn(self, at: _Place, x: Words) -> Words:
        """Turns rows by their positions."""
        angles = at["base"], at.parameters.get("scales", ())
        table = turned_from(angles, self.past.rows, x.shape[1:], at["bits"])
        cos, sin = (each.view(np.uint64) for each in table)
        left, right = np.split(x, 2, axis=-1)
        turned = np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)
        return self.reduced(turned, at["ring"])

    def tiles(self, at: _Place, *whole: Words) -> tuple[Words, ...]:
        """Takes the rows of this tile from queries, keys and values."""
        assert self._tile is not None  # see `_run_tiles`
        (begin, end), rows = self._tile.heads, (self._tile.queries, self._tile.keys, self._tile.keys)
        groups = [len(whole[0]) // len(x) for x in whole]
        parts = zip(whole, groups, rows, strict=True)
        return tuple(x[begin // group : end // group, slice(*ends)] for x, group, ends in parts)

    def join(self, at: _Place, x: Words) -> Words:
        """Puts the results of all tiles together."""
        whole = np.empty(at.shape, np.uint64)
        for tile, part in self._parts:
            whole[slice(*tile.heads), slice(*tile.queries)] = part
        return whole

    def append(self, at: _Place, x: Words) -> Words:
        """Keeps rows behind those of a store."""
        before = self.past.stores[at["store"] : at["store"] + 1]
        self._stores.append(np.concatenate([*before, x], axis=1))
        return self._stores[-1]

    def bias(self, at: _Place, x: Words) -> Words:
        """Adds what the server knows."""
        if self.model is None:
            return x
        tile = self._tile
        first = (tile.queries[0], tile.keys[0], tile.heads[0]) if tile else (self.past.rows, 0, 0)
        bias = self.model.bias(at.number, x.shape, *first)
        return self.reduced(x + bias.view(np.uint64), at["ring"])

    def linear(self, at: _Place, x: Words) -> Words:
        """Multiplies by weights, from what was prepared where as many rows are left of it."""
        matrix = self.model.matrix(at.number) if self.model else None
        ahead = self.prepared.linear.get(at.number) if self.prepared else None
        if ahead and ahead.left >= len(x) and not at["opened"]:
            product = self.party.times_prepared(x, ahead, matrix)
        else:
            sizes = (*x.shape, at["outputs"])
            product = self.party.share_times_weights(x, matrix, sizes, at["ring"], opened=at["opened"])
        return self.bias(at, product)

    def product(self, at: _Place, x: Words, y: Words) -> Words:
        """Multiplies shared matrices, from what was prepared where a row is left of it."""
        right = np.swapaxes(y, 1, 2) if at["transposed"] else y
        ahead = self.prepared.products.get(at.number) if self.prepared and self._rows == 1 else None
        if ahead and ahead.left:
            return ahead.times(x, right[..., -1:] if at["transposed"] else right[:, -1:])
        sizes = (*x.shape, right.shape[2])
        shares = x, np.ascontiguousarray(right)
        result: Words = self.party.share_times_share(*shares, sizes, at["ring"], opened=at["opened"])
        return result

    def norm(self, at: _Place, x: Words) -> Words:
        """Normalises the rows of all heads in one call."""
        gamma, beta = self.model.norm(at.number) if self.model else (None, None)
        bits = {"bits": at["ring"], "frac": at["fraction"], "out_bits": at["to"], "out_frac": at["finer"]}
        named = {name: at[name] for name in ("bound", "least", "epsilon", "centred")}
        flat = x.reshape(-1, x.shape[-1])
        rows: Words = self.party.layer_norm(flat, gamma, beta, **bits, **named, gamma_bound=at["gamma"])
        return rows.reshape(x.shape)

    def nearest(self, x: Words, count: int, ring: int) -> Words:
        """Keeps the `count` largest of a row."""
        return nearest(self.party, Share(x, ring, 0), count)


@dataclass(frozen=True)
class _Place:
    """A step as its operation sees it: number, parameters, and the shape of its first result."""

    number: int
    parameters: Mapping[str, Any]
    shape: tuple[int, ...]

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]


def _softmax(run: Run, at: _Place, x: Words) -> tuple[Words, Words]:
    numbers = (at[name] for name in ("ring", "fraction", "range", "power", "to", "inverse"))
    powers, inverses = run.party.softmax_parts(x.reshape(-1, x.shape[-1]), *numbers)
    return powers.reshape(x.shape), inverses.reshape(*x.shape[:-1], 1)


def _relu(run: Run, at: _Place, x: Words) -> Words:
    """Subtracts the negative part."""
    return run.reduced(x - run.party.select(run.party.negative(x, at["ring"]), x, at["ring"]), at["ring"])


def _function(name: str, option: str, parameter: str) -> Callable[..., Words]:
    def run_function(run: Run, at: _Place, x: Words) -> Words:
        options = {option: at[parameter], "range": at["range"]}
        result: Words = getattr(run.party, name)(x, at["ring"], at["fraction"], at["to"], **options)
        return result

    return run_function


def _columns(run: Run, at: _Place, x: Words) -> tuple[Words, ...]:
    return tuple(np.split(x, np.cumsum(at["widths"])[:-1], axis=-1))


RUN: Mapping[str, Callable[..., Any]] = {
    "enter": lambda run, at: run.watch(at["name"]) or (),
    "shift_down": lambda run, at, x: run.shifted_down(x, at["bits"], at["ring"]),
    "shift_up": lambda run, at, x: run.reduced(x << np.uint64(at["bits"]), at["ring"]),
    "reduce": lambda run, at, x: run.reduced(x, at["ring"]),
    "add": lambda run, at, x, y: run.reduced(x + y, at["ring"]),
    "scale": lambda run, at, x: run.reduced(x * np.array(at["factor"]).view(np.uint64), at["ring"]),
    "columns": _columns,
    "rows": lambda run, at, x: x[..., : at["count"], :] if at["count"] >= 0 else x[..., at["count"] :, :],
    "heads": lambda run, at, x: np.moveaxis(x.reshape(len(x), at["count"], -1), 1, 0),
    "merge": lambda run, at, x: np.moveaxis(x, 0, 1).reshape(x.shape[1], -1),
    "group": lambda run, at, x: x.reshape(at["heads"], -1, x.shape[-1]),
    "turn": Run.turn,
    "tiles": Run.tiles,
    "join": Run.join,
    "append": Run.append,
    "hide": Run.hide,
    "average": Run.average,
    "bias": Run.bias,
    "extend": lambda run, at, x: run.party.extend(x, at["ring"], at["to"]),
    "linear": Run.linear,
    "product": Run.product,
    "times": lambda run, at, x, y: run.party.scaled(
        x, y, held=at["held"], short=at["short"], bits=at["ring"], slack=at["slack"]
    ),
    "softmax": _softmax,
    "relu": _relu,
    "square": lambda run, at, x: run.party.square_narrow(x, at["ring"], at["to"], at["slack"]),
    **{name: _function(name, "out_frac", "finer") for name in ("tanh", "elu")},
    **{name: _function(name, "form", "form") for name in ("gelu", "silu")},
    "norm": Run.norm,
    "nearest": lambda run, at, x: run.nearest(x, at["count"], at["ring"]),
}


def zeros(program: Program, rows: int) -> Words:
    """Returns the share of an input of so many rows that the other party knows."""
    return np.zeros((rows, program.hidden), np.uint64)


def empty_past(program: Program, rows: int) -> Past:
    """Returns the share of so many rows of which this party knows nothing."""
    if not rows:
        return Past()
    values = program.sizes(1, rows)
    stores = (values[step.outputs[0]].shape for step in program.steps if step.op == "append")
    return Past(rows, tuple(np.zeros((heads, rows, d), np.uint64) for heads, _, d in stores))


def reveal(party: Any, own: Words, form: Format) -> Array:
    """Returns an answer, in floats, whose other share the other party sends."""
    total = party.receive_revealed(own, form.ring)
    return reconstruct(Share(total, form.ring, form.fraction), np.zeros_like(total))
