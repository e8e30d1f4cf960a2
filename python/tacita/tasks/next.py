"""What a text goes on with: a number for each word of the vocabulary, or the likeliest word alone.

>>> Next(None, (-1.5, 2.25, 2.25), ()).token
1
>>> choice((0.0, 1.0, 0.0), ())
Chosen('token 1 of 3', privacy='unknown')
>>> choice((0.0, 0.0, 0.0), ()).warnings
('outside the calibrated intervals: no word was chosen; do not trust the answer',)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacita.tasks.answer import Answer


@dataclass(frozen=True, repr=False)
class Next(Answer):
    """The logits of the next token, by its number."""

    @property
    def token(self) -> int:
        """The likeliest one; of several the first."""
        return int(self.vector.argmax())

    @property
    def told(self) -> str:
        """Its number: what it spells, the tokenizer says."""
        return f"token {self.token} of {len(self.logits)}"

    def fields(self) -> dict[str, Any]:
        """With the likeliest token."""
        return {**super().fields(), "token": self.token}


@dataclass(frozen=True, repr=False)
class Chosen(Next):
    """The token alone: in place of logits each word's share of the choice, 1 for the one that was chosen and
    0 for all others. Where several are nearer than the plan's gap they share."""

    @property
    def share(self) -> float:
        """Of the token: 1 where no other word was near."""
        return float(self.vector.max())

    @property
    def told(self) -> str:
        """Its number, and whether others were as likely."""
        near = "" if self.share > SURE else ", others are as likely"
        return f"{super().told}{near}"

    def fields(self) -> dict[str, Any]:
        """With the token's share in place of all."""
        kept = {name: value for name, value in super().fields().items() if name != "logits"}
        return {**kept, "share": self.share}


SURE, LEAST, MOST = 0.9, 0.05, 1.5  # share of one word, and the sum of all shares that a choice can have


def choice(shares: tuple[float, ...], warnings: tuple[str, ...]) -> Chosen:
    """Rounded shares of all words. Distrusted where they are those of no choice at all, or of several."""
    trusted = LEAST <= sum(shares) <= MOST
    if not warnings and not trusted:
        what = "no word was" if sum(shares) < LEAST else "several words were"
        warnings = (f"outside the calibrated intervals: {what} chosen; do not trust the answer",)
    return Chosen(None, shares, warnings, trusted=trusted)
