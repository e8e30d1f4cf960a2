"""Sentences in the style of SST-2 that nobody wrote: training rows with words replaced by near ones, and
pieces of them.  The teacher labels them.

A student of two layers has 56,169 phrases to learn from, which are pieces of under 10,000 sentences; the
teacher knows more words and more ways to put them than these show.  After Tang et al., "Distilling
Task-Specific Knowledge from BERT into Simple Neural Networks" (arXiv 1903.12136, section 3.2), who replace
words by those of the same part of speech; here a word is replaced by one of those nearest to it in MiniLM's
table of word pieces.
"""

import random
from collections import Counter
from pathlib import Path

import numpy as np
from data import Example
from safetensors.numpy import load_file
from tokenizers import Tokenizer

NEAR, REPLACED, CUT, LEAST = 8, 0.3, 0.4, 4  # neighbours; share of words, of rows; words of a piece


def variants(train: list[Example], minilm: Path, count: int, seed: int) -> list[Example]:
    """So many different texts that are no training row, label -1."""
    rng, seen = random.Random(seed), {e.text for e in train}
    long = [e.text.split() for e in train if len(e.text.split()) >= LEAST]
    near = neighbours(Counter(word for words in long for word in words), minilm)
    found: dict[str, None] = {}
    while len(found) < count:
        text = " ".join(_varied(rng.choice(long), near, rng))
        if text not in seen:
            found[text] = None
    return [Example(text, -1) for text in found]


def neighbours(counts: Counter, minilm: Path, least: int = 3) -> dict[str, list[str]]:
    """The nearest words of each word that is one piece and occurs `least` times, by cosine."""
    known = Tokenizer.from_file(str(minilm / "tokenizer.json")).get_vocab()
    words = sorted(w for w, n in counts.items() if n >= least and w.isalpha() and w in known)
    table = load_file(minilm / "model.safetensors")["embeddings.word_embeddings.weight"]
    unit = table[[known[w] for w in words]]
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    found = {}
    for word, row in zip(words, unit, strict=True):
        nearest = np.argsort(-(unit @ row), kind="stable")[1 : NEAR + 1]
        found[word] = [words[i] for i in nearest]
    return found


def _varied(words: list[str], near: dict[str, list[str]], rng: random.Random) -> list[str]:
    if len(words) > LEAST and rng.random() < CUT:
        size = rng.randint(LEAST, len(words))
        start = rng.randint(0, len(words) - size)
        words = words[start : start + size]
    return [rng.choice(near[w]) if w in near and rng.random() < REPLACED else w for w in words]
