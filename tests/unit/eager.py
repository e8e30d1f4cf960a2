"""Operations of blocks by way of recorded steps, one call after the other: on one party's shares, which the
steps are run on at once, and on shapes, whose cost is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.blocks.weights import Weights
from tacita.two_party.arithmetic.base import Bounds, Format, Formats
from tacita.two_party.arithmetic.residues import Share, from_floats
from tacita.two_party.model import ServerModel
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.program.cost import Cost
from tacita.two_party.program.recorder import RecordTensors, Register
from tacita.two_party.program.run import Run, reveal, zeros
from tacita.two_party.program.simulation import Simulation
from tacita.two_party.program.sizes import Pass
from tacita.two_party.protocol.party import Party


@dataclass(frozen=True)
class Known:
    """What a party knows. weights: at the server alone. mask: at the client alone."""

    formats: Formats
    bounds: Bounds
    tokens: int
    weights: Weights | None = None
    mask: np.ndarray | None = None


SIMULATED, NODE = object(), "n"


class SharedTensors(RecordTensors):
    """Operations on registers whose values are this party's shares. party: the engine's `TwoParty`, or
    `SIMULATED` for both parties on whole integers, whose overflows belong to `NODE`."""

    def __init__(self, party: Any, known: Known, watch: Any = lambda node: None) -> None:
        super().__init__(known.formats, known.bounds, known.tokens)
        model = ServerModel(known.formats, known.weights, self.held) if known.weights else None
        nothing: Any = None  # no program: its steps are handed over one by one
        self._run, self._done = Run(party, nothing, known.mask, model, watch), 0
        if party is SIMULATED:
            self._run = Simulation(nothing, known.mask, model)
            self._run.watch(NODE)
        self._words: dict[int, np.ndarray] = {}

    def own(self, x: np.ndarray) -> Register:
        """A tensor that this party alone knows."""
        return self.enters(from_floats(np.asarray(x), self._formats.fraction, self._formats.ring))

    def theirs(self, shape: tuple[int, ...]) -> Register:
        """One that the other party knows."""
        return self.own(np.zeros(shape))

    def enters(self, share: Share) -> Register:
        """A share of any format."""
        register = self.input(share.values.shape, Format(share.ring, share.fraction))
        self._words[register.number] = share.values
        if isinstance(self._run, Simulation):  # which wraps no number
            spare = 64 - share.ring
            self._words[register.number] = ((share.values.view(np.int64) << spare) >> spare).view(np.uint64)
        return register

    def share(self, x: Register) -> Share:
        """This party's share of a register, after all steps so far are run."""
        for number in range(self._done, len(self.tape.steps)):
            self._run.step(number, self.tape.steps[number], self._words, self.tape.registers)
        self._done = len(self.tape.steps)
        return Share(self._words[x.number], x.ring, x.fraction)

    def floats(self, x: Register) -> np.ndarray:
        """What a register holds in a simulation."""
        return np.ldexp(self.share(x).values.view(np.int64).astype(np.float64), -x.fraction)

    @property
    def overflows(self) -> int:
        """Values that left their ring in a simulation."""
        return sum(self._run.overflows.values())

    def give(self, x: Register) -> None:
        """Sends this party's share of an answer."""
        self._run.party.reveal(self.share(self.answer(x, 1.0)).values)

    def reveal(self, x: Register) -> np.ndarray:
        """Opens an answer whose other share is sent."""
        answer = self.answer(x, 1.0)
        return reveal(self._run.party, self.share(answer).values, answer.format)


def counting(formats: Formats, bounds: Bounds, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """A recorder, and registers of these shapes in it, as products leave them; `cost` counts its steps."""
    ops = RecordTensors(formats, bounds, shapes[0][-2])
    return ops, *(ops.input(shape, Format(64, 30)) for shape in shapes)


def cost(ops: RecordTensors) -> Cost:
    """What the steps so far cost."""
    of = ops.tape.registers.__getitem__
    counted = Cost()
    for step in ops.tape.steps:
        counted.add(Pass(step, [*map(of, step.inputs)], [*map(of, step.outputs)], 1))
    return counted


def run_plan(plan: TwoPartyPlan, party: Party, x: np.ndarray, mask: Any = None, model: Any = None) -> Any:
    """One party's run of a plan's program: the answer at the client, which knows x and the mask."""
    program, form = plan.program, plan.program.entered
    if model is None:
        run = Run(party.native, program, mask)
        return reveal(
            party.native, run.answer(from_floats(x, form.fraction, form.ring).values), program.answered
        )
    own = ServerModel(plan.formats, Weights(model.tensors), plan.recorded.held)
    share = Run(party.native, program, model=own).answer(zeros(program, len(x)))
    return party.native.reveal(share)
