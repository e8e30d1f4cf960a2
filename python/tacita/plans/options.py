"""What a plan of ciphertexts may have beyond its scheme, as both sides read it: one object an option, in a
list that the checks of a plan, its answers and the commands walk over.

    DecisionMargin    the client gets the likeliest word alone, of logits that are `Plan.gap` apart
    KeptRows          the server keeps the rows of earlier tokens: `Plan.kept`

An option whose statement is a number states it in `Plan.options` under its name and needs no field of its
own. How a server makes a plan that has one: `planning.options`, which has an object of the same name for
each. Two parties have their own kind of plan and list their options of it in `two_party.plan.check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tacita.limits import Rules
from tacita.plans.error import MOST_DECIMALS
from tacita.texts.task import CHOICE, NEXT

if TYPE_CHECKING:  # which walks over the list of this module
    from tacita.plans.plan import Plan

CHOSEN = 1.25  # bound of a word's share of a choice, which is 1 at most
CHOICE_DECIMALS = 1  # of such a share: more would say more of two logits that are near
MOST_BOUND = 2.0**60  # magnitude that no bound of a model that works comes near
REQUEST, RESPONSE = frozenset({"hidden", "mask", "average"}), "answer"  # names of what is sent


class PlanOption:
    """What a plan means by an option; the defaults are those of an option that changes no answer.

    name: by which `Plan.options` states it. task: of the answers, None for the model's. decimals: the most
    that an answer may be shown to.
    """

    name: ClassVar[str]
    task: ClassVar[str | None] = None
    decimals: ClassVar[int] = MOST_DECIMALS

    def stated(self, plan: Any) -> bool:
        """Tells whether the plan has the option."""
        return self.name in plan.options

    def check(self, plan: Any) -> Rules:
        """Yields the rules of a plan that has the option (`plans.check`)."""
        return ()

    def describe(self, plan: Any) -> str:
        """Says what a plan that has the option does otherwise, for people."""
        return self.name


class DecisionMargin(PlanOption):
    """The client learns the likeliest word and no logit; logits nearer than `Plan.gap` are not told apart."""

    name = "decision margin"
    task = CHOICE
    decimals = CHOICE_DECIMALS

    def stated(self, plan: Plan) -> bool:
        return plan.gap != 0.0

    def check(self, plan: Plan) -> Rules:
        yield "gap of a choice", 0.0 < plan.gap <= MOST_BOUND and plan.model.task == NEXT
        yield "bound of a choice", plan.answer == CHOSEN
        yield "layout: bound of a choice", plan.layout.response.bound == 1.0
        yield f"decimals (0 to {CHOICE_DECIMALS})", plan.decimals <= CHOICE_DECIMALS

    def describe(self, plan: Plan) -> str:
        return f"it reveals the likeliest token alone, of logits {plan.gap:g} apart"


class KeptRows(PlanOption):
    """A text is asked row by row, and the server keeps the rows of earlier tokens as ciphertexts."""

    name = "kept rows"

    def stated(self, plan: Plan) -> bool:
        return bool(plan.kept)

    def check(self, plan: Plan) -> Rules:
        """Yields the rules of what is kept: keys and values of each layer, at levels that a zero of the
        request reaches, so that the first step needs nothing else."""
        highest = next(tensor.level for tensor in plan.request if tensor.name == "hidden")
        yield "kept: layers", len(plan.kept) == 2 * plan.model.layers and plan.model.task == NEXT
        yield "kept: names", not {tensor.name for tensor in plan.kept} & {*REQUEST, RESPONSE}
        yield "kept: levels", all(tensor.level <= highest for tensor in plan.kept)

    def describe(self, plan: Plan) -> str:
        return "a text is asked row by row, and the server keeps its rows as ciphertexts"


OPTIONS: list[PlanOption] = [DecisionMargin(), KeptRows()]


def options_of(plan: Plan) -> list[PlanOption]:
    """Returns the options that a plan states."""
    return [option for option in OPTIONS if option.stated(plan)]


def option_rules(plan: Plan) -> Rules:
    """Yields the rules of every option that the plan states; one that this program does not know is
    refused."""
    yield "options", plan.options.keys() <= {option.name for option in OPTIONS}
    for option in options_of(plan):
        yield from option.check(plan)
