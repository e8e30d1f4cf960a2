"""Variable regions of antibodies, one a line: texts for the antibody models of `checkpoints/`.

A sequence is a germline gene of `germlines.txt`, random amino acids where the third loop is, the published
end of its chain, and a few random mutations. No organism made them; they are of the kind that the models were
trained on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

AMINO = "ACDEFGHIKLMNPQRSTVWY"
HEAVY, LIGHT = ("IGHV",), ("IGKV", "IGLV")
ENDS = {"IGHV": "WGQGTLVTVSS", "IGKV": "TFGQGTKVEIK", "IGLV": "VFGGGTKLTVL"}  # of the genes that join
LOOP = {"IGHV": (5, 10), "IGKV": (0, 1), "IGLV": (0, 1)}  # the fewest and most amino acids between both
MUTATIONS = (0, 8)
FILE = Path(__file__).with_name("germlines.txt")


def germlines(genes: Sequence[str] = HEAVY + LIGHT) -> list[tuple[str, str]]:
    """Gene and amino acids, of those whose names begin so."""
    lines = [line.split() for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return [(name, letters) for name, letters in lines if name.startswith(tuple(genes))]


def sequences(count: int, seed: int = 1, genes: Sequence[str] = HEAVY + LIGHT) -> list[str]:
    """So many different ones, of random genes."""
    r, known, found = random.Random(seed), germlines(genes), dict[str, None]()
    while len(found) < count:
        found.setdefault(_sequence(r, *r.choice(known)))
    return list(found)


def masked_sequences(count: int, mask: str, seed: int = 1, genes: Sequence[str] = HEAVY + LIGHT) -> list[str]:
    """As `sequences`, three amino acids of each one replaced by the mask."""
    r = random.Random(seed)
    return [_masked(r, sequence, mask) for sequence in sequences(count, seed, genes)]


def _sequence(r: random.Random, gene: str, letters: str) -> str:
    kind = gene[:4]
    loop = "".join(r.choices(AMINO, k=r.randint(*LOOP[kind])))
    found = list(letters + loop + ENDS[kind])
    for at in r.sample(range(len(letters)), r.randint(*MUTATIONS)):
        found[at] = r.choice(AMINO)
    return "".join(found)


def _masked(r: random.Random, sequence: str, mask: str, count: int = 3) -> str:
    hidden = set(r.sample(range(len(sequence)), count))
    return "".join(mask if at in hidden else letter for at, letter in enumerate(sequence))
