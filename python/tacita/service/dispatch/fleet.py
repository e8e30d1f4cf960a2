"""Machines beside the service's own, as the service sees them; `tacita.cluster.serving` has those of Ray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tacita.service.dispatch.worker import Start


class Fleet(Protocol):
    """Places for workers, which come and go. One that is gone comes back under another name."""

    def starts(self) -> Mapping[str, Start]:
        """How a worker is started at each place that is there now."""

    async def changed(self) -> None:
        """Returns when other places are there than when `starts` was asked last."""
