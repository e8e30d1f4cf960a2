"""BERT in plain PyTorch, with Hugging Face's parameter names.

Used for the teacher (MiniLM-L6) and the student (2 layers, hidden 128); only
torch is needed.  A `Watch` passed to `forward` collects the values whose range
decides the cost of polynomial evaluation.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes of a BERT encoder."""

    vocab: int
    hidden: int
    layers: int
    heads: int
    feed_forward: int
    positions: int
    dropout: float = 0.1


@dataclass
class Watch:
    """Tensors seen in one forward pass, by kind: scores, log_sum, variance, gelu, pooler."""

    seen: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    def add(self, kind: str, value: torch.Tensor) -> None:
        self.seen.setdefault(kind, []).append(value)


class Norm(nn.LayerNorm):
    """LayerNorm (eps 1e-12) which reports its input variance."""

    def __init__(self, width: int):
        super().__init__(width, eps=1e-12)

    def forward(self, x: torch.Tensor, watch: Watch | None = None) -> torch.Tensor:
        if watch is not None:
            watch.add("variance", x.var(-1, unbiased=False))
        return super().forward(x)


class Embeddings(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.word_embeddings = nn.Embedding(s.vocab, s.hidden)
        self.position_embeddings = nn.Embedding(s.positions, s.hidden)
        self.token_type_embeddings = nn.Embedding(2, s.hidden)
        self.LayerNorm = Norm(s.hidden)
        self.dropout = nn.Dropout(s.dropout)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        total = self.word_embeddings(ids) + self.position_embeddings(positions)
        return self.dropout(self.LayerNorm(total + self.types(ids)))

    def types(self, ids: torch.Tensor) -> torch.Tensor:
        """Vectors of token types: of a text that is no pair the first one."""
        return self.token_type_embeddings.weight[0]


class SelfAttention(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.heads, self.width = s.heads, s.hidden // s.heads
        self.query, self.key, self.value = (nn.Linear(s.hidden, s.hidden) for _ in range(3))
        self.dropout = nn.Dropout(s.dropout)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, self.width)).transpose(1, 2)

    def forward(self, x: torch.Tensor, bias: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        """x (batch, tokens, hidden); bias (batch, 1, 1, tokens), -inf on padding keys."""
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.width)
        if watch is not None:
            watch.add("scores", scores)  # padding keys too: exp is evaluated before the mask
            watch.add("log_sum", (scores + bias).logsumexp(-1))
        mixed = self.dropout((scores + bias).softmax(-1)) @ v
        return mixed.transpose(1, 2).flatten(2)


class Projection(nn.Module):
    """dense -> dropout -> residual -> LayerNorm (HF: attention.output and output)."""

    def __init__(self, inputs: int, s: Shape):
        super().__init__()
        self.dense = nn.Linear(inputs, s.hidden)
        self.LayerNorm = Norm(s.hidden)
        self.dropout = nn.Dropout(s.dropout)

    def forward(self, x: torch.Tensor, residual: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual, watch)


class Layer(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(s), "output": Projection(s.hidden, s)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(s.hidden, s.feed_forward)})
        self.output = Projection(s.feed_forward, s)

    def forward(self, x: torch.Tensor, bias: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        mixed = self.attention["self"](x, bias, watch)
        x = self.attention["output"](mixed, x, watch)
        inner = self.intermediate["dense"](x)
        if watch is not None:
            watch.add("gelu", inner)
        return self.output(F.gelu(inner), x, watch)


class Bert(nn.Module):
    """Encoder; `pooler` is present in both models, used by the student alone."""

    def __init__(self, s: Shape):
        super().__init__()
        self.embeddings = Embeddings(s)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(s) for _ in range(s.layers))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(s.hidden, s.hidden)})

    def forward(self, ids, mask, positions=None, watch: Watch | None = None) -> torch.Tensor:
        """ids, mask (batch, tokens) -> hidden states (batch, tokens, hidden)."""
        positions = torch.arange(ids.shape[1]) if positions is None else positions
        bias = torch.zeros_like(mask).masked_fill(mask == 0, -math.inf)[:, None, None, :]
        x = self.embeddings(ids, positions)
        for layer in self.encoder["layer"]:
            x = layer(x, bias, watch)
        return x


class Classifier(nn.Module):
    """BertForSequenceClassification: tanh pooler on [CLS], two logits."""

    def __init__(self, s: Shape):
        super().__init__()
        self.bert = Bert(s)
        self.dropout = nn.Dropout(s.dropout)
        self.classifier = nn.Linear(s.hidden, 2)

    def forward(self, ids, mask, positions=None, watch: Watch | None = None):
        """Returns (logits (batch, 2), hidden states (batch, tokens, hidden))."""
        hidden = self.bert(ids, mask, positions, watch)
        inner = self.bert.pooler["dense"](hidden[:, 0])
        if watch is not None:
            watch.add("pooler", inner)
        return self.classifier(self.dropout(torch.tanh(inner))), hidden


def mean_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Average of the real tokens, (batch, hidden)."""
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
