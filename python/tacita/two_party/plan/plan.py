"""The plan of the two-party mode: what both parties must agree on before a session, all of it public.

Sizes of the model, number of tokens, fixed-point formats, and calibrated intervals with their margin, rounded
outwards to 8 bits (`planning.calibrate.calibration`). No weights. The intervals are nevertheless a
fingerprint: who holds a candidate checkpoint can calibrate it and compare.
The server makes it from the checkpoint and sends it; the client checks every number before it acts on one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

from tacita.bar import plan_card
from tacita.blocks.tensors import Operations, T, TensorBlocks, W
from tacita.extras import AT_DEFAULT
from tacita.limits import Above, OneOf, Range, Size
from tacita.models.registry import forward, front
from tacita.plans.commitment import LINKS, LinkSpeed
from tacita.plans.json_fields import NOT_STORED, canonical, to_json
from tacita.texts.embedding import MAX_DOCUMENTS, FrontConfig
from tacita.texts.task import NEXT
from tacita.two_party.arithmetic.base import MOST, Bounds, EmbeddingBounds, Format, Formats
from tacita.two_party.plan.correlations import quicker
from tacita.two_party.program import cost
from tacita.two_party.program.program import CORRELATIONS, MOST_NAME, MOST_TOKENS, Header, Program
from tacita.two_party.program.recorder import Held, RecordTensors
from tacita.two_party.program.rings import narrow

FORMAT = "tacita-two-party"
VERSION = 3
PUBLISHED, HIDDEN = EMBEDDINGS = ("published", "hidden")
REMAKE = "the peer runs another release, or the connection is not to a tacita server"


@dataclass(frozen=True)
class TwoPartyPlan(Header):
    """A plan as the module's docstring describes it.

    name: of the model. family: a name in `models.registry`; config: of its type. embeddings: "published" (the
    client gets the tables and embeds) or "hidden" (embedding: what is public of it). bounds: of the model's
    nodes. magnitudes: of what each node gives or takes. answer: bound of a logit, or of the pooled vector
    before the client normalises it. decimals: logits are rounded to. correlations: kind of the correlated
    transfers of a session (see `two_party.plan.correlations`). begin: tokens of a decoder's public beginning
    (`PlanRequest.begin`). nearest: of a search, of how many documents the client learns the scores, 0 for
    all. pace: see `cost.seconds`; no part of the file, and 1 at who reads it.
    """

    name: Annotated[str, Size(MOST_NAME)]
    family: str
    config: Any
    tokens: Annotated[int, Range(2, MOST_TOKENS)]
    embeddings: Annotated[str, OneOf(EMBEDDINGS)]
    formats: Formats
    embedding: EmbeddingBounds | None
    bounds: Bounds
    magnitudes: Mapping[str, float]
    answer: Annotated[float, Above(0.0, MOST)]
    decimals: Annotated[int, Range(0, 9)]
    correlations: Annotated[str, OneOf(CORRELATIONS)] = "ferret"
    begin: tuple[int, ...] = field(default=(), metadata=AT_DEFAULT)
    nearest: Annotated[int, Range(0, MAX_DOCUMENTS)] = field(default=0, metadata=AT_DEFAULT)
    pace: float = field(default=1.0, repr=False, compare=False, metadata=NOT_STORED)

    @cached_property
    def hash(self) -> str:
        """sha256, hex, of the canonical JSON with format and version."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def hidden(self) -> int:
        """Width of the model's hidden states."""
        return int(self.config.hidden)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the model's classes; none where it has no classifier."""
        return tuple(self.config.labels)

    @property
    def normalise(self) -> bool:
        """Whether the client divides an answer by its length."""
        return bool(self.config.normalise)

    @property
    def task(self) -> str:
        """What the model's answer is about (`texts.task`)."""
        return str(self.config.task)

    @property
    def problem(self) -> str:
        """How its numbers are read (`texts.task`)."""
        return str(self.config.problem)

    def __repr__(self) -> str:
        """Returns at most 300 characters."""
        return f"TwoPartyPlan({self.name[:80]!r}, tokens={self.tokens}, {self.privacy})"

    def _repr_html_(self) -> str:
        return plan_card(self, LINKS)

    def predicted_seconds(self, link: LinkSpeed | None = None) -> float:
        """Estimates the seconds of one text (see `cost.seconds`)."""
        return cost.seconds(self.program.cost(), int(self.config.layers), link, self.pace)

    def predicted_bytes(self, link: LinkSpeed | None = None) -> int:
        """Estimates the bytes of one text, without the set-up of the session."""
        return int(self.program.cost().sent(link) / 8)

    @cached_property
    def recorded(self) -> Recorded:
        """The steps of both parties, which follow from the plan. Takes milliseconds."""
        return _record(self)

    @property
    def program(self) -> Program:
        """What a client knows of the plan."""
        return self.recorded.program

    @property
    def numbers(self) -> int:
        """How many numbers the client learns of one text: a row of them, or one for every token; of a text
        that is written, its tokens."""
        return self.tokens if self.task == NEXT else self.program.cost().numbers

    def for_link(self, bits_per_second: float) -> TwoPartyPlan:
        """Returns the plan with the correlated transfers that are quicker over such a link, for a session of
        one text."""
        return replace(self, correlations=quicker(self.program.cost().transfers, bits_per_second))

    def to_bytes(self) -> bytes:
        """Returns canonical JSON."""
        return canonical({"format": FORMAT, "version": VERSION, **to_json(self)})

    def run(self, operations: Operations[T, W], x: T) -> T:
        """Runs the model on an interpreter: hidden states, or rows of a hidden word table, (tokens, hidden)
        -> answer (1, outputs), or (tokens, outputs) of a model that answers for every token."""
        blocks = TensorBlocks(operations)
        return forward(blocks, self.config, front(blocks, self.config, x) if self.embedding else x)


@dataclass(frozen=True)
class Recorded:
    """A walk of a plan's model. exact: the program, which answers with what it has before it is rounded for
    the client. held: what the server's tensors do at a step, by its number, with the format of the result."""

    program: Program
    exact: Program
    held: Mapping[int, tuple[Held, Format]]


def _record(plan: TwoPartyPlan) -> Recorded:
    writes, config, formats = plan.task == NEXT, plan.config, plan.formats
    tokens = plan.room if writes else plan.tokens
    ops = RecordTensors(formats, plan.bounds, tokens, writes=writes, nearest=plan.nearest)
    width = plan.hidden
    looked_up: Format | None = None
    if plan.embedding:  # rows of the word table, which some models map to their hidden states
        width = int(getattr(config, "embedding_size", 0) or plan.hidden)
        looked_up = Format(formats.table_ring(plan.embedding), formats.table)
    x = ops.input((plan.tokens, width), looked_up)
    exact = plan.run(ops, x)
    result = ops.answer(exact, plan.answer)
    whole = {exact.number, result.number} | ({0} if looked_up else set())
    steps, rings = narrow(ops.tape.steps, ops.tape.registers, whole)
    program = Program(
        name=plan.name,
        task=plan.task,
        problem=plan.problem,
        labels=plan.labels,
        decimals=plan.decimals,
        bound=float(plan.answer),
        normalise=plan.normalise,
        hash=plan.hash,
        tokens=plan.tokens,
        hidden=x.shape[1],
        entered=Format(rings[0], x.fraction),
        steps=steps,
        result=result.number,
        answered=result.format,
        correlations=plan.correlations,
        layers=int(config.layers),
        hides=plan.embedding is not None,
        begin=plan.begin,
        ends=tuple(getattr(config, "ends", ())),
        front=FrontConfig.of(config),
    )
    return Recorded(program, replace(program, result=exact.number, answered=exact.format), ops.held)
