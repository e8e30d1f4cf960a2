"""Adds a column of labels to a CSV file; who has the model sees none of its rows.

    python examples/classify_csv.py reviews.csv labelled.csv --column text --model sst2-tiny

Rows whose text has more tokens than the plan get no label and say so: they are not cut without a word.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import tacita


def main() -> None:
    """Writes the rows with two columns more, label and score."""
    parser = argparse.ArgumentParser(description="Classify a column of a CSV file privately.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--column", default="text")
    parser.add_argument("--model", default="sst2-tiny")
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    model = tacita.load(options.model)
    with options.source.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert model.tokenizer is not None  # a model of texts has one
    fits = [row for row in rows if len(model.tokenizer.encode(row[options.column]).ids) <= options.tokens]
    texts = [row[options.column] for row in fits]
    answers = tacita.classify(texts, model=model, backend="ckks", scheme="bumblebee", tokens=options.tokens)
    for row in rows:
        row |= {"label": "too long", "score": ""}
    for row, answer in zip(fits, answers, strict=True):
        row |= {"label": answer.label, "score": f"{answer.scores[0].score:.3f}"}
    with options.target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(fits)} of {len(rows)} rows have a label: {options.target}")


if __name__ == "__main__":
    main()
