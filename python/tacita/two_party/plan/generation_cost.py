"""What a text that is written costs two parties: the prompt once, then token by token.

writing = GenerationCost.of(program, prompt=32, temperature=0.8, top_k=40)
writing.bytes()      # of the prompt, and of a token behind it, both directions together
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.plans.commitment import LinkSpeed
from tacita.two_party.arithmetic.base import choice_ring
from tacita.two_party.arithmetic.masked import AT_ONCE
from tacita.two_party.arithmetic.text_steps import NOISE_SPREAD, count_ring, marks, settled
from tacita.two_party.program import cost
from tacita.two_party.program.cost import Cost
from tacita.two_party.program.program import Program

COMPARED, CHOSEN = 4, 2  # bits a pair for each bit of their ring, and for each bit that is chosen from them
# of a search for the k likeliest, with the making of its transfers: bits a number for each bit of its ring,
# for each of those in which three marks differ, and for a shared bit beside those of the ring that it enters
BELOW, APART, ENTERED = 7.5, 9, 1.3
MORE_SECONDS_A_MB = 0.05  # such bits are many small transfers
ROUNDS_OF_MARKS, ROUNDS_BELOW = 9, 4  # of a step of that search, and of what follows it


@dataclass(frozen=True)
class GenerationCost:
    """What a text costs. prompt: of reading so many tokens and choosing the next. token: of one more, behind
    half of the plan's tokens. ahead: of preparing for 32 of these, of which each takes its part. search: for
    the k likeliest, in both the prompt and a token. rounds: of that search."""

    program: Program
    prompt: Cost
    token: Cost
    ahead: Cost
    search: Cost
    rounds: int = 0

    @staticmethod
    def of(program: Program, prompt: int, temperature: float = 0.0, top_k: int = 0) -> GenerationCost:
        """Counts the walks that the parties will make. temperature, top_k: see `Writer.choose`."""
        begun, vocab = len(program.begin), program.vocab
        first = program.cost(prompt, begun)
        token, ahead = program.step_cost(max(prompt, program.tokens // 2) + begun)
        temperature, top_k = settled(temperature, top_k, vocab)
        ring, wide = choice_ring(program.bound), choice_ring(program.bound + temperature * NOISE_SPREAD)
        search = Cost(likeliest_bits(vocab, ring, wide) if top_k else 0.0)
        for each in (first, token):
            each.bits += _argmax_bits(vocab, wide) + search.bits
        return GenerationCost(program, first, token, ahead, search, likeliest_rounds(ring) if top_k else 0)

    def bytes(self) -> tuple[int, int]:
        """Returns the bytes of the prompt, and of a token with its part of what is prepared."""
        return int(self.prompt.bits / 8), int((self.token.bits + self.ahead.bits / AT_ONCE) / 8)

    def seconds(self, link: LinkSpeed | None = None, pace: float = 1.0) -> tuple[float, float]:
        """Returns the seconds of both, as `cost.seconds` reckons, and what the search takes beyond that."""
        layers = self.program.layers
        prompt = cost.seconds(self.prompt, layers, link, pace)
        ahead, token = (
            pace * cost.working(each) + cost.over(each, layers, link) for each in (self.ahead, self.token)
        )
        more = pace * MORE_SECONDS_A_MB * self.search.bits / 8e6
        more += link.seconds(0.0, self.rounds) if link else 0.0
        return prompt + more, token + ahead / AT_ONCE + more


def _argmax_bits(count: int, ring: int) -> float:
    """Counts the bits of an argmax: the larger of each pair and its number are chosen, by one comparison."""
    index = (count - 1).bit_length()
    return float(count * (COMPARED * ring + CHOSEN * (ring + 1 + index)))


def likeliest_bits(count: int, ring: int, wide: int) -> float:
    """Counts the bits of looking for the k-th largest of so many numbers in this ring, whatever k is, and of
    moving those below it in a wider one, both directions together (`text_steps.keep_likeliest`)."""
    bits = BELOW * ring + wide + ENTERED
    for weight, above in marks(ring):
        apart = ring - weight.bit_length() if len(above) > 1 else 0
        bits += BELOW * ring + APART * apart + len(above) * (count_ring(count) + ENTERED)
    return count * bits


def likeliest_rounds(ring: int) -> int:
    """Counts the rounds of that search, whatever the numbers are and how many."""
    return ROUNDS_OF_MARKS * len(list(marks(ring))) + ROUNDS_BELOW
