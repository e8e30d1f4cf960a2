"""The program of a two-party plan: what its client does, for clients that hold no model definition."""

from __future__ import annotations

from tacita.errors import PlanError
from tacita.front.front import FrontConfig
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.tasks.task import NEXT
from tacita.two_party.program.recorder import RecordTensors
from tacita.two_party.program.steps import Program, Reading


def program_of(plan: TwoPartyPlan) -> Program:
    """The client's walk, recorded. Takes milliseconds. As public as the plan, whose hash it names.

    Raises PlanError for what programs have no steps for: texts that are written, hidden embeddings, rotary
    positions.
    """
    if plan.task == NEXT or plan.embedding is not None:
        what = "a model that writes texts" if plan.task == NEXT else "a hidden embedding"
        raise PlanError(f"program: {what}", hint="use the Python client: tacita connect")
    ops = RecordTensors(plan.formats, plan.bounds, plan.tokens)
    x = ops.own((plan.tokens, plan.hidden))
    answer = ops.answer(plan.run(ops, x))
    program = Program(
        plan.hash,
        plan.tokens,
        plan.hidden,
        x.format,
        tuple(ops.tape.steps),
        answer.number,
        answer.format,
        answer.shape,
        plan.correlations,
        None if plan.config.image else FrontConfig.of(plan.config),
        reading_of(plan),
    )
    program.check()
    return program


def reading_of(plan: TwoPartyPlan) -> Reading:
    """How its answers are told."""
    said = plan.name, plan.task, plan.problem, plan.labels
    return Reading(*said, plan.decimals, float(plan.answer), plan.normalise)
