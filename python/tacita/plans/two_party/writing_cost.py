"""What a text that is written costs two parties: the prompt once, then token by token.

writing = Writing.of(plan, prompt=32)
writing.prompt.bits, writing.token.bits      # both directions together
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tacita.plans.link import LinkSpeed
from tacita.plans.two_party import cost
from tacita.plans.two_party.plan import TwoPartyPlan, counted
from tacita.two_party.count import Cost, prepared_bits, product_bits
from tacita.two_party.steps.prepared import AT_ONCE

COMPARED, CHOSEN = 4, 2  # bits a pair for each bit of their ring, and for each bit that is chosen from them


@dataclass(frozen=True)
class Writing:
    """prompt: of reading so many tokens and choosing the next. ahead: of preparing for 32 tokens, of which
    each takes its part. token: of one more, behind half of the plan's tokens."""

    plan: TwoPartyPlan
    prompt: Cost
    ahead: Cost
    token: Cost

    @staticmethod
    def of(plan: TwoPartyPlan, prompt: int) -> Writing:
        """By the walks that the parties will make."""
        first = counted(plan, prompt, len(plan.begin))
        then = counted(plan, 1, max(prompt, plan.tokens // 2) + len(plan.begin))
        ahead = Cost()
        for maps in plan.step_maps:
            shape = AT_ONCE, maps[0].inputs, sum(d.outputs for d in maps)
            ahead.bits += product_bits(*shape)
            ahead.multiplications += float(prod(shape))
            then.bits += prepared_bits(plan.formats, shape[1]) - product_bits(1, *shape[1:])
        for each in (first, then):
            each.bits += _argmax_bits(plan.vocab, plan.choice_ring)
        return Writing(plan, first, ahead, then)

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
