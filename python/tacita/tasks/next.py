"""What a text goes on with: a number for each word of the vocabulary.

>>> Next(None, (-1.5, 2.25, 2.25), ()).token
1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacita.tasks.answer import Answer


@dataclass(frozen=True)
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

    def to_json(self) -> dict[str, Any]:
        """With the likeliest token."""
        return {**super().to_json(), "token": self.token}
