"""Range penalties: keep the arguments of exp, 1/x, 1/sqrt, GELU and tanh small.

Under encryption each of these is a polynomial on a fixed interval, whose degree
grows with the interval; a hinge at the edge costs the model next to nothing.
Padding rows pass through every layer as well, so `with_padding_rows` lets each
batch carry a few of them at random positions up to the last.
"""

import math

import torch
from bert import Watch

LIMITS = {
    "scores": (-4.0, 4.0),
    "log_sum": (0.7, 4.6),
    "variance": (math.log(0.4), math.log(2.0)),  # of the logarithm
    "gelu": (-4.0, 4.0),
    "pooler": (-2.5, 2.5),
}


def excess(kind: str, value: torch.Tensor, limits=LIMITS) -> torch.Tensor:
    """Squared distance outside the interval, summed, per row of the batch."""
    low, high = limits[kind]
    x = value.clamp_min(1e-9).log() if kind == "variance" else value
    return ((x - high).relu() ** 2 + (low - x).relu() ** 2).sum() / value.shape[0]


def penalty(watch: Watch, limits=LIMITS) -> torch.Tensor:
    """Sum of the excesses of everything seen in one forward pass."""
    return sum(excess(kind, v, limits) for kind, values in watch.seen.items() for v in values)


def with_padding_rows(ids, mask, extra: int, last: int, generator: torch.Generator):
    """Append `extra` [PAD] columns at random positions in [tokens, last).

    Exact: padding is masked as a key, so its rows depend on their own position
    and on the real tokens only.  Returns ids, mask, positions.
    """
    batch, tokens = ids.shape
    positions = torch.arange(tokens).expand(batch, tokens)
    if tokens >= last:
        return ids, mask, positions
    far = torch.randint(tokens, last, (batch, extra), generator=generator)
    blank = torch.zeros(batch, extra)
    return torch.cat([ids, blank.long()], 1), torch.cat([mask, blank], 1), torch.cat([positions, far], 1)
