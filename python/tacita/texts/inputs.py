"""What a caller passes as texts: one, a pair, or any number of them; and texts cut to what a plan holds.

>>> texts_of(word for word in ("fine", "dull"))
(['fine', 'dull'], True)
>>> texts_of(Pair("is it good?", "a fine film"))
([Pair(first='is it good?', second='a fine film')], False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, cast

from tacita.errors import InputError
from tacita.texts.answer import Answer
from tacita.texts.embed import Text, encoded, length_of, parts_of, tokens_of
from tacita.texts.embedding import Embedder
from tacita.texts.spans import CONTEXT, MOST_TOKENS, Extract, best_window


class Pair(NamedTuple):
    """Two texts that a model reads as one input, as a premise and its hypothesis."""

    first: str
    second: str


def texts_of(given: Any) -> tuple[list[Text], bool]:
    """Returns the texts, and whether there may be several: False for one text or one `Pair`.

    given: a text, a `Pair`, or any iterable of texts and pairs, such as a list, a generator or an array of
    strings. Raises InputError for a bare tuple, which may mean either, and for anything that is no text.
    """
    if isinstance(given, str | Pair):
        return [_checked(given, "")], False
    if isinstance(given, tuple):
        hint = "tacita.Pair(first, second) is a pair, a list holds texts"
        raise InputError(f"a tuple of {len(given)}: one pair, or {len(given)} texts?", hint=hint)
    if isinstance(given, bytes | Mapping | Set) or not isinstance(given, Iterable):  # a set has no order
        raise InputError(f"texts of type {type(given).__name__}", hint="a text, or a list of texts")
    each = given.tolist() if hasattr(given, "tolist") else given  # an array's own strings are not Python's
    if isinstance(each, str):  # of an array without dimensions
        return [each], False
    return [_checked(one, f" {number}") for number, one in enumerate(each, 1)], True


def _checked(one: Any, place: str) -> Text:
    """Returns a text or a pair. Raises InputError for anything else."""
    if isinstance(one, str):
        return one
    if isinstance(one, tuple | list) and len(one) == 2 and all(isinstance(part, str) for part in one):
        return Pair(*one)
    raise InputError(f"text{place} is of type {type(one).__name__}", hint="a string, or a pair of two")


@dataclass(frozen=True)
class Cut:
    """Texts as they are asked. warnings: of each that was cut, else empty; none at all without `truncate`.
    begins: of each of the caller's texts the characters of its context that stand before each of its windows,
    all of which are asked; empty where each text is asked as it is."""

    texts: Sequence[Text]
    warnings: Sequence[str] = ()
    begins: Sequence[Sequence[int]] = ()

    @staticmethod
    def of(
        front: Embedder | None, texts: Sequence[Text], tokens: int, verb: str, *, truncate: bool = False
    ) -> Cut:
        """Cuts each text by `truncated`, or the context of a question into `windows`, where the verb is
        `answer` and nothing is to be left out; without a front, as of a model of hidden states, none."""
        if front is None or not (truncate or verb == "answer"):
            return Cut(texts)
        if truncate:
            cut = [truncated(front, text, tokens) for text in texts]
            return Cut([text for text, _ in cut], [warning for _, warning in cut])
        each = [windows(front, text, tokens) for text in texts]
        questions: list[Text] = [window.text for one in each for window in one]
        return Cut(questions, begins=[[window.first for window in one] for one in each])

    def join(self, answers: Sequence[Answer]) -> list[Answer]:
        """Returns the answers of the caller's texts: with their warnings, and of the windows of a context
        the best one."""
        if self.begins:
            rest = iter(cast(Sequence[Extract], answers))
            return [best_window(list(islice(rest, len(each))), each) for each in self.begins]
        added = [(warning,) if warning else () for warning in self.warnings or [""] * len(answers)]
        return [replace(a, warnings=(*a.warnings, *more)) for a, more in zip(answers, added, strict=True)]


def truncated(front: Embedder, text: Text, tokens: int) -> tuple[Text, str]:
    """Returns the text cut to so many tokens, and a warning that says so, empty where nothing was cut.

    Tokens are taken from the end, of a pair from the end of the longer part. tokens: of the plan; a model
    with fewer positions has the last word. An image is not cut. Raises what `embed.tokenize` raises.
    """
    most = min(tokens, front.config.positions)
    if front.config.image is not None or (length := length_of(front, text)) <= most:
        return text, ""
    parts, over = parts_of(text), length - most
    while over > 0:  # a cut can split a word into more tokens than it took away
        parts, before = _cut(front, parts, over), parts
        if parts == before or not all(part.strip() for part in parts):
            raise InputError(f"truncate: {most} tokens hold nothing of the text", hint="plan for more")
        over = length_of(front, _text(parts)) - most
    return _text(parts), f"truncated: the model saw {most} of {length} tokens"


def _cut(front: Embedder, parts: Sequence[str], over: int) -> tuple[str, ...]:
    """Takes so many tokens away, each from the part that has more of them then; of equal ones from the one
    that was shorter, as tokenizers do."""
    encoding = encoded(front, _text(parts))
    ends: list[list[int]] = [[0] for _ in parts]
    for (_, end), part in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        if part is not None:
            ends[part].append(end)
    shortest_first = sorted(ends, key=len)
    for _ in range(over):
        if len(longest := max(shortest_first, key=len)) > 1:
            longest.pop()
    return tuple(part[: own[-1]] for part, own in zip(parts, ends, strict=True))


def _text(parts: Sequence[str]) -> Text:
    return parts[0] if len(parts) == 1 else Pair(*parts)


# A context that is longer than the plan: windows of it, as transformers' pipeline makes them. Each is asked
# with the whole question, and the best answer of all of them counts.

MOST_WINDOWS = 64  # of a context: each costs what a text does
OVERLAP = 128  # tokens that neighbours share at most, as there


class Window(NamedTuple):
    """A question with a part of its context, which begins behind `first` characters."""

    text: Text
    first: int


def windows(front: Embedder, text: Text, tokens: int) -> list[Window]:
    """Returns the windows of a pair (question, context) that a plan of so many tokens takes: the pair alone
    where it fits. They begin with words, and neighbours share as many tokens as an answer may have, so each
    answer lies in one of them. Raises InputError where the question leaves them no room, for more than
    `MOST_WINDOWS`, and what `embed.tokenize` raises."""
    most = min(tokens, front.config.positions)
    if isinstance(text, str) or length_of(front, text) <= most:
        return [Window(text, 0)]
    about = tokens_of(front, text)
    own = [token for token in about.tokens if token.part == CONTEXT]
    room = most - len(about) + len(own)
    overlap = min(OVERLAP, room // 2)
    if overlap < MOST_TOKENS - 1:
        raise InputError(
            f"answer: {most} tokens, {most - room} of them for the question", hint="plan for more"
        )
    if len(own) > MOST_WINDOWS * (room - overlap):
        what = f"the context has {len(own)} tokens, over {MOST_WINDOWS} windows of {room}"
        raise InputError(f"answer: {what}", hint="split it, or plan for more tokens")
    starts = [token.start == token.word[0] for token in own]
    parts, first = list[Window](), 0
    while True:
        last, begin = min(first + room, len(own)), own[first].start
        while length_of(front, part := Pair(text[0], text[1][begin : own[last - 1].end])) > most:
            last -= 1  # a cut can split a word into more tokens than it took away
        parts.append(Window(part, begin))
        if last == len(own):
            return parts
        after = max(last - overlap, first + 1)
        first = next((at for at in range(after, first, -1) if starts[at]), after)
