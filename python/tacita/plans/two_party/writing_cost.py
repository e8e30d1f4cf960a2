"""What a text that is written costs two parties: the prompt once, then token by token.

writing = Writing.of(plan, prompt=32)
writing.bytes()      # of the prompt, and of a token behind it, both directions together
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.plans.link import LinkSpeed
from tacita.plans.two_party import cost
from tacita.plans.two_party.plan import TwoPartyPlan, counted, stepped
from tacita.two_party.count import Cost
from tacita.two_party.steps.prepared import AT_ONCE

COMPARED, CHOSEN = 4, 2  # bits a pair for each bit of their ring, and for each bit that is chosen from them


@dataclass(frozen=True)
class Writing:
    """prompt: of reading so many tokens and choosing the next. token: of one more, behind half of the plan's
    tokens. ahead: of preparing for 32 of these, of which each takes its part."""

    plan: TwoPartyPlan
    prompt: Cost
    token: Cost
    ahead: Cost

    @staticmethod
    def of(plan: TwoPartyPlan, prompt: int) -> Writing:
        """By the walks that the parties will make."""
        first = counted(plan, prompt, len(plan.begin))
        step = stepped(plan, max(prompt, plan.tokens // 2) + len(plan.begin))
        for each in (first, step.cost):
            each.bits += _argmax_bits(plan.vocab, plan.choice_ring)
        return Writing(plan, first, step.cost, step.ahead)

    def bytes(self) -> tuple[int, int]:
        """Of the prompt, and of a token with its part of what is prepared."""
        return int(self.prompt.bits / 8), int((self.token.bits + self.ahead.bits / AT_ONCE) / 8)

    def seconds(self, link: LinkSpeed | None = None) -> tuple[float, float]:
        """Likewise, as `cost.seconds` reckons."""
        layers = int(self.plan.config.layers)
        prompt, ahead, token = (cost.seconds(x, layers, link) for x in (self.prompt, self.ahead, self.token))
        return prompt, token + ahead / AT_ONCE


def _argmax_bits(count: int, ring: int) -> float:
    """The larger of each pair and its number are chosen, by one comparison."""
    index = (count - 1).bit_length()
    return float(count * (COMPARED * ring + CHOSEN * (ring + 1 + index)))
