"""Retrain sst2-tiny with Powerformer's replacements: powers of the scores in place of softmax, norms that
divide by a stored number (ACL 2025; `tacita/models/retrained.py` says what a plan reads).

    attention   (s + 5)^5 / (n R), R the mean of a layer's powers over real queries, keys and heads
    norm        (x - mean) / D, D the root of a norm's mean variance over real tokens

R and D follow the batches of the first half and are fixed from then on.  The loss is the gold label, the
shipped model's logits and the range penalties.  Embeddings and their norm stay ordinary.
"""

import argparse
import copy
import time
from pathlib import Path

import data
import numpy as np
import ranges
import torch
from bert import Classifier, Norm, SelfAttention, Shape, Watch
from export import write_folder
from safetensors.numpy import load_file
from student import predict_logits, student_shape
from teacher import accuracy, tensors
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F

POWER, OFFSET, MOMENTUM, FOLLOWED = 5, 5.0, 0.98, 0.5


class Average(nn.Module):
    """A number that follows means of batches until it is `fixed`."""

    def __init__(self):
        super().__init__()
        self.value, self.fixed = None, False

    def forward(self, mean: torch.Tensor) -> float:
        if not self.fixed:
            seen = mean.item()
            self.value = seen if self.value is None else MOMENTUM * self.value + (1 - MOMENTUM) * seen
        return self.value


class Powers(SelfAttention):
    def __init__(self, shape: Shape):
        super().__init__(shape)
        self.denominator = Average()

    def forward(self, x: torch.Tensor, bias: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / self.width**0.5
        if watch is not None:
            watch.add("scores", scores)
        keys = (bias == 0).float()  # (batch, 1, 1, tokens)
        means = (scores + OFFSET) ** POWER * keys / keys.sum(-1, keepdim=True)
        queries = keys.transpose(-1, -2)
        mean = (means.sum(-1, keepdim=True) * queries).sum() / (queries.sum() * self.heads)
        return (means / self.denominator(mean) @ v).transpose(1, 2).flatten(2)


class StoredNorm(Norm):
    """Reads the batch's mask from `keys`, since a norm is not called with it."""

    def __init__(self, width: int):
        super().__init__(width)
        self.deviation, self.keys = Average(), None

    def forward(self, x: torch.Tensor, watch: Watch | None = None) -> torch.Tensor:
        variance = x.var(-1, unbiased=False)
        if watch is not None:
            watch.add("variance", variance)
        mean = (variance * self.keys).sum() / self.keys.sum()
        return (x - x.mean(-1, keepdim=True)) / self.deviation(mean**0.5) * self.weight + self.bias


class Retrained(Classifier):
    def __init__(self, shape: Shape):
        super().__init__(shape)
        for layer in self.bert.encoder["layer"]:
            layer.attention["self"] = Powers(shape)
            layer.attention["output"].LayerNorm = StoredNorm(shape.hidden)
            layer.output.LayerNorm = StoredNorm(shape.hidden)

    def of(self, kind: type) -> list:
        return [module for module in self.modules() if isinstance(module, kind)]

    def forward(self, ids, mask, positions=None, watch: Watch | None = None):
        for norm in self.of(StoredNorm):
            norm.keys = mask
        return super().forward(ids, mask, positions, watch)

    def fields(self) -> dict:
        """What config.json has beside an ordinary model's fields."""
        roots = [norm.deviation.value for norm in self.of(StoredNorm)]
        return {
            "attention_variant": "bpmax",
            "attention_power": POWER,
            "attention_offset": OFFSET,
            "attention_denominators": [module.denominator.value for module in self.of(Powers)],
            "norm_variant": "batch",
            "norm_deviations": [roots[i : i + 2] for i in range(0, len(roots), 2)],
        }


def shipped_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors that `planes.py` stored, as float32."""
    planes = load_file(folder / "model.safetensors")
    halves = {
        k: np.ascontiguousarray(np.moveaxis(v, 0, -1)).view(np.float16)[..., 0] for k, v in planes.items()
    }
    return {name: torch.from_numpy(half.astype(np.float32)) for name, half in halves.items()}


def train(model: Retrained, teacher: Classifier, sequences, labels: np.ndarray, args) -> None:
    """AdamW with warm-up and linear decay; the teacher does not learn."""
    lengths, rng = np.array([len(s) for s in sequences]), np.random.default_rng(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.01)
    plan = [b for _ in range(args.epochs) for b in data.batches(lengths, args.batch_tokens, rng)]
    total, start = len(plan), time.time()
    for step, picked in enumerate(plan):
        for average in model.of(Average):
            average.fixed = step >= FOLLOWED * total
        optimiser.param_groups[0]["lr"] = args.rate * min((step + 1) / 50, (total - step) / total)
        loss = loss_of(model, teacher, tensors(sequences, picked), labels[picked], args, generator)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 50 == 49:
            left = (time.time() - start) / (step + 1) * (total - step - 1)
            print(f"step {step + 1}/{total} loss {loss.item():.3f} left {left:.0f} s", flush=True)


def loss_of(model, teacher, batch, labels: np.ndarray, args, generator) -> torch.Tensor:
    ids, mask = batch
    with torch.no_grad():
        soft = teacher(ids, mask)[0].softmax(-1)
    watch = Watch()
    logits, _ = model(*ranges.with_padding_rows(ids, mask, 1, 128, generator), watch)
    gold = F.cross_entropy(logits, torch.from_numpy(labels))
    return 0.5 * gold + F.cross_entropy(logits, soft) + args.penalty * ranges.penalty(watch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sst2", type=Path, required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--model", type=Path, required=True, help="the shipped folder of sst2-tiny")
    parser.add_argument("--out", type=Path, required=True, help="model folder to write")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--penalty", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=20261128)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    dev, rows = (data.read_tsv(args.sst2 / name) for name in ("dev.tsv", "train.tsv"))
    held_out = data.held_out_sentences(dev, rows)
    examples = data.without_fragments(rows, held_out)
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    shape = student_shape(list(tokenizer.get_vocab()))
    model, teacher = Retrained(shape), Classifier(shape).eval()
    shipped = shipped_tensors(args.model)
    teacher.load_state_dict(copy.deepcopy(shipped))
    model.load_state_dict(shipped)
    model.eval()  # without dropout, which would widen what R and D follow
    labels = np.array([e.label for e in examples])
    train(model, teacher, data.encode(tokenizer, examples), labels, args)
    for name, each in (("shipped", teacher), ("retrained", model)):
        right = accuracy(predict_logits(each, data.encode(tokenizer, held_out)), held_out)
        print(f"{name}: {right:.4f} of the held-out sentences right")
    write_folder(args.out, model, tokenizer, shape, model.fields())


if __name__ == "__main__":
    main()
