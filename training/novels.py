"""Text for the model that writes: Jane Austen's six novels, as passages of 40 to 150 words.

Debian's package r-cran-janeaustenr has them, a line of the book a string. The last twentieth of each novel
is held out: it is not trained on, and neither the vocabulary nor the calibration sentences see it.
"""

import random
import re
from itertools import groupby
from pathlib import Path

import lazyload

FOLDER = "usr/lib/R/site-library/janeaustenr/data"
HEADING = re.compile(r"\s*(chapter|volume) (\d+|[ivxlc]+)\.?\s*$", re.IGNORECASE)
END = re.compile(r"\s*(finis|the end|a note on the text)\s*$", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?;])(?<!\bMr\.)(?<!\bMrs\.)(?<!\bDr\.)(?<!\bSt\.) |(?<=[.!?]\") ")
FEWEST, MOST, HELD_OUT = 40, 150, 20  # words of a passage; one passage of so many


def chapters(lines: list[str]) -> list[list[str]]:
    """Lines of a book -> lines of each chapter, without what stands before the first and behind the last."""
    found: list[list[str]] = []
    for line in lines:
        if END.match(line):
            break
        if HEADING.match(line):
            found.append([])
        elif found:
            found[-1].append(line)
    return found


def paragraphs(chapter: list[str]) -> list[str]:
    """Lines between empty ones, joined; marks of italics are left out."""
    blocks = (" ".join(block) for told, block in groupby(chapter, lambda line: bool(line.strip())) if told)
    return [re.sub(r"\s+", " ", block.replace("_", "")).strip() for block in blocks]


def passages(chapter: list[str]) -> list[str]:
    """Whole sentences of a chapter in their order: short paragraphs joined, long ones cut."""
    found: list[str] = []
    held: list[str] = []
    for paragraph in paragraphs(chapter):
        for sentence in SENTENCE.split(paragraph):
            if held and len(" ".join([*held, sentence]).split()) > MOST:
                found.append(" ".join(held))
                held = []
            held.append(sentence)
        if len(" ".join(held).split()) >= FEWEST:
            found.append(" ".join(held))
            held = []
    return found + ([" ".join(held)] if held else [])


def load(package: Path) -> tuple[list[str], list[str]]:
    """Passages to train on and passages held out. package: the Debian package, unpacked."""
    train: list[str] = []
    held_out: list[str] = []
    for lines in lazyload.read(package / FOLDER).values():
        found = [passage for chapter in chapters(lines) for passage in passages(chapter)]
        cut = len(found) - len(found) // HELD_OUT
        train += found[:cut]
        held_out += found[cut:]
    return train, held_out


def samples(train: list[str], count: int, seed: int) -> list[str]:
    """Beginnings of passages to calibrate on: 2 to 120 words, most of them short."""
    rng = random.Random(seed)
    return [" ".join(text.split()[: round(2 * 60 ** rng.random())]) for text in rng.sample(train, count)]
