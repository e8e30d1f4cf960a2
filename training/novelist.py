"""Train the small decoder that `tacita generate` writes with: a LLaMA of four layers, on six novels.

A passage is <s>, its tokens, </s>. AdamW with warm-up and a cosine; the range penalties keep hidden states,
scores and gates narrow, those of the first token too, which every later one attends to.
"""

import argparse
import json
import math
import time
from pathlib import Path

import data
import novels
import numpy as np
import ranges
import torch
from bert import Watch
from llama import EPSILON, Decoder, Shape
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn import functional as F

BEGIN, END = "<s>", "</s>"
NOTE = "# Beginnings of passages of Jane Austen's novels, which are in the public domain. One text a line."
LIMITS = {
    "hidden": (-6.0, 6.0),
    "variance": (math.log(0.2), math.log(4.0)),  # of the logarithm
    "scores": (-6.0, 6.0),
    "values": (-4.0, 4.0),
    "silu": (-6.0, 6.0),
    "up": (-6.0, 6.0),
}


def make_tokenizer(texts: list[str], pieces: int) -> Tokenizer:
    """Byte-level BPE: whatever is written can be read, and decodes to itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=pieces,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = [(BEGIN, tokenizer.token_to_id(BEGIN))]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=ids)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: list[str], positions: int) -> list[np.ndarray]:
    """<s>, a passage's tokens, </s>; of what is longer than `positions`, the beginning without </s>."""
    end = tokenizer.token_to_id(END)
    return [np.array([*e.ids, end][:positions], np.int64) for e in tokenizer.encode_batch(texts)]


def losses(model: Decoder, batch: list[np.ndarray], watch: Watch | None = None):
    """Cross-entropy of every token behind the first, summed, and how many they are."""
    ids, mask = map(torch.from_numpy, data.pad(batch))
    logits = model(ids[:, :-1], watch)
    target = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum"), int(mask[:, 1:].sum())


def held_out_loss(model: Decoder, sequences: list[np.ndarray]) -> float:
    """Mean over the tokens; its exponential is the perplexity."""
    total, count = 0.0, 0
    with torch.no_grad():
        for picked in data.batches(np.array([len(s) for s in sequences]), 8192, None):
            loss, tokens = losses(model, [sequences[i] for i in picked])
            total, count = total + loss.item(), count + tokens
    return total / count


def extremes(model: Decoder, sequences: list[np.ndarray]) -> dict[str, tuple[float, float]]:
    """What each kind of watched value spans on the first sequences; of a norm the mean square."""
    watch = Watch()
    with torch.no_grad():
        for sequence in sequences:
            model(torch.from_numpy(sequence)[None], watch)
    return {
        k: (min(v.min().item() for v in vs), max(v.max().item() for v in vs)) for k, vs in watch.seen.items()
    }


def optimiser_of(model: Decoder, rate: float) -> torch.optim.Optimizer:
    """AdamW; norms and the table of words do not decay."""
    kept = [p for n, p in model.named_parameters() if p.dim() < 2 or "embed" in n]
    decayed = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    groups = [{"params": kept, "weight_decay": 0.0}, {"params": decayed, "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))


def share(step: int, total: int) -> float:
    """Of the rate: up over 100 steps, then down by a cosine to a hundredth."""
    return min((step + 1) / 100, 0.01 + 0.99 * (1 + math.cos(math.pi * step / total)) / 2)


def train(args, sequences: list[np.ndarray], held_out: list[np.ndarray]) -> Decoder:
    """Penalties are taken on every second step: they cost time, and ranges move slowly."""
    model = Decoder(Shape(vocab=args.pieces))
    optimiser, rng = optimiser_of(model, args.rate), np.random.default_rng(args.seed)
    lengths = np.array([len(s) for s in sequences])
    plan = [picked for _ in range(args.epochs) for picked in data.batches(lengths, args.batch_tokens, rng)]
    start = time.time()
    for step, picked in enumerate(plan):
        for group in optimiser.param_groups:
            group["lr"] = args.rate * share(step, len(plan))
        watch = Watch() if step % 2 == 0 else None
        total, tokens = losses(model, [sequences[i] for i in picked], watch)
        loss = total / tokens
        if watch is not None:
            loss = loss + args.penalty * ranges.penalty(watch, LIMITS)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if (step + 1) % 100 == 0:
            left = (time.time() - start) / (step + 1) * (len(plan) - step - 1)
            print(
                f"step {step + 1}/{len(plan)} loss {total.item() / tokens:.3f} left {left:.0f} s", flush=True
            )
        if (step + 1) % 1000 == 0:
            print(f"held out: perplexity {math.exp(held_out_loss(model, held_out)):.2f}", flush=True)
    return model


def config_of(shape: Shape, tokenizer: Tokenizer) -> dict:
    """config.json as Hugging Face's LLaMA has it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.groups,
        "intermediate_size": shape.feed_forward,
        "hidden_act": "silu",
        "max_position_embeddings": shape.positions,
        "rms_norm_eps": EPSILON,
        "rope_theta": shape.base,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "vocab_size": shape.vocab,
        "bos_token_id": tokenizer.token_to_id(BEGIN),
        "eos_token_id": tokenizer.token_to_id(END),
        "torch_dtype": "float16",
    }


def write_folder(folder: Path, model: Decoder, tokenizer: Tokenizer) -> None:
    """Writes config.json, model.safetensors (fp16) and tokenizer.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.numpy().astype(np.float16) for k, v in model.state_dict().items()}
    if not all(np.isfinite(t).all() for t in tensors.values()):
        raise ValueError("novelist: a weight is not finite in fp16; train with a lower rate")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config_of(model.shape, tokenizer), indent=2) + "\n")
    (folder / "tokenizer.json").write_text(tokenizer.to_str() + "\n")


def read_weights(folder: Path, pieces: int) -> Decoder:
    """The model as it was written, in fp16."""
    model = Decoder(Shape(vocab=pieces))
    tensors = load_file(folder / "model.safetensors")
    model.load_state_dict({k: torch.from_numpy(v.astype(np.float32)) for k, v in tensors.items()})
    return model


def report(model: Decoder, held_out: list[np.ndarray], size: int) -> None:
    """Perplexity, bits a byte of a held-out part of `size` bytes, and ranges, of the folder's fp16."""
    loss, tokens = held_out_loss(model, held_out), sum(len(sequence) - 1 for sequence in held_out)
    bits = loss * tokens / math.log(2) / size
    print(f"held out: perplexity {math.exp(loss):.2f} on {tokens} tokens, {bits:.3f} bits a byte")
    for kind, (low, high) in extremes(model, held_out).items():
        print(f"{kind}: {low:.3g} .. {high:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, required=True, help="the Debian package, unpacked")
    parser.add_argument("--out", type=Path, required=True, help="model folder to write")
    parser.add_argument("--samples", type=Path, help="also write 200 passages' beginnings to calibrate on")
    parser.add_argument("--check", action="store_true", help="train nothing: look at the folder as it is")
    parser.add_argument("--pieces", type=int, default=2048, help="vocabulary size")
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--penalty", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=20261123)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    texts, held_texts = novels.load(args.package)
    own = str(args.out / "tokenizer.json")
    tokenizer = Tokenizer.from_file(own) if args.check else make_tokenizer(texts, args.pieces)
    sequences, held_out = (encode(tokenizer, part, Shape().positions) for part in (texts, held_texts))
    print(f"{len(texts)} passages, {sum(map(len, sequences))} tokens; held out {len(held_texts)}", flush=True)
    if args.samples:
        args.samples.write_text("\n".join([NOTE, *novels.samples(texts, 200, args.seed)]) + "\n")
    if not args.check:
        write_folder(args.out, train(args, sequences, held_out), tokenizer)
    report(read_weights(args.out, args.pieces), held_out, sum(len(text.encode()) for text in held_texts))


if __name__ == "__main__":
    main()
