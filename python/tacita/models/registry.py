"""Which model a configuration belongs to: the one list of families.

A new family is one file beside this one, or a few lines of `variants`, and one row here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from tacita.blocks.base import Attention, Blocks, T
from tacita.blocks.shapes import Node, Shapes
from tacita.errors import CheckpointError
from tacita.models import bert, decoders, modernbert, nanoguard, variants, vit
from tacita.models.config import EncoderConfig
from tacita.models.layers import MODEL, Family
from tacita.texts.embedding import table_shapes

A = TypeVar("A")  # an interpreter's answer
Config = EncoderConfig  # of any family
# model types that people ask for, and why they are refused
REFUSED = {
    "deberta-v2": "DeBERTa's scores depend on queries and keys times positions: see docs/decisions/0029, and "
    "take a BERT, RoBERTa, ELECTRA or ModernBERT of this size",
}
REFUSED["deberta"] = REFUSED["deberta-v2"]
REFUSED |= dict.fromkeys(
    ("gemma2", "gemma3_text"),
    "Gemma 2 has soft caps of scores and windows in every other layer, Gemma 3 two bases: take a Gemma, "
    "Qwen3 or LLaMA of this size",
)
REFUSED["phi"] = "Phi-2's attention and feed-forward read one norm side by side: take a Phi-3"


FAMILIES: dict[str, Family] = {
    "bert": bert.FAMILY,
    "roberta": variants.ROBERTA,
    "distilbert": variants.DISTILBERT,
    "electra": variants.ELECTRA,
    "albert": variants.ALBERT,
    "mpnet": variants.MPNET,
    "modernbert": modernbert.FAMILY,
    "vit": vit.FAMILY,
    "nanoguard": nanoguard.FAMILY,
    "gpt2": decoders.GPT2,
    "llama": decoders.LLAMA,
    "qwen3": decoders.QWEN3,
    "gemma": decoders.GEMMA,
    "phi3": decoders.PHI3,
}


def family_of(config: Config) -> str:
    """The name of its family. Raises CheckpointError for a configuration of none."""
    for name, family in FAMILIES.items():
        if type(config) is family.config:
            return name
    raise CheckpointError(f"a configuration of type {type(config).__name__}", hint="no family has it")


def named(architecture: str | None, model_type: str | None) -> tuple[str, str]:
    """Returns family and head of what config.json says; without an architecture, an encoder of this type.
    Raises CheckpointError for what no family has."""
    for name, family in FAMILIES.items():
        if architecture in family.architectures:
            if family.model_types and model_type not in (None, *family.model_types):
                raise CheckpointError(
                    f"architecture {architecture!r} and model_type {model_type!r:.80}",
                    hint=f"of two families, whose is it? supported: {', '.join(family.model_types)}",
                )
            return name, family.architectures[str(architecture)]
        if architecture is None and model_type in family.model_types:
            return name, MODEL
    what = f"model_type {model_type!r:.80}" if architecture is None else f"architecture {architecture!r:.80}"
    raise CheckpointError(what, hint=REFUSED.get(str(model_type), supported(architecture or "")))


def supported(architecture: str) -> str:
    """Says what is supported, for people: the architectures of the model that was asked for, or the
    families."""
    names = [name for family in FAMILIES.values() for name in family.architectures]
    model = re.split("For|Model", architecture)[0]
    own = [name for name in names if model and re.split("For|Model", name)[0] == model]
    return f"supported: {', '.join(own or FAMILIES)}{'' if own else ' (docs/families.md)'}"


def unknown_option(family: str, config: object) -> str | None:
    """The first field that holds none of the names that it may have; None where all do.

    config: of that family, or anything with some of these fields, as the model of a plan has.
    """
    options = {name: admitted for name, admitted in FAMILIES[family].options.items() if hasattr(config, name)}
    return next((name for name, admitted in options.items() if getattr(config, name) not in admitted), None)


def outline(family: str, **sizes: Any) -> Config:
    """Returns a configuration that has the nodes of a model of which only sizes and options are known, as a
    plan states them: no tables, and nothing that a checkpoint alone could say."""
    config: Config = FAMILIES[family].config(
        vocab=1, positions=1, types=0, norm_eps=0.0, embeddings=False, **sizes
    )
    return config


def check(config: Config) -> None:
    """Raises CheckpointError for a name that the family does not have, for a classifier whose answer is
    normalised, and for what the family's own `check` refuses."""
    family = family_of(config)
    if field := unknown_option(family, config):
        admitted = ", ".join(FAMILIES[family].options[field])
        raise CheckpointError(f"{field} {getattr(config, field)!r}", hint=f"supported: {admitted}")
    if config.normalise and config.labels:
        raise CheckpointError(
            "a classifier whose answer is normalised", hint="only embeddings are normalised"
        )
    FAMILIES[family].check(config)


def tensor_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor that the model needs, embedding tables first."""
    tables = table_shapes(config, config.hidden) if config.embeddings else {}
    return {**tables, **shapes(config, 1).tensors}


def forward(b: Blocks[T, A], config: Config, x: T, *, all_rows: bool = False) -> A:
    """Runs the model on an interpreter: hidden states (tokens, hidden) -> answer (1, outputs)."""
    result: A = FAMILIES[family_of(config)].forward(b, config, x, all_rows=all_rows)
    return result


def front(b: Blocks[T, A], config: Config, words: T) -> T:
    """Maps rows of the word table (tokens, hidden) of a single text to hidden states."""
    result: T = FAMILIES[family_of(config)].front(b, config, words)
    return result


def shapes(config: Config, tokens: int, *, hidden_embedding: bool = False) -> Shapes:
    """Walks the model on hidden states of so many tokens, and returns its nodes and tensors; with the front
    where it is hidden."""
    walk = Shapes()
    x = (tokens, config.hidden)
    if hidden_embedding:
        x = front(walk, config, (tokens, config.embedding_size or config.hidden))
    forward(walk, config, x)
    return walk


@lru_cache(maxsize=32)
def nodes(config: Config) -> Mapping[str, Node]:
    """Returns the model's nodes by name, in the order of the walk, whatever the number of tokens."""
    return MappingProxyType(shapes(config, 1).nodes)


def attentions(config: Config) -> dict[str, Attention]:
    """Returns the nodes that are attentions, by name."""
    return {name: node for name, node in nodes(config).items() if isinstance(node, Attention)}
