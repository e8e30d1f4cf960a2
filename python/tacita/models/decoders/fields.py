"""Fields of config.json that LLaMA's relatives share, each checked as it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacita.front.limits import MAX_VOCAB
from tacita.models.decoders.config import MOST_ENDS

if TYPE_CHECKING:
    from tacita.checkpoint.fields import Fields

BASE, MOST_BASE = 10000.0, 1e9  # of rotary positions


def ends(f: Fields) -> tuple[int, ...]:
    """Tokens that end a text: none, one, or several."""
    given = f.data.get("eos_token_id")
    listed = given if isinstance(given, list) else [] if given is None else [given]
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
    """Newer files keep it in a field of fields."""
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
