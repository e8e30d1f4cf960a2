"""A server that answers many work folders: plan, weights and circuit are read once, clients' keys when they
first come.

The service puts each request into a folder below the root; a worker process calls `evaluate`, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacita.checkpoint import Checkpoint
from tacita.errors import InputError
from tacita.evaluate.keyring import KeyRing
from tacita.evaluate.session import MEMORY_GB, SAVE_EVERY, Server
from tacita.planning.circuit import circuit_of
from tacita.plans.plan import Plan
from tacita.progress import Progress


class Standing:
    """root: the folder below which, or in which, requests lie. memory: GB in all, see `KeyRing`.
    save_every: as of `Server`.

    Builds the circuit at once: raises PlanError for another model than the plan's.
    """

    def __init__(
        self,
        plan: Plan,
        model: Checkpoint,
        root: Path,
        *,
        threads: int = 0,
        memory: float = MEMORY_GB,
        resume: bool = True,
        save_every: float = SAVE_EVERY,
        allow_insecure: bool = False,
    ) -> None:
        self.plan, self.model, self.root = plan, model, root.resolve()
        self._options: dict[str, Any] = {"threads": threads, "memory": memory, "resume": resume}
        self._options["save_every"] = save_every
        self.ring = KeyRing(plan, threads=threads, allow_insecure=allow_insecure, memory=memory)
        circuit_of(plan, model)

    def server(self, folder: Path) -> Server:
        """Returns a server of one work folder, with the keys of this ring."""
        return Server(self.plan, self.model, folder, ring=self.ring, **self._options)

    def evaluate(
        self, folder: Path, progress: Callable[[Progress], None], notice: Callable[[str], None]
    ) -> Server:
        """Answers the request of a folder: response.ct beside request.ct. Returns the folder's server, for
        its figures. Raises as `Server.evaluate`; what `progress` raises ends the evaluation."""
        server = self.server(folder)
        server.evaluate(progress, notice)
        return server

    def folder(self, name: str) -> Path:
        """The folder that somebody named, links followed. Raises InputError for one outside the root, and for
        one that is not there, in the same words."""
        try:
            found = Path(name).resolve(strict=True)
            good = Path(name).is_absolute() and found.is_relative_to(self.root) and found.is_dir()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, a loop of links
            good = False
        if not good:
            raise InputError(
                "evaluate: no folder of that name below the one that this server answers",
                hint="",
            )
        return found
