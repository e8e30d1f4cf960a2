"""The feed-forward block as three stages, whatever the packing: the inner tensor may be refreshed between them."""

from __future__ import annotations

from typing import Protocol

from tacita.slots.base import Backend, Ct
from tacita.slots.stage import Live, Stage

Cts = tuple[Ct, ...]


class Forward(Protocol):
    """A block that can stop before and after its activation."""

    def expand(self, be: Backend, y: Cts, /) -> Cts:
        """y -> inner features stored for the activation."""
        ...

    def activate(self, be: Backend, inner: Cts, /) -> Cts:
        """f(inner) / its largest value."""
        ...

    def contract(self, be: Backend, y: Cts, active: Cts, /) -> Cts:
        """Centred sum of the projected inner features and y."""
        ...


def forward_stages(forward: Forward) -> list[Stage]:
    """y -> a."""

    def expand(be: Backend, live: Live) -> Live:
        return {"y": live["y"], "h": forward.expand(be, live["y"])}

    def activate(be: Backend, live: Live) -> Live:
        return {"y": live["y"], "g": forward.activate(be, live["h"])}

    def contract(be: Backend, live: Live) -> Live:
        return {"a": forward.contract(be, live["y"], live["g"])}

    return [Stage("expand", expand), Stage("activate", activate), Stage("contract", contract)]
