"""The program of a plan: its steps, and all else that a client knows of the plan; and its bytes, canonical
JSON, read back with every field checked."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from tacita.errors import FileError
from tacita.limits import Above, Matches, OneOf, Range, Rules, Size, limits_of, require
from tacita.plans.commitment import LinkSpeed
from tacita.plans.json_fields import canonical, from_json, to_json
from tacita.plans.scheme import BUMBLEBEE
from tacita.texts.embedding import (
    MAX_CLASSES,
    MAX_DOCUMENTS,
    MAX_HIDDEN,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_TYPES,
    MAX_VOCAB,
    EmbeddingConfig,
    FrontConfig,
    ImageConfig,
    limits,
)
from tacita.texts.task import NEXT, PROBLEMS, SEARCH, TASKS, WORDS, labelled
from tacita.two_party.arithmetic.base import MOST, Format
from tacita.two_party.arithmetic.masked import AT_ONCE
from tacita.two_party.program import cost
from tacita.two_party.program.cost import MOST_FAILURE, Cost, failure_log2
from tacita.two_party.program.sizes import Map, Value, sizes
from tacita.two_party.program.steps import HINT, Step, fields_of, step_of

FORMAT, VERSION = "tacita-two-party-program", 2
MAX_BYTES = 8 << 20
MOST_NAME, MOST_LABEL, MOST_ENDS, MOST_TOKENS = 200, 200, 64, MAX_POSITIONS
CORRELATIONS = ("ferret", "softspoken")
MOST_REGISTERS, MOST_STEPS = 1 << 16, 1 << 16


class Header:
    """What holds of the answers of two parties, whatever the model. Whoever has the fields has these, by the
    names that plans of every scheme have for them."""

    scheme: ClassVar[str] = BUMBLEBEE
    batch: ClassVar[int] = 1
    backwards: ClassVar[bool] = False  # no row is laid in slots
    decimals: int
    tokens: int
    begin: tuple[int, ...]

    @property
    def room(self) -> int:
        """Tokens that a text may have, those of a public beginning included."""
        return self.tokens + len(self.begin)

    @property
    def privacy(self) -> str:
        """What protects a text that is asked."""
        return "128 bits, both parties following the protocol"

    @property
    def step(self) -> float:
        """Unit to which numbers are rounded: as fine as the decimals, because what shares leave of noise does
        not depend on a key."""
        return 10.0**-self.decimals

    @property
    def logit_step(self) -> float:
        """Unit to which logits are rounded: the same."""
        return self.step


@dataclass(frozen=True)
class Reading(Header):
    """How an answer is read: see the plan's fields of these names. bound: magnitude that no number passes."""

    name: Annotated[str, Size(MOST_NAME)]
    task: str
    problem: str
    labels: Annotated[tuple[str, ...], Size(MAX_DOCUMENTS)]
    decimals: Annotated[int, Range(0, 9)]
    bound: Annotated[float, Above(0.0, MOST)]
    normalise: bool

    @property
    def answer(self) -> float:
        """The bound."""
        return self.bound


@dataclass(frozen=True)
class Program(Reading):
    """A list of steps, and how its answers are read. hash: of the plan, 64 hex digits. tokens: that are read
    at once, of a text that is written at most. hidden: columns of the input, register 0.

    entered, answered: formats of the input and of the answer, which is in the register `result`.
    correlations: kind of the correlated transfers. layers: of the model, by which seconds are estimated.
    hides: whether the input is looked up in an encrypted table of `vocab` rows. begin: tokens that stand
    before every text that is written; ends: that end one. front: how a text becomes the input.
    """

    hash: Annotated[str, Matches("[0-9a-f]{64}")]
    tokens: Annotated[int, Range(1, MOST_TOKENS)]
    hidden: Annotated[int, Range(1, MAX_HIDDEN)]
    entered: Format
    steps: tuple[Step, ...]
    result: int
    answered: Format
    correlations: Annotated[str, OneOf(CORRELATIONS)]
    layers: Annotated[int, Range(1, MAX_LAYERS)]
    hides: bool
    begin: tuple[int, ...]
    ends: Annotated[tuple[int, ...], Size(MOST_ENDS)]
    front: FrontConfig

    def __repr__(self) -> str:
        """Returns at most 300 characters."""
        return f"Program({self.name[:80]!r}, tokens={self.tokens}, {len(self.steps)} steps)"

    @property
    def vocab(self) -> int:
        """Words that a tokenizer tells apart."""
        return self.front.vocab

    @property
    def nearest(self) -> int:
        """How many documents of a search a client learns the scores of; 0 for all."""
        last = self.steps[-1] if self.steps else None
        searches = last is not None and last.op == "nearest" and last.outputs == (self.result,)
        return int(last.parameters["count"]) if last and searches else 0

    def sizes(self, rows: int, past: int = 0) -> list[Value]:
        """Returns what each register holds in a run of so many rows. Raises FileError for steps that do not
        fit each other or a limit."""
        return sizes(self.steps, self._input(rows), past, self.result)

    def cost(self, rows: int | None = None, past: int = 0) -> Cost:
        """Counts what one text costs, or so many rows behind those that both hold. Takes a millisecond."""
        entered = self._input(rows or self.tokens)
        return cost.cost_of(self.steps, entered, self.result, past, hides=self.hides)

    def step_cost(self, past: int) -> tuple[Cost, Cost]:
        """Counts one more token of a text, and what is prepared for 32 of them."""
        return cost.step_cost(self.steps, self._input(1), self.result, past, hides=self.hides)

    def maps(self) -> list[Map]:
        """Returns the linear maps that are prepared for a text before it is known: all but those whose result
        is opened. Of a text that is written a map of one row is prepared for 32 tokens."""
        writes = self.task == NEXT
        values = self.sizes(self.tokens, len(self.begin) if writes else 0)
        return [
            Map(number, x.shape, int(step.parameters["outputs"]), x.ring, least=AT_ONCE if writes else 1)
            for number, step in enumerate(self.steps)
            if step.op == "linear" and not step.parameters["opened"]
            for x in (values[step.inputs[0]],)
        ]

    def predicted_seconds(self, link: LinkSpeed | None = None) -> float:
        """Estimates the seconds of one text (see `cost.seconds`)."""
        return cost.seconds(self.cost(), self.layers, link)

    def predicted_bytes(self, link: LinkSpeed | None = None) -> int:
        """Estimates the bytes of one text, without the set-up of the session."""
        return int(self.cost().sent(link) / 8)

    def _input(self, rows: int) -> Value:
        return Value((rows, self.hidden), self.entered.ring)

    def check(self) -> None:
        """Raises FileError naming what is outside the limits of a client that does not trust its server:
        a number, a step that does not fit what it reads, registers that hold too much."""
        require(self._rules(), "program", hint=HINT, broken="is out of range")

    def _rules(self) -> Rules:
        front = self.front
        yield from limits_of(self)
        yield from header_rules(self, front)
        yield "task", self.task in TASKS and self.problem in PROBLEMS and labelled(self)
        # padded on its left, a text begins at a place that only its client knows
        yield "hidden positions", not (self.hides and front.last_token and front.position_table)
        yield "ends", all(0 <= token < front.vocab for token in self.ends)
        formats = self.entered, self.answered
        yield "formats", all(1 <= f.ring <= 64 and 0 <= f.fraction < f.ring for f in formats)
        yield from self._step_rules()

    def _step_rules(self) -> Rules:
        yield "steps", len(self.steps) <= MOST_STEPS
        written = 1
        for step in self.steps:
            step.check(written)
            written += len(step.outputs)
        yield "registers", 0 <= self.result < written <= MOST_REGISTERS
        runs = (
            ((self.tokens, len(self.begin)), (1, self.room - 1)) if self.task == NEXT else ((self.tokens, 0),)
        )
        for rows, past in runs:
            answer = self.sizes(rows, past)[self.result]
            yield "answer", len(answer.shape) == 2 and answer.ring == self.answered.ring
            yield "answer", self.task != NEXT or answer.shape == (1, self.vocab)
            named = self.vocab if self.task == WORDS else len(self.labels)
            yield "numbers of an answer", named in (0, answer.shape[1])
            yield "nearest", not self.nearest or len(self.labels) == answer.shape[1]  # by which they are told
        failure = failure_log2(self.cost().responses)
        yield f"chance of a wrong answer 2^{failure:.1f}", failure <= MOST_FAILURE


def header_rules(plan: Any, front: EmbeddingConfig) -> Rules:
    """Yields what must hold of every plan and program from a server that is not trusted, beside its nodes or
    steps."""
    yield "name", plan.name.isprintable()
    yield "vocabulary", 1 <= front.vocab <= MAX_VOCAB and 1 <= front.positions <= MAX_POSITIONS
    # behind the last row of a table nothing could be embedded
    yield "positions", plan.task != NEXT or not front.position_table or plan.room <= front.positions
    yield "types", 0 <= front.types <= MAX_TYPES
    yield from limits(front)
    yield "epsilon", 0.0 <= front.norm_eps <= 0.1
    yield "labels", len(plan.labels) <= (MAX_DOCUMENTS if plan.problem == SEARCH else MAX_CLASSES)
    yield "labels", all(len(label) <= MOST_LABEL and label.isprintable() for label in plan.labels)
    yield "normalisation of a classifier's answer", not (plan.normalise and plan.labels)
    yield "rows in reverse", not front.backwards
    in_vocabulary = all(0 <= token < front.vocab for token in plan.begin)
    yield "beginning", not plan.begin or (in_vocabulary and plan.room < front.positions)


def encode(program: Program) -> bytes:
    """Encodes a program in its one spelling."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "plan": program.hash,
        **{name: getattr(program, name) for name in (*PLAIN, *LISTS)},
        **{name: vars(getattr(program, name)) for name in ("entered", "answered")},
        "steps": [fields_of(step) for step in program.steps],
        "front": {name: value for name, value in vars(program.front).items() if name != "image"},
        "image": to_json(program.front.image) if program.front.image else None,
        "reading": {name: getattr(program, name) for name in READING},
    }
    return canonical(data)


@lru_cache(maxsize=4)
def decode(data: bytes) -> Program:
    """Decodes and checks a program that somebody else wrote. Raises FileError."""
    if len(data) > MAX_BYTES:
        raise FileError(f"program: {len(data)} bytes, at most {MAX_BYTES}", hint=HINT)
    try:
        program = _program(json.loads(data))
        program.check()
        spelled = encode(program)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise FileError(f"program: damaged ({type(error).__name__})", hint=HINT) from None
    if spelled != data:
        raise FileError("program: not in its one spelling, or of another version", hint=HINT)
    return program


PLAIN = {"tokens": int, "hidden": int, "result": int, "correlations": str, "layers": int, "hides": bool}
LISTS = ("begin", "ends")
READING = ("name", "task", "problem", "labels", "decimals", "bound", "normalise")


def _program(data: dict[str, Any]) -> Program:
    """Builds a program without checks: what differs from the one spelling shows when it is spelled again."""
    return Program(
        **vars(from_json(Reading, data["reading"])),
        **{name: from_json(kind, data[name]) for name, kind in PLAIN.items()},
        **{name: from_json(tuple[int, ...], data[name]) for name in LISTS},
        hash=from_json(str, data["plan"]),
        entered=from_json(Format, data["entered"]),
        answered=from_json(Format, data["answered"]),
        steps=tuple(step_of(step) for step in data["steps"]),
        front=_front(data["front"], data["image"]),
    )


def _front(data: dict[str, Any], image: Any) -> FrontConfig:
    """Builds the front of all its fields: of those at their defaults `from_json` wants none."""
    stated = {each.name for each in fields(FrontConfig) if data.get(each.name) != each.default}
    front: FrontConfig = from_json(FrontConfig, {name: data[name] for name in data if name in stated})
    return replace(front, image=from_json(ImageConfig, image) if image is not None else None)
