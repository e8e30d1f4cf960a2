"""Powerformer's replacements in retrained checkpoints: which ones a model was trained with, and their stored
numbers.

    attention "bpmax": weights (s_ij + offset)^power / R in place of softmax, R stored per layer
    norm "batch":      (x - mean) / D * gamma + beta, D stored per LayerNorm

The weights are averaged over the real keys, sum_j (s_ij + offset)^power V_j / (n R), so that R does not
depend on the length; a model trained with a sum over always m keys has R = R_d / m. Powerformer stores R and
D per token position; here one serves all.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacita.errors import CheckpointError
from tacita.models.fields import Fields

ATTENTIONS = ("softmax", "bpmax")
NORMS = ("layer", "batch")
MOST_POWER = 15


@dataclass(frozen=True)
class Retrained:
    """Options of a retrained model. attention_variant: "softmax" or "bpmax"; norm_variant: "layer" or
    "batch".

    power, offset, denominators (by layer): of bpmax. deviations: of batch, by layer, after attention and
    after feed-forward.
    """

    attention_variant: str = "softmax"
    norm_variant: str = "layer"
    power: int = 0
    offset: float = 0.0
    denominators: tuple[float, ...] = ()
    deviations: tuple[tuple[float, float], ...] = ()

    @property
    def bpmax(self) -> bool:
        return self.attention_variant == "bpmax"

    @property
    def batch_norm(self) -> bool:
        return self.norm_variant == "batch"

    def check(self, layers: int) -> None:
        """Raises CheckpointError unless the numbers of each chosen variant are there for every layer."""
        if self.attention_variant not in ATTENTIONS or self.norm_variant not in NORMS:
            raise CheckpointError(
                f"attention_variant {self.attention_variant!r}, norm_variant {self.norm_variant!r}",
                hint=f"supported: {', '.join(ATTENTIONS)}; {', '.join(NORMS)}",
            )
        if self.bpmax and not (1 <= self.power <= MOST_POWER and _positive(self.denominators, layers)):
            raise CheckpointError(
                f"bpmax with power {self.power} and {len(self.denominators)} denominators for {layers} "
                "layers",
                hint=f"attention_power from 1 to {MOST_POWER}, and one positive attention_denominators "
                "entry a layer",
            )
        both = all(len(pair) == 2 and _positive(pair, 2) for pair in self.deviations)
        if self.batch_norm and not (both and len(self.deviations) == layers):
            raise CheckpointError(
                f"batch normalisation with norm_deviations {self.deviations!r} for {layers} layers",
                hint="two positive numbers a layer: after attention and after feed-forward",
            )


ORDINARY = Retrained()  # softmax and LayerNorm


def read_retrained(f: Fields) -> Retrained:
    """Reads our own fields of config.json: a Hugging Face model has none of them. Raises CheckpointError."""
    data = f.data
    bpmax, batch = data.get("attention_variant") == "bpmax", data.get("norm_variant") == "batch"
    try:
        return Retrained(
            attention_variant=str(data.get("attention_variant", ORDINARY.attention_variant)),
            norm_variant=str(data.get("norm_variant", ORDINARY.norm_variant)),
            power=f.integer("attention_power", MOST_POWER) if bpmax else 0,
            offset=float(data["attention_offset"]) if bpmax else 0.0,
            denominators=tuple(float(v) for v in data["attention_denominators"]) if bpmax else (),
            deviations=tuple((float(a), float(b)) for a, b in data["norm_deviations"]) if batch else (),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{f.path}: stored statistics of a retrained model: {error!r}",
            hint="bpmax needs attention_power, _offset, _denominators; batch needs norm_deviations (pairs)",
        ) from None


def _positive(values: tuple[float, ...], count: int) -> bool:
    return len(values) == count and all(v > 0.0 for v in values)
