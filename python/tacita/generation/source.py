"""The loop of generation: prompt -> token after token, with the text that each adds, until something ends it.

Where tokens come from is a `Source`: the model in the clear (`clear`), or a protocol that gives its client
the tokens and not their logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tacita.errors import PlanError

INCOMPLETE = "\ufffd"  # what the first bytes of a character decode to


class Source(Protocol):
    """A model that goes on behind the tokens that it was told and those that it gave, one at a time."""

    def first(self, prompt: Sequence[int]) -> int:
        """The token behind a prompt, which it is told at once."""

    def next(self, token: int) -> int:
        """The token behind the one that it gave last."""

    @property
    def sound(self) -> bool:
        """Whether no value has left the range that the arithmetic holds."""

    @property
    def near(self) -> Sequence[int]:
        """Tokens that the rounding of the logits did not tell from the one that it gave last."""


@dataclass(frozen=True)
class Token:
    """text: what it adds, empty while a character or a stop text is not complete. sound: see `Source`. near:
    what the tokens spell that might as well have come in its place (`Source.near`)."""

    id: int
    text: str
    sound: bool = True
    near: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ends:
    """most: tokens at most. ids: that end a text. texts: before which it ends, wherever they appear."""

    most: int
    ids: frozenset[int] = frozenset()
    texts: tuple[str, ...] = ()

    def cut(self, text: str) -> int | None:
        """Where the first of `texts` begins."""
        return min((at for stop in self.texts if (at := text.find(stop)) >= 0), default=None)

    def settled(self, text: str) -> int:
        """How many characters no later one can take back."""
        whole = text.rstrip(INCOMPLETE)
        return len(whole) - max((_begun(whole, stop) for stop in self.texts), default=0)


def generated(
    source: Source, prompt: Sequence[int], decode: Callable[[Sequence[int]], str], ends: Ends
) -> Iterator[Token]:
    """Tokens behind the prompt. decode: ids -> text. The token that ends a text is given, too; nothing is
    computed behind it. Together the texts are what comes before the first of `ends.texts`."""
    ids, told, skipped = list(prompt), 0, len(decode(prompt))
    for number in range(1, ends.most + 1):
        ids.append(source.next(ids[-1]) if number > 1 else source.first(prompt))
        text = decode(ids)[skipped:]
        cut, last = ends.cut(text), number == ends.most or ids[-1] in ends.ids
        upto = cut if cut is not None else len(text) if last else max(told, ends.settled(text))
        near = tuple(decode([*ids[:-1], other])[len(decode(ids[:-1])) :] for other in source.near)
        yield Token(ids[-1], text[told:upto], source.sound, near)
        told = max(told, upto)
        if last or cut is not None:
            return


def require_sound(tokens: Iterator[Token]) -> Iterator[Token]:
    """The same tokens. Raises PlanError in the place of the first that is not sound."""
    for number, token in enumerate(tokens, 1):
        if not token.sound:
            raise PlanError(
                f"generate: values left the calibrated ranges at token {number}, which is not shown",
                hint="calibrate on texts like this one (--texts); --show-anyway shows it",
            )
        yield token


def _begun(text: str, stop: str) -> int:
    """The longest end of the text that is a beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
