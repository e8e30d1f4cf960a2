"""Searches a file of your documents by meaning: the server computes vectors and sees neither documents nor
query.

    python examples/embed_and_search.py docs.txt "a quiet film" --model minilm

The vectors of the documents are kept beside the file, so that the next query asks for one vector alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tacita


def main() -> None:
    """Prints the three documents that are nearest to the query, with their cosines."""
    parser = argparse.ArgumentParser(description="Search documents privately.")
    parser.add_argument("documents", type=Path, help="a file of documents, one a line")
    parser.add_argument("query")
    parser.add_argument("--model", default="minilm", help="tacita models fetch minilm")
    options = parser.parse_args()
    documents = options.documents.read_text(encoding="utf-8").splitlines()
    (query,) = vectors([options.query], options.model)
    cosines = kept_vectors(options.documents.with_suffix(".npy"), documents, options.model) @ query
    for number in np.argsort(-cosines)[:3]:
        print(f"{cosines[number]:.3f}  {documents[number]}")


def vectors(texts: list[str], model: str) -> np.ndarray:
    """Returns a unit vector a text, shape (texts, hidden). Neither text nor vector is seen by the model's
    side."""
    answers = tacita.embed(texts, model=model, backend="ckks", scheme="bumblebee", tokens=32)
    rows = np.array([answer.vector for answer in answers])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def kept_vectors(kept: Path, documents: list[str], model: str) -> np.ndarray:
    """Returns the vectors of a file that was written before, or makes and writes them."""
    if kept.exists() and len(known := np.load(kept)) == len(documents):
        return np.asarray(known)
    made = vectors(documents, model)
    np.save(kept, made)
    return made


if __name__ == "__main__":
    main()
