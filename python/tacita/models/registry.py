"""Which model a configuration belongs to: the one list of families.

A new family is one file beside this one and one row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tacita.blocks.base import Blocks, T
from tacita.blocks.shapes import Shapes
from tacita.errors import CheckpointError
from tacita.models import bert

Config = bert.BertConfig
A = TypeVar("A")  # an interpreter's answer


@dataclass(frozen=True)
class Family:
    """config: its type. module: the file with `forward`, `front`, `tensor_shapes` and `check_names`."""

    config: type[Config]
    module: Any


FAMILIES: Mapping[str, Family] = {"bert": Family(bert.BertConfig, bert)}


def module_of(config: Config) -> Any:
    """The family's file. Raises CheckpointError for a configuration of none."""
    for family in FAMILIES.values():
        if type(config) is family.config:
            return family.module
    raise CheckpointError(f"a configuration of type {type(config).__name__}", hint="no family has it")


def forward(b: Blocks[T, A], config: Config, x: T, *, all_rows: bool = False) -> A:
    """The model of this configuration on an interpreter: hidden states (tokens, hidden) -> answer (1, outputs)."""
    result: A = module_of(config).forward(b, config, x, all_rows=all_rows)
    return result


def front(b: Blocks[T, A], config: Config, words: T) -> T:
    """Rows of the word table (tokens, hidden) of a single text -> hidden states."""
    result: T = module_of(config).front(b, config, words)
    return result


def shapes(config: Config, tokens: int, *, hidden_embedding: bool = False) -> Shapes:
    """The model's nodes and tensors, for hidden states of so many tokens; with the front where it is hidden."""
    found = Shapes()
    x = (tokens, config.hidden)
    forward(found, config, front(found, config, x) if hidden_embedding else x)
    return found
