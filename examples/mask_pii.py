"""Masks names and places in a text: the tagger that finds them never sees the text.

    python examples/mask_pii.py "Ada lives in London." --model dslim/bert-base-NER
    Ada lives in London.   ->   [PER] lives in [LOC].

Any model of token classification will do. Check what it misses on texts of yours before you rely on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import tacita


def main() -> None:
    """Prints the text with its spans masked."""
    parser = argparse.ArgumentParser(description="Mask spans of a text privately.")
    parser.add_argument("text")
    parser.add_argument("--model", default="dslim/bert-base-NER")
    parser.add_argument("--least", type=float, default=0.5, help="score from which on a span is masked")
    options = parser.parse_args()
    tags = tacita.tag(options.text, model=options.model, backend="ckks", scheme="bumblebee", tokens=32)
    print(masked(options.text, [span for span in tags.spans if span.score >= options.least]))


def masked(text: str, spans: Sequence[Any]) -> str:
    """Returns the text with each span replaced by its label.

    >>> from types import SimpleNamespace
    >>> masked("Ada lives here", [SimpleNamespace(start=0, end=3, label="PER")])
    '[PER] lives here'
    """
    for span in sorted(spans, key=lambda each: each.start, reverse=True):  # so that places before stay
        text = f"{text[: span.start]}[{span.label}]{text[span.end :]}"
    return text


if __name__ == "__main__":
    main()
