"""Check a shipped folder with numpy alone: accuracy and ranges at a fixed padded length.

Independent of the training code: float64, erf GELU, LayerNorm eps 1e-12, -inf on
padding keys, every sentence padded to 128 tokens.  Ranges include what padding
rows and padding keys produce, because an encrypted run evaluates those as well.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

erf = np.vectorize(math.erf, otypes=[float])


class Ranges(dict):
    """name -> (least, greatest) value seen."""

    def see(self, name: str, value: np.ndarray) -> None:
        low, high = self.get(name, (np.inf, -np.inf))
        self[name] = (min(low, float(value.min())), max(high, float(value.max())))


class Model:
    """Forward pass of BertForSequenceClassification on padded ids."""

    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_text())
        self.w = {k: v.astype(np.float64) for k, v in load_file(folder / "model.safetensors").items()}
        self.ranges = Ranges()

    def dense(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name, where=None):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        if where is not None:
            self.ranges.see(where, variance)
        unit = centred / np.sqrt(variance + self.config["layer_norm_eps"])
        return unit * self.w[name + ".weight"] + self.w[name + ".bias"]

    def embed(self, ids):
        e = "bert.embeddings."
        total = self.w[e + "word_embeddings.weight"][ids]
        total = total + self.w[e + "position_embeddings.weight"][: ids.shape[1]]
        return self.norm(total + self.w[e + "token_type_embeddings.weight"][0], e + "LayerNorm")

    def attend(self, x, mask, p, n):
        heads = self.config["num_attention_heads"]
        width = self.config["hidden_size"] // heads
        q, k, v = (
            self.dense(x, f"{p}.attention.self.{part}").reshape(*x.shape[:2], heads, width).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width)
        self.ranges.see(f"layer {n} scores", scores)
        weights = np.exp(scores) * mask[:, None, None, :]
        total = weights.sum(-1, keepdims=True)
        self.ranges.see(f"layer {n} sum of exponentials", total)
        return (weights @ v / total).swapaxes(1, 2).reshape(x.shape)

    def layer(self, x, mask, n):
        p = f"bert.encoder.layer.{n}"
        mixed = self.dense(self.attend(x, mask, p, n), f"{p}.attention.output.dense")
        x = self.norm(mixed + x, f"{p}.attention.output.LayerNorm", f"layer {n} variance 1")
        inner = self.dense(x, f"{p}.intermediate.dense")
        self.ranges.see(f"layer {n} GELU input", inner)
        outer = self.dense(inner * 0.5 * (1 + erf(inner / math.sqrt(2))), f"{p}.output.dense")
        out = self.norm(outer + x, f"{p}.output.LayerNorm", f"layer {n} variance 2")
        self.ranges.see(f"layer {n} output", out)
        return out

    def logits(self, ids, mask):
        """ids, mask (batch, tokens) -> logits (batch, 2); updates `ranges`."""
        x = self.embed(ids)
        self.ranges.see("embedding output", x)
        for n in range(self.config["num_hidden_layers"]):
            x = self.layer(x, mask, n)
        inner = self.dense(x[:, 0], "bert.pooler.dense")
        self.ranges.see("pooler input", inner)
        out = self.dense(np.tanh(inner), "classifier")
        self.ranges.see("logits", out)
        return out


def read_rows(path: Path, limit: int | None) -> tuple[list[str], np.ndarray]:
    rows = [line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8")][1:][:limit]
    return [r[0].strip() for r in rows], np.array([int(r[1]) for r in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("table", type=Path, help="tab-separated sentence and label, with a header line")
    parser.add_argument("--tokens", type=int, default=128, help="padded length; 0: no padding")
    parser.add_argument("--limit", type=int, help="first rows only")
    args = parser.parse_args()
    model, (texts, labels) = Model(args.folder), read_rows(args.table, args.limit)
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    tokenizer.enable_truncation(model.config["max_position_embeddings"])
    hits, loss, batch = 0, 0.0, 16 if args.tokens else 1
    for start in range(0, len(texts), batch):
        encoded = [e.ids for e in tokenizer.encode_batch(texts[start : start + batch])]
        ids = np.zeros((len(encoded), args.tokens or len(encoded[0])), int)
        mask = np.zeros(ids.shape)
        for row, e in enumerate(encoded):
            ids[row, : len(e)], mask[row, : len(e)] = e, 1
        out, gold = model.logits(ids, mask), labels[start : start + batch]
        hits += int((out.argmax(1) == gold).sum())
        loss += float((np.logaddexp(out[:, 0], out[:, 1]) - out[np.arange(len(gold)), gold]).sum())
    print(f"accuracy {hits}/{len(texts)} = {hits / len(texts):.4f}, cross-entropy {loss / len(texts):.4f}")
    for name, (low, high) in model.ranges.items():
        print(f"{name:32s} [{low:9.4f}, {high:9.4f}]")


if __name__ == "__main__":
    main()
