"""How a text is written, whoever writes it: the most tokens, the texts that end it, the choice of a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tacita.errors import InputError
from tacita.generation.choice import Choice
from tacita.generation.source import Ends

TOKENS = 64  # to be written at most, by default


@dataclass(frozen=True)
class TextOptions:
    """max_tokens: to be written at most. stop: texts before which it ends. Raises InputError for no tokens,
    or for an empty text."""

    max_tokens: int = TOKENS
    stop: tuple[str, ...] = ()
    choice: Choice = field(default_factory=Choice)

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not all(self.stop):
            raise InputError(
                f"generate: {self.max_tokens} tokens, stop texts {list(self.stop)!r:.80}",
                hint="at least one token, and texts that are not empty",
            )


def stop_texts(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the texts, or the one."""
    return (stop,) if isinstance(stop, str) else tuple(stop)


def ends_of(config: Any, options: TextOptions) -> Ends:
    """What ends a text: what was asked for, and the tokens of the model's folder."""
    return Ends(options.max_tokens, frozenset(getattr(config, "ends", ())), options.stop)
