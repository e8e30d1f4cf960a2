"""Shapes and rings of all registers of a program, inferred from its input before anything runs.

A program comes from a server that is not trusted. So whoever runs one, or counts what it costs, first walks
it here: every step must fit what it reads, and what all registers hold at a time stays below a bound.

>>> step = Step("linear", (0,), (1,), {"outputs": 3, "ring": 64, "opened": False})
>>> sizes((step,), Value((5, 2), 64), past=0, answer=1)[1]
Value(shape=(5, 3), ring=64)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from tacita import compiled
from tacita.errors import FileError
from tacita.plans.commitment import LinkSpeed
from tacita.texts.embedding import MAX_DOCUMENTS
from tacita.two_party.program.steps import FORMS, HINT, Step, joins, last_reads
from tacita.two_party.program.tiles import tiles_of

WORD = 64
MOST_WIDTH = 1 << 20  # columns of a linear map's result: words of a vocabulary
MOST_VALUES = 1 << 27  # of one register: 512 tokens of a vocabulary of 2^18 words
MOST_HELD = 1 << 28  # of all registers and stores at a time: 2 GiB
MOST_TILES = 1 << 18  # of a run
MOST_STEPS_OF_TILES = 16 * MOST_TILES  # that run, each as often as there are tiles
MOST_GAP = 1 << 40
LEAST_BOUND, MOST_BOUND = 1e-30, 1e30  # of what norms are told
# of rotary positions: base, and size of a head, for which angles are made
MOST_BASE, MOST_TURNED = 1e9, 4096
LEAST_CHOICE, MOST_CHOICE = 4, 40  # bits of numbers whose largest are looked for


@dataclass(frozen=True)
class Value:
    """What a register holds: (rows, columns) or (heads, rows, columns) residues modulo 2^ring."""

    shape: tuple[int, ...]
    ring: int


@dataclass(frozen=True)
class Map:
    """A linear map that may be prepared. number: of its step. read: rows and columns that a text multiplies
    by it, in a ring of so many bits. least: rows that are prepared at least."""

    number: int
    read: tuple[int, ...]
    outputs: int
    ring: int
    least: int = 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows that are prepared, columns, outputs."""
        return max(self.read[0], self.least), self.read[1], self.outputs


Rule = Callable[..., Sequence[Value] | Value]


def sizes(steps: Sequence[Step], entered: Value, past: int, answer: int) -> list[Value]:
    """Returns what every register holds, the input's first; of a tile's those of the last. Arguments and
    errors: see `passes`."""
    registers = {0: entered}
    for each in passes(steps, entered, past, answer):
        registers.update(zip(each.step.outputs, each.outputs, strict=True))
    return [registers[number] for number in range(len(registers))]


@dataclass(frozen=True)
class Pass:
    """A step that runs `count` times on registers of these sizes."""

    step: Step
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    count: int


def passes(steps: Sequence[Step], entered: Value, past: int, answer: int) -> Iterator[Pass]:
    """Yields all steps with what they read and write; those of tiles for each size of a tile. entered: the
    input (rows, columns). past: rows that all stores hold before. Takes some microseconds each. Raises
    FileError for a step that does not fit, where registers hold more than `MOST_HELD` numbers at a time, and
    where steps of tiles run more than `MOST_STEPS_OF_TILES` times."""
    walk, ends = Walk(entered.shape[0] + past, past), joins(steps, answer)
    registers, held, most, stored = {0: entered}, prod(entered.shape), 0, 0
    frees, runs = last_reads(steps, answer), 0

    def run(number: int, count: int) -> Pass:
        nonlocal held, most, stored
        step = steps[number]
        inputs = [registers[i] for i in step.inputs]
        outputs = walk.infer(step, inputs)
        registers.update(zip(step.outputs, outputs, strict=True))
        new = sum(prod(value.shape) for value in outputs)
        held, stored = held + new, stored + new * (step.op == "append")
        most = most + new if step.op == "join" else max(most, held)  # its parts are held beside the tiles
        if max(most, held) + stored > MOST_HELD:
            raise FileError(f"program: more than {MOST_HELD} numbers at a time", hint=HINT)
        held -= sum(prod(registers[i].shape) for i in frees[number])
        return Pass(step, inputs, outputs, count)

    number = 0
    while number < len(steps):
        most = 0
        if end := ends.get(number):
            before, step = held, steps[number]
            counts = walk.divide(step.parameters, [registers[i] for i in step.inputs])
            runs += counts.total() * (end - number)
            _need(runs <= MOST_STEPS_OF_TILES, f"tiles, over {MOST_STEPS_OF_TILES} steps of them,")
            for shape, count in counts.items():
                held, walk.tile = before, shape
                yield from (run(each, count) for each in range(number, end))
            number = end
        yield run(number, 1)
        number += 1


class Walk:
    """Where a walk is. all_rows: of the text so far, the past's included. stores: how many were appended to.
    tile: heads, rows of queries and of keys of the tile that it is in, None outside. whole: heads and rows of
    queries of all such tiles; tiles: that it came to."""

    def __init__(self, all_rows: int, past: int) -> None:
        self.all_rows, self.past, self.stores = all_rows, past, 0
        self.tile: tuple[int, int, int] | None = None
        self.whole, self.tiles = (0, 0), 0

    def divide(self, p: Mapping[str, Any], inputs: Sequence[Value]) -> Counter[tuple[int, int, int]]:
        """Counts the sizes of the tiles of a step, and enters the first. Raises FileError."""
        shapes = [value.shape for value in inputs]
        reach = [p[name] for name in ("back", "on") if p[name] is not None]
        _need(all(len(shape) == 3 for shape in shapes) and shapes[1][:2] == shapes[2][:2], "tiles")
        (heads, queries, _), (groups, keys, _), _ = shapes
        _need(heads % groups == 0 and queries <= keys == self.all_rows, "tiles")
        _need(p["rows"] >= 1 and all(0 <= x < MOST_GAP for x in reach), "tiles")
        _need(p["heads"] >= 1 and p["heads"] % (heads // groups) == 0, "tiles")
        self.tiles += -(-queries // p["rows"]) * -(-heads // p["heads"])
        _need(self.tiles <= MOST_TILES, f"tiles, over {MOST_TILES} of them,")
        sizes = Counter(tile.shape for tile in tiles_of(p, heads, queries, keys))
        self.whole, self.tile = (heads, queries), next(iter(sizes))
        return sizes

    def infer(self, step: Step, inputs: Sequence[Value]) -> list[Value]:
        """Returns what a step writes. Raises FileError."""
        rule = RULES[step.op]
        value = rule(self, step.parameters, *inputs)
        outputs = [value] if isinstance(value, Value) else list(value)
        fits = len(outputs) == len(step.outputs) and all(
            1 <= each.ring <= WORD and min(each.shape) >= 1 and prod(each.shape) <= MOST_VALUES
            for each in outputs
        )
        _need(fits, step.op)
        return outputs


def _need(fits: bool, op: str) -> None:
    if not fits:
        raise FileError(f"program: a step {op} that does not fit what it reads", hint=HINT)


def _same(op: str) -> Rule:
    """The rule of a step that keeps the shape and, where nothing else is said, the ring."""

    def rule(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
        _need(x.ring == p["ring"] and 0 <= p.get("fraction", 0) < x.ring, op)
        _need(0 <= p.get("finer", 0) < p.get("to", x.ring), op)
        _need(0 <= p.get("range", 0) <= WORD and 0 <= p.get("slack", 0) < WORD, op)
        _need("form" not in p or (op, p["form"]) in FORMS, op)
        return Value(x.shape, p.get("to", x.ring))

    return rule


def _shift_down(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(p["bits"] >= 1 and x.ring - p["bits"] == p["ring"], "shift_down")
    return Value(x.shape, p["ring"])


def _shift_up(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(1 <= p["bits"] < WORD and p["ring"] == min(WORD, x.ring + p["bits"]), "shift_up")
    return Value(x.shape, p["ring"])


def _reduce(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(p["ring"] <= x.ring, "reduce")
    return Value(x.shape, p["ring"])


def _add(walk: Walk, p: Mapping[str, Any], x: Value, y: Value) -> Value:
    _need(x.shape == y.shape and p["ring"] == x.ring <= y.ring, "add")
    return x


def _scale(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(p["ring"] == x.ring and abs(p["factor"]) < 1 << 63, "scale")
    return x


def _columns(walk: Walk, p: Mapping[str, Any], x: Value) -> list[Value]:
    widths = p["widths"]
    _need(
        all(type(width) is int and width >= 1 for width in widths) and sum(widths) == x.shape[-1], "columns"
    )
    return [Value((*x.shape[:-1], width), x.ring) for width in widths]


def _rows(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(1 <= abs(p["count"]) <= x.shape[-2], "rows")
    return Value((*x.shape[:-2], abs(p["count"]), x.shape[-1]), x.ring)


def _heads(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    count = p["count"]
    _need(len(x.shape) == 2 and count >= 1 and x.shape[1] % count == 0, "heads")
    return Value((count, x.shape[0], x.shape[1] // count), x.ring)


def _merge(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(len(x.shape) == 3, "merge")
    return Value((x.shape[1], x.shape[0] * x.shape[2]), x.ring)


def _group(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    heads, rows = p["heads"], prod(x.shape[:-1])
    _need(len(x.shape) == 3 and heads >= 1 and rows % heads == 0, "group")
    return Value((heads, rows // heads, x.shape[2]), x.ring)


def _turn(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(len(x.shape) == 3 and x.shape[2] % 2 == 0 and x.shape[2] <= MOST_TURNED, "turn")
    _need(1.0 <= p["base"] <= MOST_BASE, "turn")
    scales = p.get("scales")
    _need(scales is None or len(scales) == x.shape[2] // 2, "turn")
    _need(all(type(each) is float and 0.0 <= each <= 1.0 for each in scales or ()), "turn")
    _need(x.ring == p["ring"] and 1 <= p["bits"] < min(x.ring, 31), "turn")
    return x


def _tiles(walk: Walk, p: Mapping[str, Any], *inputs: Value) -> list[Value]:
    heads, rows, keys = walk.tile or next(iter(walk.divide(p, inputs)))
    groups = heads * inputs[1].shape[0] // inputs[0].shape[0]
    sizes = (heads, rows), (groups, keys), (groups, keys)
    return [Value((*size, x.shape[2]), x.ring) for x, size in zip(inputs, sizes, strict=True)]


def _join(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(len(x.shape) == 3 and walk.tile is not None and x.shape[:2] == walk.tile[:2], "join")
    walk.tile = None
    return Value((*walk.whole, x.shape[2]), x.ring)


def _append(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(len(x.shape) == 3 and x.ring == p["ring"] and p["store"] == walk.stores, "append")
    _need(x.shape[1] == walk.all_rows - walk.past, "append")
    walk.stores += 1
    return Value((x.shape[0], walk.all_rows, x.shape[2]), x.ring)


def _hide(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    reach = [p[name] for name in ("back", "on") if p[name] is not None]
    keys = walk.tile[2] if walk.tile else walk.all_rows
    _need(len(x.shape) == 3 and x.shape[1] <= x.shape[2] == keys, "hide")
    _need(x.ring == p["ring"] and 0 <= p["fraction"] < x.ring and 0 <= p["gap"] < MOST_GAP, "hide")
    _need(all(0 <= each < MOST_GAP for each in reach), "hide")
    return x


def _average(walk: Walk, p: Mapping[str, Any]) -> Value:
    _need(0 <= p["fraction"] < p["ring"], "average")
    return Value((1, 1, walk.all_rows), p["ring"])


def _extend(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(x.ring == p["ring"] <= p["to"], "extend")
    return Value(x.shape, p["to"])


def _linear(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(len(x.shape) == 2 and x.ring == p["ring"] and p["outputs"] <= MOST_WIDTH, "linear")
    return Value((x.shape[0], p["outputs"]), x.ring)


def _product(walk: Walk, p: Mapping[str, Any], x: Value, y: Value) -> Value:
    _need(len(x.shape) == len(y.shape) == 3 and x.shape[0] == y.shape[0], "product")
    inner, columns = y.shape[:0:-1] if p["transposed"] else y.shape[1:]
    _need(x.ring == y.ring == p["ring"] and x.shape[2] == inner, "product")
    _need(p["store"] is None or 0 <= p["store"] < walk.stores, "product")
    return Value((*x.shape[:2], columns), x.ring)


def _times(walk: Walk, p: Mapping[str, Any], x: Value, y: Value) -> Value:
    _need(x.shape in (y.shape, (*y.shape[:-1], 1)), "times")
    _need(x.ring == p["held"] >= p["short"] >= 1 and y.ring == p["ring"] and 0 <= p["slack"] < WORD, "times")
    return y


def _softmax(walk: Walk, p: Mapping[str, Any], x: Value) -> list[Value]:
    _need(len(x.shape) == 3 and x.ring == p["ring"] and 0 <= p["fraction"] < x.ring, "softmax")
    _need(0 <= p["range"] <= WORD and 0 <= p["inverse"] < p["to"], "softmax")
    return [Value(x.shape, p["power"]), Value((*x.shape[:-1], 1), p["to"])]


def _nearest(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    _need(len(x.shape) == 2 and x.shape[0] == 1 <= p["count"] < x.shape[1] <= MAX_DOCUMENTS, "nearest")
    _need(LEAST_CHOICE <= p["ring"] == x.ring <= MOST_CHOICE, "nearest")
    return x


def _norm(walk: Walk, p: Mapping[str, Any], x: Value) -> Value:
    bounds = [p[name] for name in ("bound", "least", "gamma")]
    _need(all(LEAST_BOUND <= each <= MOST_BOUND for each in bounds) and 0.0 <= p["epsilon"] <= 1.0, "norm")
    _need(x.ring == p["ring"] and 0 <= p["fraction"] < x.ring and 0 <= p["finer"] < p["to"], "norm")
    return Value(x.shape, p["to"])


RULES: Mapping[str, Rule] = {
    "enter": lambda walk, p: [],
    "shift_down": _shift_down,
    "shift_up": _shift_up,
    "reduce": _reduce,
    "add": _add,
    "scale": _scale,
    "columns": _columns,
    "rows": _rows,
    "heads": _heads,
    "merge": _merge,
    "group": _group,
    "turn": _turn,
    "tiles": _tiles,
    "join": _join,
    "append": _append,
    "hide": _hide,
    "average": _average,
    "bias": _same("bias"),
    "extend": _extend,
    "linear": _linear,
    "product": _product,
    "times": _times,
    "softmax": _softmax,
    **{name: _same(name) for name in ("relu", "square", "tanh", "elu", "gelu", "silu")},
    "norm": _norm,
    "nearest": _nearest,
}


USUAL = 1e8  # bits a second, for which windows are chosen where nobody knows the link


@dataclass(frozen=True)
class Product:
    """A matrix product, (rows, inner, columns) or a batch of them. crossed: of two shared matrices."""

    sizes: tuple[int, ...]
    ring: int
    opened: bool = False
    crossed: bool = False


@cache
def product_cost(product: Product, link: LinkSpeed | None = None) -> tuple[float, float]:
    """Returns bits and seconds of work of a product with the windows that both choose for a link; None:
    where nobody knows it."""
    speed = min(max(link.bits_per_second, 1e6), 1e12) if link else USUAL
    sent, seconds = compiled.native.product_cost(
        product.sizes, product.ring, (speed, 0.0), opened=product.opened, crossed=product.crossed
    )
    return 8.0 * sent, seconds
