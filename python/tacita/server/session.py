"""The server of one plan: loads weights and evaluation keys, checks a request, evaluates, writes the response."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacita.backends.ckks import CkksBackend
from tacita.checkpoint import Checkpoint
from tacita.errors import FileError, KeyMissingError, PlanError
from tacita.plan import executor
from tacita.plan.circuit import circuit_of, require_model
from tacita.plan.executor import Progress
from tacita.plan.plan import Plan, TensorInfo
from tacita.plan.resources import require_disk, require_memory, threads
from tacita.protocol import engine, envelope
from tacita.protocol.envelope import Envelope
from tacita.protocol.files import Workdir, require
from tacita.schemes.base import Live


class Server:
    """Holds public material only: plan, encoder weights, evaluation keys. It decrypts nothing."""

    def __init__(
        self,
        plan: Plan,
        model: Checkpoint,
        work: Path | str | Workdir,
        *,
        threads: int = 0,
        allow_insecure: bool = False,
    ) -> None:
        require_model(plan, model)
        self.plan, self.model = plan, model
        self.work = work if isinstance(work, Workdir) else Workdir(Path(work))
        self.threads = threads or _all_threads()
        self.params = engine.parameters(plan.parameters, allow_insecure=allow_insecure)
        self._keys: Any = None

    def load_keys(self) -> None:
        """Reads evaluation.keys once. Raises ResourceError before it starts when memory is short, FileError else."""
        path = require(self.work.evaluation_keys, "keygen")
        require_memory(self.plan.prediction.bytes["server_memory"], "evaluation")
        try:
            with engine.translated(FileError, str(path)):
                rotations = list(self.plan.rotations)
                self._keys = engine.native().EvaluationKeys.load(str(path), self.params, rotations)
        except FileError as error:
            raise _naming_rotations(error, self.plan) from error

    def evaluate(self, progress: Callable[[Progress], None] = lambda _: None) -> Path:
        """Reads request.ct, runs the circuit, writes response.ct."""
        if self._keys is None:
            self.load_keys()
        require_disk(self.work.path, self.plan.prediction.bytes["response"], "the response")
        live = self._read(require(self.work.request, "encrypt"))
        with engine.translated(PlanError, "evaluate"):
            be = CkksBackend(engine.native().Evaluator(self.params, self._keys, self.threads))
            out = self._run(be, live, progress)
            tensors = {tensor.name: _serialise(be, out, tensor) for tensor in self.plan.response}
        envelope.write(self.work.response, Envelope("response", self.plan.hash, self._keys.key_id, tensors))
        return self.work.response

    def _read(self, path: Path) -> Live:
        found = envelope.read(path, "request", self.plan, self._keys.key_id)
        with engine.translated(FileError, str(path)):
            live: Live = {name: self._parse(cts) for name, cts in found.tensors.items()}
        _check_levels(path, live, self.plan.request)
        return live

    def _parse(self, cts: Sequence[bytes]) -> tuple[Any, ...]:
        return tuple(engine.native().Ciphertext.from_bytes(self.params, data) for data in cts)

    def _run(self, be: CkksBackend, live: Live, progress: Callable[[Progress], None]) -> Live:
        stages = circuit_of(self.plan, self.model).stages
        predicted = self.plan.prediction.stage_seconds
        return executor.run(self.plan.stages, stages, be, live, predicted=predicted, progress=progress)


def _naming_rotations(error: FileError, plan: Plan) -> FileError | KeyMissingError:
    """The engine names keys by Galois element, 5^step mod 2N; people and plans name them by step."""
    slots = plan.parameters.slots
    steps = {pow(5, step, 4 * slots): f"of rotation by {step}" for step in range(slots)}
    text = re.sub(r"Galois\((\d+)\)", lambda found: steps.get(int(found[1]), "of conjugation"), str(error))
    kind = KeyMissingError if "keys are missing" in text else FileError
    return kind(text, hint=error.hint or "run `tacita keygen` again with this plan")


def _check_levels(path: Path, live: Mapping[str, Sequence[Any]], expected: Sequence[TensorInfo]) -> None:
    for tensor in expected:
        found = {int(ct.level) for ct in live[tensor.name]}
        if found != {tensor.level}:
            raise FileError(
                f"{path}: {tensor.name} is at level {sorted(found)}, the plan says {tensor.level}",
                hint="encrypt it again under this plan",
            )


def _serialise(be: CkksBackend, out: Live, tensor: TensorInfo) -> list[bytes]:
    return [be.drop_to(ct, tensor.level).to_bytes() for ct in out[tensor.name]]


def _all_threads() -> int:
    return threads()
