"""LLaMA in plain PyTorch, with Hugging Face's parameter names: RMS norms, rotary positions, grouped heads,
SwiGLU, one table for the first words and the last.

A `Watch` passed to `forward` collects the values whose range decides the formats of an encrypted run.
"""

import math
from dataclasses import dataclass

import torch
from bert import Watch
from torch import nn

EPSILON = 1e-5


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder. groups: heads of keys and values."""

    vocab: int = 2048
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    groups: int = 2
    feed_forward: int = 352
    positions: int = 256
    base: float = 10000.0


class Norm(nn.Module):
    """RMS norm which reports its input's mean square."""

    def __init__(self, width: int, weight: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), weight))

    def forward(self, x: torch.Tensor, watch: Watch | None = None) -> torch.Tensor:
        mean = (x * x).mean(-1, keepdim=True)
        if watch is not None:
            watch.add("variance", mean)
            watch.add("hidden", x)
        return x * (mean + EPSILON).rsqrt() * self.weight


def turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions. x (batch, heads, tokens, width); angles (tokens, width), halves alike."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class Attention(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.width, self.shared = s.hidden // s.heads, s.heads // s.groups
        self.q_proj = nn.Linear(s.hidden, s.hidden, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.groups * self.width, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.groups * self.width, bias=False)
        self.o_proj = nn.Linear(s.hidden, s.hidden, bias=False)

    def forward(self, x: torch.Tensor, angles, later: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        """x (batch, tokens, hidden); later (tokens, tokens): True where a key comes behind its query."""
        q, k, v = (f(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for f in self._maps())
        q, k = turned(q, *angles), turned(k, *angles)
        k, v = (part.repeat_interleave(self.shared, 1) for part in (k, v))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(self.width)
        if watch is not None:
            watch.add("scores", scores.masked_fill(later, 0.0))
            watch.add("values", v)
        mixed = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _maps(self):
        return self.q_proj, self.k_proj, self.v_proj


class FeedForward(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.gate_proj = nn.Linear(s.hidden, s.feed_forward, bias=False)
        self.up_proj = nn.Linear(s.hidden, s.feed_forward, bias=False)
        self.down_proj = nn.Linear(s.feed_forward, s.hidden, bias=False)

    def forward(self, x: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        gate, up = self.gate_proj(x), self.up_proj(x)
        if watch is not None:
            watch.add("silu", gate)
            watch.add("up", up)
        return self.down_proj(nn.functional.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.input_layernorm, self.self_attn = Norm(s.hidden), Attention(s)
        self.post_attention_layernorm, self.mlp = Norm(s.hidden), FeedForward(s)

    def forward(self, x: torch.Tensor, angles, later: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x, watch), angles, later, watch)
        return x + self.mlp(self.post_attention_layernorm(x, watch), watch)


class Model(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm = Norm(s.hidden, 0.2)


class Decoder(nn.Module):
    """The embeddings start with mean square 0.25, so that no norm sees a row near 0; the last norm's weight
    makes up for it where the same table gives logits."""

    def __init__(self, s: Shape):
        super().__init__()
        self.shape, self.model = s, Model(s)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                spread = 0.5 if "embed" in name else (0.5 if last else 1.0) / math.sqrt(weight.shape[1])
                nn.init.normal_(weight, std=spread)

    def forward(self, ids: torch.Tensor, watch: Watch | None = None) -> torch.Tensor:
        """ids (batch, tokens) -> logits (batch, tokens, vocab)."""
        tokens, width = ids.shape[1], self.shape.hidden // self.shape.heads
        rates = self.shape.base ** (-torch.arange(0, width, 2) / width)
        angle = torch.outer(torch.arange(tokens).float(), torch.cat([rates, rates]))
        later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, (angle.cos(), angle.sin()), later, watch)
        return self.model.norm(x, watch) @ self.model.embed_tokens.weight.T
