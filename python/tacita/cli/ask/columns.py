r"""Which columns of a file of tabs hold what, by the names in its first line.

>>> columns_of("sentence\tlabel")
Columns(texts=(0,), label=1)
>>> columns_of("idx\tsentence1\tsentence2\tlabel")    # pairs, as in MRPC and RTE
Columns(texts=(1, 2), label=3)
>>> columns_of("question\tsentence")
Columns(texts=(0, 1), label=None)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacita.errors import InputError
from tacita.front.embed import Text

LABELS = ("label", "labels", "class", "target", "score")
COUNTERS = ("idx", "index", "id")
# Names of a second text; with any other name the second of two columns is the label
SECONDS = (
    "text2",
    "sentence2",
    "sentence",
    "text_b",
    "hypothesis",
    "context",
    "passage",
    "answer",
    "document",
)
FIRSTS = ("text", "text1", "sentence1", "text_a", "premise", "question", "query")


@dataclass(frozen=True)
class Columns:
    """texts: of a text, or of both of a pair. label: None without one."""

    texts: tuple[int, ...]
    label: int | None

    def text(self, line: str) -> Text | None:
        """The text or the pair of a line; None where a cell is missing or empty."""
        cells = [cell.strip() for cell in line.split("\t")]
        found = tuple(cells[at] for at in self.texts if at < len(cells) and cells[at])
        if len(found) < len(self.texts):
            return None
        return found[0] if len(found) == 1 else (found[0], found[1])


PAIR = Columns((0, 1), None)  # of a file without a header


def columns_of(header: str) -> Columns:
    """By the names of a header. Raises InputError where these leave no text, or more than two."""
    names = [name.strip().lower() for name in header.split("\t")]
    label = next((at for at, name in enumerate(names) if name in LABELS), None)
    if label is None and len(names) == 2 and names[1] not in SECONDS:
        label = 1
    texts = tuple(at for at, name in enumerate(names) if at != label and name not in COUNTERS)
    if not 1 <= len(texts) <= 2:
        raise InputError(
            f"a header with columns {', '.join(names)[:200]!r}: {len(texts)} of them hold texts",
            hint="one text or two, then label: text, label or text, text2, label",
        )
    return Columns(texts, label)


def is_header(line: str) -> bool:
    """Whether a line of a file of pairs names its columns."""
    names = [name.strip().lower() for name in line.split("\t")]
    return len(names) > 1 and set(names) <= {*FIRSTS, *SECONDS, *LABELS, *COUNTERS}


def texts_of(lines: Sequence[str]) -> list[Text]:
    """Texts or pairs of the lines of a file with a header; those without are left out."""
    columns = columns_of(lines[0])
    return [text for line in lines[1:] if (text := columns.text(line)) is not None]
