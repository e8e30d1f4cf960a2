"""Fill-mask: which words of the vocabulary stand best where the text has its mask token.

For vocabularies as small as those of proteins, reactions and SMILES: every token has a number for each word,
and all of them are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacita.errors import InputError
from tacita.texts.answer import Array, Score, softmax
from tacita.texts.embed import Tokens
from tacita.texts.spans import Rows

CANDIDATES = 5  # candidates of a mask that are told


@dataclass(frozen=True)
class Candidate(Score):
    """A piece that may stand in place of a mask. label: a piece, as the vocabulary spells it. token: its
    number."""

    token: int = 0


@dataclass(frozen=True)
class Mask:
    """A mask of the text. start, end: its characters. scores: of the whole vocabulary, the likeliest
    first."""

    start: int
    end: int
    scores: tuple[Candidate, ...]

    def best(self, most: int = CANDIDATES) -> tuple[Candidate, ...]:
        """Returns the likeliest `most` candidates."""
        return self.scores[:most]

    def to_json(self) -> dict[str, Any]:
        """Returns place and candidates."""
        scores = [one.to_json() for one in self.best()]
        return {"start": self.start, "end": self.end, "scores": scores}


@dataclass(frozen=True, repr=False)
class Fill(Rows):
    """The masks of a text with their candidates. masks: of the text, in its order. masked: the text with
    them. label: None."""

    masks: tuple[Mask, ...] = ()
    masked: str = ""

    @property
    def text(self) -> str:
        """The text with the likeliest piece in place of each mask."""
        return self.fill_in([(mask, mask.scores[0]) for mask in self.masks])

    def fill_in(self, chosen: Sequence[tuple[Mask, Candidate]]) -> str:
        """Returns the text with these pieces in place of their masks."""
        text = self.masked
        for mask, one in reversed(chosen):  # from the end, so that earlier places stay where they are
            text = text[: mask.start] + one.label.removeprefix("##") + text[mask.end :]
        return text

    @property
    def wording(self) -> str:
        """The candidates of each mask."""
        each = (", ".join(f"{one.label} {one.score:.3f}" for one in mask.best()) for mask in self.masks)
        return "; ".join(each)

    def fields(self) -> dict[str, Any]:
        """Adds the candidates of each mask, and the filled text."""
        masks = [mask.to_json() for mask in self.masks]
        return {**super().fields(), "masks": masks, "text": self.text}


def fill(answer: Rows, about: Tokens) -> Fill:
    """Turns rows of logits (tokens, vocabulary) into candidates of each mask. Raises InputError for a text
    without a mask."""
    at = [i for i, token in enumerate(about.tokens) if token.id == about.mask and token.part is not None]
    if not at:
        named = about.piece(about.mask) if about.mask is not None else "a mask token, which it lacks"
        raise InputError("fill: the text has no mask", hint=f"the tokenizer's mask is {named}")
    scores = softmax(answer.table[at])
    masks = tuple(_mask(about, i, row) for i, row in zip(at, scores, strict=True))
    return Fill(None, answer.logits, answer.warnings, answer.outputs, masks, about.parts[0])


def _mask(about: Tokens, at: int, scores: Array) -> Mask:
    token, order = about.tokens[at], np.argsort(-scores, kind="stable").tolist()
    candidates = tuple(Candidate(about.piece(i), float(scores[i]), i) for i in order)
    return Mask(token.start, token.end, candidates)
