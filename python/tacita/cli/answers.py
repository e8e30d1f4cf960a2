"""How an answer looks on screen: what it says, and the first of its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacita.cli.console import INCOMPLETE, UNTRUSTED, shown
from tacita.front.embed import Text, parts_of
from tacita.tasks.answer import Answer

FEW = 4  # numbers of an answer that a line has room for
WORDS = 400  # characters of what an answer says


def said(answer: Answer) -> str:
    """What the answer says, escaped."""
    return shown(answer.summary, WORDS)


def numbers(values: Sequence[float], most: int = FEW) -> str:
    """The first values, signed, to three decimals."""
    first = " ".join(f"{value:+.3f}" for value in values[:most])
    return first + (" ..." if len(values) > most else "")


def brackets(answer: Answer, most: int = 8) -> str:
    """The first logits in brackets, as rich prints them; nothing of an answer without any."""
    if not answer.logits:
        return ""
    more = ", ..." if len(answer.logits) > most else ""
    return f"  \\[{', '.join(f'{value:.3f}' for value in answer.logits[:most])}{more}]"


def status_of(answers: Iterable[Answer], *, complete: bool = True) -> int:
    """The exit status (`cli.app`) of a command that gave these answers. complete: whether nothing that was
    asked for was left out."""
    given = list(answers)
    if not all(answer.trusted for answer in given):
        return UNTRUSTED
    return 0 if complete and not any(answer.warnings for answer in given) else INCOMPLETE


def text_of(text: Text, most: int = 200) -> str:
    """A text or both of a pair, escaped."""
    return shown(" | ".join(parts_of(text)), most)


def as_json(text: Text) -> str | list[str]:
    """A text, or both of a pair."""
    return text if isinstance(text, str) else list(text)
