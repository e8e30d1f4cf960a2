"""Sorts documents by how well they answer a query, as the last step of a search; the model sees neither.

    python examples/rerank.py docs.txt "Who wrote Emma?" --model cross-encoder/ms-marco-MiniLM-L-6-v2

The model is a cross-encoder: it reads query and document together, so each document is one private text.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import tacita


def main() -> None:
    """Prints the best documents, the most relevant first, with their scores."""
    parser = argparse.ArgumentParser(description="Rerank documents privately.")
    parser.add_argument("documents", type=Path, help="a file of documents, one a line")
    parser.add_argument("query")
    parser.add_argument("--model", default="cross-encoder/ms-marco-MiniLM-L-6-v2")
    parser.add_argument("--top", type=int, default=3)
    options = parser.parse_args()
    documents = options.documents.read_text(encoding="utf-8").splitlines()
    ranking = tacita.rerank(
        options.query, documents, model=options.model, backend="ckks", scheme="bumblebee", tokens=64
    )
    for each in ranking.best(options.top):
        print(f"{each.score:.3f}  {each.document}")


if __name__ == "__main__":
    main()
