"""What a calibration runs on: texts, cut to the plan's tokens, and given hidden states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.shapes import CAUSAL, REACH, RELATIVE, ROTARY, options
from tacita.checkpoint import Checkpoint, embed
from tacita.models.registry import attentions
from tacita.texts.embed import Text, embedded, length_of, parts_of, tokenize

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)
POSITIONAL = frozenset({REACH, RELATIVE, ROTARY})


@dataclass(frozen=True)
class Samples:
    """Texts that fit and given states as (hidden, mask) pairs, numbered through; texts are embedded again at
    each use.

    behind: ids of a decoder's public beginning (`PlanRequest.begin`), which stand before each text.
    padded: tokens to which texts are padded, as a client does; None for texts as they are. Padding's rows
    are like those of the first token, unless attention knows positions and is not causal.
    """

    checkpoint: Checkpoint
    texts: Sequence[Text]
    states: Sequence[Sample]
    padded: int | None = None
    behind: tuple[int, ...] = ()

    @staticmethod
    def of(
        checkpoint: Checkpoint,
        tokens: int,
        texts: Iterable[Text],
        states: Sequence[Sample],
        behind: tuple[int, ...] = (),
    ) -> Samples:
        """Collects the samples; texts over `tokens` tokens are cut at word boundaries. Errors: as
        `texts.embed`."""
        flags = [options(a) for a in attentions(checkpoint.config).values()]
        padded = any(each & POSITIONAL and CAUSAL not in each for each in flags)
        cut = [_cut(checkpoint, text, tokens) for text in texts]
        return Samples(checkpoint, cut, states, tokens if padded else None, behind)

    def __len__(self) -> int:
        return len(self.texts) + len(self.states)

    def at(self, numbers: Iterable[int]) -> Iterator[Sample]:
        """Yields the samples with these numbers; texts without padding, unless it is asked for."""
        for i in numbers:
            yield self._text(self.texts[i]) if i < len(self.texts) else self.states[i - len(self.texts)]

    def _text(self, text: Text) -> Sample:
        if self.behind:
            ids = [*self.behind, *tokenize(self.checkpoint, text, special=False)[0]]
            return embedded(self.checkpoint, ids, [0] * len(ids)), np.ones(len(ids))
        return embed(self.checkpoint, text, self.padded or length_of(self.checkpoint, text))


def neighbours(texts: Sequence[Text]) -> list[Text]:
    """Pairs to calibrate a model of pairs on where only single texts are at hand: each with the next one, and
    with itself. Pairs stay as they are.

    >>> neighbours(["a", "b"])
    [('a', 'b'), ('a', 'a'), ('b', 'a'), ('b', 'b')]
    """
    result: list[Text] = []
    for text, following in zip(texts, [*texts[1:], *texts[:1]], strict=True):
        alike = isinstance(text, str) and isinstance(following, str)
        result += [(text, following), (text, text)] if alike else [text]  # type: ignore[list-item]
    return result


def _cut(checkpoint: Checkpoint, text: Text, tokens: int) -> Text:
    """The text without the last words that do not fit; of a pair, the longer one loses them first. An image
    is left as it is."""
    if checkpoint.config.image is not None:
        return text
    parts = [part.split() for part in parts_of(text)]
    while (excess := len(tokenize(checkpoint, _joined(parts))[0]) - tokens) > 0:
        longest = max(parts, key=len)
        if len(longest) < 2:
            break
        del longest[-min(len(longest) - 1, max(1, excess // 4)) :]
    return _joined(parts)


def _joined(parts: Sequence[Sequence[str]]) -> Text:
    first, *second = (" ".join(words) for words in parts)
    return (first, second[0]) if second else first
