"""What a file calls the tensors that a family names: a declared table, and what old files say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

OLD = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


@dataclass(frozen=True)
class Names:
    """prefixes: of the architecture, which encoders alone are stored without.

    parts: pieces of our names -> pieces of the file's, replaced in this order. also: one of our names ->
    names by which it may be found instead, as the file spells them. Ours are Hugging Face's of BERT, so that
    families of BERT's shape differ in this table alone. flat: tensors that files keep with other axes, in the
    same order. transposed: matrices that files keep with their inputs first. square_after: how many positions
    stand before those of a square, which may be larger or smaller in the file (`checkpoint.positions`); None
    where they may not.

    >>> names = Names(("distilbert.",), {"encoder.": "transformer."})
    >>> names.found("encoder.layer.0.a", {"distilbert.transformer.layer.0.a"})
    'distilbert.transformer.layer.0.a'
    """

    prefixes: tuple[str, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flat: Collection[str] = ()
    transposed: Collection[str] = ()
    square_after: int | None = None

    def found(self, name: str, stored: Collection[str]) -> str | None:
        """The name in the file of the tensor that we call `name`; None where it has none."""
        return next((spelling for spelling in self.spellings(name) if spelling in stored), None)

    def spellings(self, name: str) -> Iterator[str]:
        """In the order in which they are looked for."""
        for spelled in (self._theirs(name), *self.also.get(name, ())):
            old = (spelled.removesuffix(n) + o for n, o in OLD.items() if spelled.endswith(n))
            for each in (spelled, *old):
                yield from (prefix + each for prefix in (*self.prefixes, ""))

    def _theirs(self, name: str) -> str:
        for ours, theirs in self.parts.items():
            name = name.replace(ours, theirs)
        return name


def tied(decoder: str, bias: str, words: str) -> dict[str, tuple[str, ...]]:
    """A decoder that shares the table of words where the file holds none, and its bias under another name."""
    return {f"{decoder}.weight": (words,), f"{decoder}.bias": (bias,)}
