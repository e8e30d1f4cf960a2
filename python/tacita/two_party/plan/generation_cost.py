"""What a text costs two parties in parts: one that is written its prompt once, then token by token; one whose
products are prepared what comes before it, and after.

writing = GenerationCost.of(program, prompt=32, temperature=0.8, top_k=40)
writing.bytes()      # of the prompt, and of a token behind it, both directions together
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tacita.plans.commitment import LinkSpeed
from tacita.two_party.arithmetic.base import choice_ring
from tacita.two_party.arithmetic.masked import AT_ONCE
from tacita.two_party.arithmetic.text_steps import NOISE_SPREAD, settled
from tacita.two_party.program import cost
from tacita.two_party.program.cost import Cost
from tacita.two_party.program.program import Program
from tacita.two_party.program.sizes import Product

PLAIN = 0.02  # a product of integers beside one under encryption
MAP_ROUNDS = 2  # of a map that is prepared: the server's permission, the product
COMPARED, CHOSEN = 13, 2  # bits a number for each bit of its ring, and for each bit that is chosen


@dataclass(frozen=True)
class GenerationCost:
    """What a text costs. prompt: of reading so many tokens and choosing the next. token: of one more, behind
    half of the plan's tokens. ahead: of preparing for 32 of these, of which each takes its part."""

    program: Program
    prompt: Cost
    token: Cost
    ahead: Cost

    @staticmethod
    def of(program: Program, prompt: int, temperature: float = 0.0, top_k: int = 0) -> GenerationCost:
        """Counts the walks that the parties will make. temperature, top_k: see `Writer.choose`."""
        begun, vocab = len(program.begin), program.vocab
        first = program.cost(prompt, begun)
        token, ahead = program.step_cost(max(prompt, program.tokens // 2) + begun)
        temperature, top_k = settled(temperature, top_k, vocab)
        ring, wide = choice_ring(program.bound), choice_ring(program.bound + temperature * NOISE_SPREAD)
        for each in (first, token):
            each.bits += _argmax_bits(vocab, wide)
            if top_k:
                each.look_for(vocab, ring, wide)
        return GenerationCost(program, first, token, ahead)

    def bytes(self) -> tuple[int, int]:
        """Returns the bytes of the prompt, and of a token with its part of what is prepared."""
        token = self.token.sent() + self.ahead.sent() / AT_ONCE
        return int(self.prompt.sent() / 8), int(token / 8)

    def seconds(self, link: LinkSpeed | None = None, pace: float = 1.0) -> tuple[float, float]:
        """Returns the seconds of both, as `cost.seconds` reckons."""
        layers = self.program.layers
        prompt = cost.seconds(self.prompt, layers, link, pace)
        ahead, token = (
            pace * cost.working(each, link) + cost.over(each, layers, link)
            for each in (self.ahead, self.token)
        )
        return prompt, token + ahead / AT_ONCE


def _argmax_bits(count: int, ring: int) -> float:
    """Counts the bits of an argmax: about 2.3 comparisons a number, and a choice of it and its place."""
    index = (count - 1).bit_length()
    return float(count * (COMPARED * ring + CHOSEN * (ring + 1 + index)))


@dataclass(frozen=True)
class PreparedCost:
    """What a text costs whose products with weights are prepared (`run.Ahead`). before: what preparing takes;
    after: what is left for the text, which sends its rows less their masks, and has the server multiply
    integers."""

    program: Program
    before: Cost
    after: Cost

    @staticmethod
    def of(program: Program) -> PreparedCost:
        """Counts both for one text."""
        maps = program.maps()
        before, after = Cost(rounds=MAP_ROUNDS * len(maps)), replace(program.cost())
        after.products = [each for each in after.products if each.opened or each.crossed]
        for each in maps:
            before.products.append(Product(each.shape, each.ring))
            before.multiplications += float(prod(each.shape))
            after.bits += prod(each.read) * each.ring
            after.multiplications -= (1 - PLAIN) * prod(each.read) * each.outputs
        return PreparedCost(program, before, after)

    def bytes(self, link: LinkSpeed | None = None) -> tuple[int, int]:
        """Returns the bytes before the text and after it, both directions together."""
        return int(self.before.sent(link) / 8), int(self.after.sent(link) / 8)

    def seconds(self, link: LinkSpeed | None = None, pace: float = 1.0) -> tuple[float, float]:
        """Returns the seconds of both, as `cost.seconds` reckons."""
        ahead = pace * cost.working(self.before, link) + cost.over(self.before, 0, link)
        return ahead, cost.seconds(self.after, self.program.layers, link, pace)
