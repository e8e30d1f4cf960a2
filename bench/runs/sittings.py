"""The sittings of a run that goes on after a kill: whose the folder is, and the seconds of what is done."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tacita.plans.files import write_text

SITTINGS = "sittings.json"  # in the folder of a run that has not ended


@dataclass
class Sittings:
    """What a run took so far, in its folder: a killed run of one request goes on there. inputs: the hash of
    its plan and inputs. steps, stages: seconds of keys and request, and of finished stages. again: whether
    this sitting goes on with them."""

    path: Path
    inputs: str
    steps: dict[str, float] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    again: bool = False

    @staticmethod
    def of(folder: Path, inputs: str, requests: int) -> Sittings:
        """Reads those of the folder, or begins, also where they are of another run or of several requests."""
        found = Sittings(folder / SITTINGS, inputs)
        if found.path.is_file() and requests == 1:
            known = json.loads(found.path.read_text())
            if known["inputs"] == found.inputs and "encrypt" in known["steps"]:
                found = replace(found, **known, again=True)
        found.save()
        return found

    def save(self) -> None:
        """Writes the file."""
        write_text(self.path, json.dumps({n: getattr(self, n) for n in ("inputs", "steps", "stages")}))

    @contextmanager
    def once(self, step: str, into: dict[str, float]) -> Iterator[bool]:
        """Times a step that one sitting does for all. Yields whether this one does."""
        began = time.monotonic()
        yield not self.again
        self.steps[step] = self.steps.get(step, 0.0) + time.monotonic() - began
        into[step] = self.steps[step]
        self.save()
