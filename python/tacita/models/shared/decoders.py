"""What the configurations of decoders have beside those of encoders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tacita.errors import CheckpointError
from tacita.extras import AT_DEFAULT
from tacita.models.shared.config import EncoderConfig, check_task
from tacita.texts.embedding import MAX_VOCAB

if TYPE_CHECKING:
    from tacita.models.shared.fields import Fields


MOST_ENDS = 16


@dataclass(frozen=True)
class DecoderConfig(EncoderConfig):
    """The configuration of a decoder. tied: whether the table of words is the last map, too. ends: tokens
    that end a text."""

    tied: bool = field(default=False, metadata=AT_DEFAULT)
    ends: tuple[int, ...] = field(default=(), metadata=AT_DEFAULT)


def check_decoder(m: DecoderConfig) -> None:
    """Raises CheckpointError for another task than the next token, and for ends that are no tokens."""
    check_task(m)
    ends = all(0 <= token < m.vocab for token in m.ends) and len(m.ends) <= MOST_ENDS
    if not m.last_token or not ends:
        raise CheckpointError(
            f"task {m.task!r}, ends {m.ends!r:.80} of {m.vocab} tokens",
            hint="a decoder says what comes next, and tokens of its vocabulary end a text",
        )


# Fields of config.json that LLaMA's relatives share, each checked as it is read.

BASE, MOST_BASE = 10000.0, 1e9  # of rotary positions


def ends(f: Fields) -> tuple[int, ...]:
    """Reads the tokens that end a text: none, one, or several."""
    value = f.data.get("eos_token_id")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(token) is int and 0 <= token < MAX_VOCAB for token in listed) or len(listed) > MOST_ENDS:
        f.refuse("eos_token_id", f"it must be a token or up to {MOST_ENDS} of them")
    return tuple(listed)


def shared(f: Fields, heads: int) -> int:
    """How many heads of queries share keys and values."""
    of_keys = heads if f.data.get("num_key_value_heads") is None else f.integer("num_key_value_heads", heads)
    if heads % of_keys:
        f.refuse("num_key_value_heads", f"it must divide the {heads} heads of queries")
    return heads // of_keys


def positions(f: Fields, kind: str) -> int:
    """No more than a sliding window of keys, inside which it hides nothing."""
    most, windowed = f.positions("max_position_embeddings"), f.flag("use_sliding_window", kind == "mistral")
    if not windowed or f.data.get("sliding_window") is None:
        return most
    return min(most, f.integer("sliding_window", 1 << 20))


def base(f: Fields) -> float:
    """Reads the base of the rotary positions; newer files keep it in a field of fields."""
    of = f.part("rope_parameters") or f
    of.only("rope_type", "default")
    return of.number("rope_theta", f.number("rope_theta", BASE, 1.0, MOST_BASE), 1.0, MOST_BASE)


def refuse_others(f: Fields, size: int, layers: int) -> None:
    """What would change the model and is not here."""
    f.only("head_dim", size)
    f.only("rope_scaling", None)
    f.only("partial_rotary_factor", 1.0)
    f.only("layer_types", ["full_attention"] * layers)
    f.only("pretraining_tp", 1)
    f.only("is_decoder", True)
    f.only("add_cross_attention", False)
