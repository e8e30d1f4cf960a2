"""What a calibration runs on: texts, cut to the plan's tokens, and given hidden states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.checkpoint import Checkpoint, embed
from tacita.front.embed import Text, tokenize

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)


@dataclass(frozen=True)
class Samples:
    """Texts that fit and given states as (hidden, mask) pairs, numbered through; texts are embedded again at
    each use."""

    checkpoint: Checkpoint
    texts: Sequence[Text]
    given: Sequence[Sample]

    @staticmethod
    def of(checkpoint: Checkpoint, tokens: int, texts: Iterable[Text], given: Sequence[Sample]) -> Samples:
        """Texts over `tokens` tokens are cut at word boundaries. Errors: as `front.embed`."""
        return Samples(checkpoint, [_cut(checkpoint, text, tokens) for text in texts], given)

    def __len__(self) -> int:
        return len(self.texts) + len(self.given)

    def at(self, numbers: Iterable[int]) -> Iterator[Sample]:
        """Those with these numbers, without padding where they are texts."""
        for i in numbers:
            yield self._text(self.texts[i]) if i < len(self.texts) else self.given[i - len(self.texts)]

    def _text(self, text: Text) -> Sample:
        return embed(self.checkpoint, text, len(tokenize(self.checkpoint, text)[0]))


def _cut(checkpoint: Checkpoint, text: Text, tokens: int) -> Text:
    """The text without the last words that do not fit; a pair is refused by `embed` rather than cut."""
    if not isinstance(text, str):
        return text
    words = text.split()
    while (excess := len(tokenize(checkpoint, " ".join(words))[0]) - tokens) > 0 and len(words) > 1:
        words = words[: max(1, len(words) - max(1, excess // 4))]
    return " ".join(words)
