"""What the configurations of decoders have beside those of encoders."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacita.errors import CheckpointError
from tacita.models.encoders.config import EncoderConfig, check_task
from tacita.omitted import AT_DEFAULT

MOST_ENDS = 16


@dataclass(frozen=True)
class DecoderConfig(EncoderConfig):
    """tied: whether the table of words is the last map, too. ends: tokens that end a text."""

    tied: bool = field(default=False, metadata=AT_DEFAULT)
    ends: tuple[int, ...] = field(default=(), metadata=AT_DEFAULT)


def check_decoder(m: DecoderConfig) -> None:
    """Raises CheckpointError for another task than the next token, and for ends that are no tokens."""
    check_task(m)
    ends = all(0 <= token < m.vocab for token in m.ends) and len(m.ends) <= MOST_ENDS
    if not m.last_token or not ends:
        raise CheckpointError(
            f"task {m.task!r}, ends {m.ends!r:.80} of {m.vocab} tokens",
            hint="a decoder says what comes next, and tokens of its vocabulary end a text",
        )
