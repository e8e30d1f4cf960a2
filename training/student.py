"""Distil the fine-tuned MiniLM-L6 into the shipped 2-layer model.

Embeddings start as the principal components of MiniLM's (384 -> 128, turned by a
random rotation so that no coordinate dominates).  The loss is the gold label on
SST-2, the teacher's soft label and (through a throw-away linear head) sentence
vector on IMDB, and the range penalties.  Weights are
averaged (EMA); the best epoch on dev is kept.  Without `teacher.npz` it trains
on the labels alone.
"""

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path

import data
import numpy as np
import ranges
import torch
import vocabulary
from bert import Classifier, Shape, Watch, mean_pool
from corpus import Corpus, add_corpus_arguments, load_corpus
from export import write_folder
from safetensors.numpy import load_file
from teacher import accuracy, predict
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Targets:
    """gold: labels of the first rows; soft, vector: the teacher's logits and unit
    sentence vectors of the rows after them, None without a teacher."""

    gold: torch.Tensor
    soft: torch.Tensor | None
    vector: torch.Tensor | None


def load_targets(corpus: Corpus, path: Path) -> Targets:
    gold = torch.tensor([e.label for e in corpus.train])
    if not path.exists():
        return Targets(gold, None, None)
    taught = np.load(path)
    vector = F.normalize(torch.from_numpy(taught["pooled"].astype(np.float32)), dim=1)
    return Targets(gold, torch.from_numpy(taught["logits"]), vector)


def projected_embeddings(folder: Path, pieces: list[str], width: int, positions: int, seed: int):
    """Word (pieces, width) and position (positions, width) vectors from MiniLM's by PCA."""
    tensors = load_file(folder / "model.safetensors")
    full = Tokenizer.from_file(str(folder / "tokenizer.json"))
    words = tensors["embeddings.word_embeddings.weight"][[full.token_to_id(p) for p in pieces]]
    centre = words.mean(0)
    axes = np.linalg.svd(words - centre, full_matrices=False)[2][:width].T
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]
    basis = axes @ turn
    word = (words - centre) @ basis
    place = tensors["embeddings.position_embeddings.weight"][:positions] @ basis
    scale = 0.05 / word.std()
    return torch.from_numpy(word * scale).float(), torch.from_numpy(place * scale).float()


def student_shape(pieces: list[str]) -> Shape:
    return Shape(len(pieces), hidden=128, layers=2, heads=2, feed_forward=512, positions=128)


def new_student(args, pieces: list[str]) -> Classifier:
    """Student with projected embeddings; the other matrices are N(0, 0.04^2), biases 0."""
    model = Classifier(replace(student_shape(pieces), dropout=args.dropout))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.04)
            nn.init.zeros_(module.bias)
    word, place = projected_embeddings(args.minilm, pieces, 128, 128, args.seed)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.copy_(word)
        model.bert.embeddings.position_embeddings.weight.copy_(place)
        model.bert.embeddings.token_type_embeddings.weight.mul_(0.02)
    return model


def masked_words(ids: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
    """Replace ordinary tokens by [MASK] with probability `rate`; specials stay."""
    drop = (torch.rand(ids.shape, generator=generator) < rate) & (ids >= len(vocabulary.SPECIAL))
    return ids.masked_fill(drop, vocabulary.SPECIAL.index("[MASK]"))


def task_loss(logits, vector, targets: Targets, picked) -> torch.Tensor:
    """Labelled rows: smoothed cross-entropy.  Unlabelled ones: the teacher's soft
    label, and 2 (1 - cosine) to its sentence vector.  Mean over the batch."""
    labelled = picked < len(targets.gold)
    gold = targets.gold[picked[labelled]]
    loss = F.cross_entropy(logits[labelled], gold, label_smoothing=0.1, reduction="sum")
    if targets.soft is not None:
        taught = picked[~labelled] - len(targets.gold)
        soft = F.softmax(targets.soft[taught], 1)
        cosine = (F.normalize(vector[~labelled], dim=1) * targets.vector[taught]).sum(1)
        loss = loss - (soft * F.log_softmax(logits[~labelled], 1)).sum() + 2 * (1 - cosine).sum()
    return loss / len(picked)


class Average:
    """Exponential moving average of a module's parameters."""

    def __init__(self, model: nn.Module, decay: float):
        self.decay, self.steps = decay, 0
        self.values = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model: nn.Module) -> None:
        self.steps += 1
        rate = max(1 - self.decay, 1 / (self.steps + 1))
        for key, value in model.state_dict().items():
            self.values[key].lerp_(value, rate)


def training_step(model, guide, sequences, targets, picked, args, generator) -> torch.Tensor:
    """Loss of one batch, range penalties included."""
    ids, mask = map(torch.from_numpy, data.pad([sequences[i] for i in picked]))
    tokens = ids.shape[1]
    ids = masked_words(ids, args.word_dropout, generator)
    ids, mask, positions = ranges.with_padding_rows(ids, mask, 1, 128, generator)
    watch = Watch()
    logits, hidden = model(ids, mask, positions, watch)
    vector = guide(mean_pool(hidden[:, :tokens], mask[:, :tokens]))
    loss = task_loss(logits, vector, targets, torch.from_numpy(picked))
    return loss + args.penalty * ranges.penalty(watch)


def train(args, corpus: Corpus, tokenizer: Tokenizer, pieces: list[str]) -> Classifier:
    """AdamW with warm-up and linear decay; returns the best averaged model on dev."""
    targets = load_targets(corpus, args.work / "teacher.npz")
    rows = corpus.train + (corpus.unlabelled if targets.soft is not None else [])
    sequences = data.encode(tokenizer, rows)
    lengths, rng = np.array([len(s) for s in sequences]), np.random.default_rng(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    model, guide = new_student(args, pieces), nn.Linear(128, 384)
    both = [*model.parameters(), *guide.parameters()]
    optimiser = torch.optim.AdamW(both, lr=args.rate, weight_decay=0.05)
    plan = [data.batches(lengths, args.batch_tokens, rng) for _ in range(args.epochs)]
    averaged, probe = Average(model, args.decay), Classifier(student_shape(pieces))
    run = Run(model, guide, optimiser, averaged, generator)
    run.load(args.work / "student-state.pt")
    total, start, began = sum(map(len, plan)), time.time(), sum(map(len, plan[: run.epoch]))
    step = began
    for epoch_plan in plan[run.epoch :]:
        model.train()
        for picked in epoch_plan:
            share = min((step + 1) / 300, (total - step) / total)
            optimiser.param_groups[0]["lr"] = args.rate * share
            loss = training_step(model, guide, sequences, targets, picked, args, generator)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(both, 1.0)
            optimiser.step()
            averaged.update(model)
            step += 1
            if step % 100 == 0:
                left = (time.time() - start) / (step - began) * (total - step)
                print(f"step {step}/{total} loss {loss.item():.3f} left {left:.0f} s", flush=True)
        probe.load_state_dict(averaged.values)
        scores = dev_scores(probe, tokenizer, corpus)
        run.end_epoch(sum(scores))
        print(f"epoch {run.epoch}: dev {scores[0]:.4f}, held-out sentences {scores[1]:.4f}", flush=True)
        run.save(args.work / "student-state.pt")
    probe.load_state_dict(run.best)
    return probe


@dataclass
class Run:
    """All that the next epoch starts from: an interrupted run goes on with the epoch it was in, and ends with
    the same weights as one that was not."""

    model: nn.Module
    guide: nn.Module
    optimiser: torch.optim.Optimizer
    averaged: Average
    generator: torch.Generator
    epoch: int = 0
    best: dict | None = None
    best_score: float = -1.0

    def end_epoch(self, score: float) -> None:
        self.epoch += 1
        if score >= self.best_score:
            self.best_score, self.best = score, {k: v.clone() for k, v in self.averaged.values.items()}

    def save(self, path: Path) -> None:
        """Whole or not at all: the file is renamed once it is written."""
        parts = {name: getattr(self, name).state_dict() for name in ("model", "guide", "optimiser")}
        state = {
            **parts,
            "averaged": (self.averaged.steps, self.averaged.values),
            "random": (self.generator.get_state(), torch.get_rng_state()),
            "epochs": (self.epoch, self.best, self.best_score),
        }
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)

    def load(self, path: Path) -> None:
        if not path.exists():
            return
        state = torch.load(path)
        for name in ("model", "guide", "optimiser"):
            getattr(self, name).load_state_dict(state[name])
        self.averaged.steps, self.averaged.values = state["averaged"]
        self.generator.set_state(state["random"][0])
        torch.set_rng_state(state["random"][1])
        self.epoch, self.best, self.best_score = state["epochs"]


def dev_scores(model: Classifier, tokenizer: Tokenizer, corpus: Corpus) -> tuple[float, float]:
    """Accuracy on dev and on its held-out sentences; epochs are ranked by the sum."""
    return tuple(
        accuracy(predict_logits(model, data.encode(tokenizer, part)), part)
        for part in (corpus.dev, corpus.held_out)
    )


def predict_logits(model: Classifier, sequences) -> np.ndarray:
    """Logits (rows, 2)."""

    class First(nn.Module):
        def forward(self, ids, mask):
            return model(ids, mask)[0], torch.zeros(len(ids), 1)

        def eval(self):
            model.eval()
            return self

    return predict(First(), sequences)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_corpus_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, help="model folder to write")
    parser.add_argument("--pieces", type=int, default=15_000, help="vocabulary size")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--word-dropout", type=float, default=0.1)
    parser.add_argument("--penalty", type=float, default=0.02)
    parser.add_argument("--decay", type=float, default=0.998)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    corpus = load_corpus(args)
    full = Tokenizer.from_file(str(args.minilm / "tokenizer.json"))
    pieces = vocabulary.choose_pieces(full, corpus.train, corpus.unlabelled, args.pieces)
    model = train(args, corpus, vocabulary.build_tokenizer(pieces), pieces)
    write_folder(args.out, model, vocabulary.build_tokenizer(pieces), student_shape(pieces))


if __name__ == "__main__":
    main()
