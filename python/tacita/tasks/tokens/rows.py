"""An answer for every token, before it is known which text the tokens are of.

Who decrypts has numbers; what they say about a text, the text is needed for. `Client.decrypt` without the
text gives this, and with it what `tags`, `extract` or `fill` make of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.tasks.answer import Answer, Array


@dataclass(frozen=True, repr=False)
class Rows(Answer):
    """outputs: numbers a token; the logits hold them token by token."""

    outputs: int = 1

    @property
    def rows(self) -> int:
        """Tokens."""
        return len(self.logits) // self.outputs

    @property
    def table(self) -> Array:
        """(tokens, outputs)."""
        return np.array(self.logits).reshape(-1, self.outputs)

    @property
    def told(self) -> str:
        """Sizes: nothing else is known without the text."""
        return f"{self.rows} tokens x {self.outputs} numbers, of a text not given"

    def fields(self) -> dict[str, Any]:
        """With the numbers a token."""
        return {**super().fields(), "outputs": self.outputs}
