"""Which model a configuration belongs to: the one list of families.

A new family is one file beside this one and one row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from tacita.blocks.base import Attention, Blocks, T
from tacita.blocks.shapes import Node, Shapes
from tacita.errors import CheckpointError
from tacita.front.front import table_shapes
from tacita.models import bert
from tacita.models.base import Config as Config

A = TypeVar("A")  # an interpreter's answer


@dataclass(frozen=True)
class Family:
    """config: its type, with the fields of `models.base`. module: the file with `forward`, `front` and
    `check`.

    options: names that a field of the configuration may have.
    """

    config: type[Any]
    module: Any
    options: Mapping[str, tuple[str, ...]]


FAMILIES: dict[str, Family] = {
    "bert": Family(bert.BertConfig, bert, {"activation": bert.ACTIVATIONS, "pooling": bert.POOLINGS}),
}


def family_of(config: Config) -> str:
    """The name of its family. Raises CheckpointError for a configuration of none."""
    for name, family in FAMILIES.items():
        if type(config) is family.config:
            return name
    raise CheckpointError(f"a configuration of type {type(config).__name__}", hint="no family has it")


def module_of(config: Config) -> Any:
    """The family's file. Raises CheckpointError for a configuration of none."""
    return FAMILIES[family_of(config)].module


def unknown_option(family: str, config: object) -> str | None:
    """The first field that holds none of the names that it may have; None where all do.

    config: of that family, or anything with these fields.
    """
    options = FAMILIES[family].options.items()
    return next((field for field, known in options if getattr(config, field) not in known), None)


def outline(family: str, **sizes: Any) -> Config:
    """A configuration that has the nodes of a model of which only sizes and options are known, as a plan
    states them: no tables, and nothing that a checkpoint alone could say."""
    config: Config = FAMILIES[family].config(
        vocab=1, positions=1, types=0, norm_eps=0.0, embeddings=False, **sizes
    )
    return config


def check(config: Config) -> None:
    """Raises CheckpointError for a name that the family does not have, for a classifier whose answer is
    normalised, and for what the family's own `check` refuses."""
    family = family_of(config)
    if field := unknown_option(family, config):
        known = ", ".join(FAMILIES[family].options[field])
        raise CheckpointError(f"{field} {getattr(config, field)!r}", hint=f"supported: {known}")
    if config.normalise and config.labels:
        raise CheckpointError(
            "a classifier whose answer is normalised", hint="only embeddings are normalised"
        )
    module_of(config).check(config)


def tensor_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor that the model needs, embedding tables first."""
    tables = table_shapes(config, config.hidden) if config.embeddings else {}
    return {**tables, **shapes(config, 1).tensors}


def forward(b: Blocks[T, A], config: Config, x: T, *, all_rows: bool = False) -> A:
    """The model of this configuration on an interpreter: hidden states (tokens, hidden) -> answer (1,
    outputs)."""
    result: A = module_of(config).forward(b, config, x, all_rows=all_rows)
    return result


def front(b: Blocks[T, A], config: Config, words: T) -> T:
    """Rows of the word table (tokens, hidden) of a single text -> hidden states."""
    result: T = module_of(config).front(b, config, words)
    return result


def shapes(config: Config, tokens: int, *, hidden_embedding: bool = False) -> Shapes:
    """The model's nodes and tensors, for hidden states of so many tokens; with the front where it is
    hidden."""
    found = Shapes()
    x = (tokens, config.hidden)
    forward(found, config, front(found, config, x) if hidden_embedding else x)
    return found


@lru_cache(maxsize=32)
def nodes(config: Config) -> Mapping[str, Node]:
    """The model's nodes by name, in the order of the walk. The number of tokens changes none of them."""
    return MappingProxyType(shapes(config, 1).nodes)


def attentions(config: Config) -> dict[str, Attention]:
    """Those of the nodes that are attentions."""
    return {name: node for name, node in nodes(config).items() if isinstance(node, Attention)}
