"""The server of one plan: loads weights and evaluation keys, checks a request, evaluates, writes the
response.

Ciphertexts stay within a memory limit, and a killed run goes on from its last resume point: see `spill` and
`resume`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacita import compiled
from tacita.checkpoint import Checkpoint
from tacita.errors import FileError, PlanError
from tacita.evaluate import resume
from tacita.evaluate.kept import KeptRows, forget, kept_bytes, kept_rows
from tacita.evaluate.keyring import (
    ClientKeys,
    KeyRing,
    bootstraps_within,
    ciphertext_budget,
    measured_budget,
    predicted_memory,
    predicted_spill,
    results_bytes,
    taken_bytes,
)
from tacita.evaluate.resume import Checkpoints, Run
from tacita.evaluate.spill import Codec, Handle, SpillingBackend, SpillStore
from tacita.evaluate.spill.backend import BOOTSTRAP_GROUP
from tacita.packings import executor
from tacita.packings.base import Circuit
from tacita.planning.circuit import circuit_of, require_model
from tacita.plans import engine, envelope
from tacita.plans.files import Workdir, digest_of, require
from tacita.plans.plan import Plan, TensorInfo
from tacita.plans.prices.formulas import file_bytes
from tacita.progress import Progress
from tacita.resources import GB, in_threads, require_disk
from tacita.resources import threads as all_threads
from tacita.slots.ckks import CkksBackend
from tacita.slots.stage import Live
from tacita.version import __version__

if TYPE_CHECKING:
    from tacita._native import Ciphertext


MEMORY_GB = 12.0
AT_ONCE = 8  # ciphertexts of a request that are parsed on threads while others are read
SAVE_EVERY = 60.0  # seconds between resume points
FOLDER = ".tacita-spill"  # of spilled ciphertexts and resume points, in the work folder


@dataclass(frozen=True)
class Usage:
    """GB of one evaluation: ciphertexts in memory at most; files of spilled ciphertexts and resume points at
    most, written and read. resumed: stages that an earlier run had finished."""

    ciphertexts: float = 0.0
    disk: float = 0.0
    written: float = 0.0
    read: float = 0.0
    resumed: int = 0


class Server:
    """Holds public material only: plan, encoder weights, evaluation keys. It decrypts nothing.

    Keys, circuit and the matrices of bootstrapping stay from one evaluation to the next. ring: where they
    stay, shared by the servers of a plan's work folders; it has `threads`, `allow_insecure`, `device` and
    `memory` of its own. device: what evaluates, a name that `device_number` reads.
    memory: GB that an evaluation may take, keys included; what does not fit is spilled to the work folder.
    text: the folder of the rows of a text whose requests may come twice (`kept_rows`), None for the work
    folder, where none may. resume: go on from the resume point of a killed run of the same request, and save
    such points, one every `save_every` seconds (0: after each stage). usage: of the last evaluation.
    """

    def __init__(
        self,
        plan: Plan,
        model: Checkpoint,
        work: Path | str | Workdir,
        *,
        threads: int = 0,
        allow_insecure: bool = False,
        memory: float = MEMORY_GB,
        device: str = "cpu",
        resume: bool = True,
        save_every: float = SAVE_EVERY,
        ring: KeyRing | None = None,
        text: Path | None = None,
    ) -> None:
        require_model(plan, model)
        self.plan, self.model = plan, model
        self.work = work if isinstance(work, Workdir) else Workdir(Path(work))
        self.threads, self._text = threads or all_threads(), text
        self.memory, self.resume, self.save_every = memory, resume, save_every
        if ring is None:
            ring = KeyRing(plan, threads=threads, allow_insecure=allow_insecure, memory=memory, device=device)
        self.ring, self.params = ring, ring.params
        self.usage = Usage()

    def load_keys(self) -> None:
        """Reads evaluation.keys now rather than at the first request. Raises as `KeyRing.load`."""
        self.ring.load(require(self.work.evaluation_keys, "keygen"))

    def forecast(self) -> tuple[int, int]:
        """Bytes of an evaluation by the plan's prediction: memory at its peak, files of spilled ciphertexts
        at most.

        Raises ResourceError when the memory limit is too low for the keys.
        """
        budget = self.ring.budget(ciphertext_budget(self.plan, self.memory))
        return predicted_memory(self.plan, self.memory), predicted_spill(self.plan, budget)

    def evaluate(
        self,
        progress: Callable[[Progress], None] = lambda _: None,
        notice: Callable[[str], None] = lambda _: None,
    ) -> Path:
        """Reads request.ct, runs the circuit, writes response.ct. notice: told in a line what a user should
        know.

        Raises ResourceError when memory or disk are short, before or during the run; a resume point then
        stays.
        """
        _, spilled = self.forecast()
        request = require(self.work.request, "encrypt")
        held = self._keys_of(request)
        again = self._text is not None
        need = file_bytes(self.plan)["response"] + spilled + kept_bytes(self.plan, again=again)
        require_disk(self.work.path, need, "the response, with ciphertexts spilled on the way,")
        with (
            kept_rows(self.plan, self._text or self.work.path, request, again=again) as rows,
            resume.workspace(self.work.path / FOLDER, notice) as store,
            engine.translated(PlanError, "evaluate"),
        ):
            be = self._backend(held, store)
            run = Run(self.plan.hash, held.key_id, digest_of(request), __version__)
            out = self._run(be, run, request, rows, progress, notice)
            self._respond(be, run, out)
            if rows:
                left = {one.before: out[one.after] for one in self._circuit.kept}
                rows.leave(be, left, held.key_id, run.request)
        return self.work.response

    def forget(self) -> None:
        """Deletes the rows of a text that is asked row by row (`Plan.kept`); the next request begins a new
        text. Raises FileError, ResourceError."""
        forget(self.work.path)

    @property
    def _at_once(self) -> int:
        return bootstraps_within(self.plan, self.memory - self.ring.further_bytes / GB, self.threads)

    @property
    def _group(self) -> int:
        """Ciphertexts that one call refreshes: where memory has no room for as many as the engine takes at
        once, as many as it has room for."""
        return self._at_once if self._at_once < self.threads // 2 else max(BOOTSTRAP_GROUP, self._at_once)

    @property
    def _circuit(self) -> Circuit:
        return circuit_of(self.plan, self.model)

    def _keys_of(self, request: Path) -> ClientKeys:
        """Returns the request's keys where they are in memory; else loads those of the work folder."""
        held = self.ring.held(envelope.key_of(request, "request"))
        return held or self.ring.load(require(self.work.evaluation_keys, "keygen"))

    def _backend(self, held: ClientKeys, store: SpillStore) -> SpillingBackend:
        memory = self.memory - self.ring.further_bytes / GB
        _ = self._circuit  # so that it is there when memory is measured
        in_use = taken_bytes(held.evaluator)
        results = results_bytes(self.plan, self._group)
        budget = measured_budget(ciphertext_budget(self.plan, memory), self.memory, in_use, results)
        codec = Codec(
            size_of=lambda ct: int(ct.nbytes),
            dump=lambda ct: bytes(ct.to_bytes()),
            load=lambda data: compiled.native.Ciphertext.from_bytes(self.params, data),
        )
        be = CkksBackend(held.evaluator, at_once=self._at_once)
        return SpillingBackend(be, store, self.ring.budget(budget), codec, self._group)

    def _run(
        self,
        be: SpillingBackend,
        run: Run,
        request: Path,
        rows: KeptRows | None,
        progress: Callable[[Progress], None],
        notice: Callable[[str], None],
    ) -> Live:
        live, begin, complex_names = self._start(be, request, rows, run, notice)
        stages = self._circuit.stages
        points = Checkpoints(be, run, [stage.name for stage in stages], self.save_every, notice)
        out = executor.run(
            self.plan.stages,
            stages,
            be,
            live,
            predicted=self.plan.prediction.stage_seconds,
            progress=progress,
            begin=begin,
            complex_names=complex_names,
            at_once=max(executor.AT_ONCE, self._at_once),
            reached=points if self.resume else lambda _: None,
        )
        pool, store = be.pool, be.pool.store
        self.usage = Usage(
            pool.peak / GB, store.peak / GB, store.bytes_written / GB, store.bytes_read / GB, begin
        )
        return out

    def _start(
        self,
        be: SpillingBackend,
        request: Path,
        rows: KeptRows | None,
        run: Run,
        notice: Callable[[str], None],
    ) -> tuple[Live, int, frozenset[str]]:
        try:
            point = resume.find(be.pool.store, run) if self.resume else None
            if point is not None:
                live = resume.restore(be, point)
                notice(f"goes on after stage {point.stage}, {point.index} of {len(self.plan.stages)}")
                return live, point.index, frozenset(point.complex_names)
        except FileError as error:
            notice(f"starts from the beginning: {error}")
        be.pool.store.sweep()
        live = self._read(be, request, run.key)
        return live | (rows.live(be, live, self._parsed) if rows else {}), 0, frozenset()

    def _read(self, be: SpillingBackend, path: Path, key: str) -> Live:
        tensors = {tensor.name: tensor for tensor in self.plan.request}
        read: dict[str, list[Handle]] = {name: [] for name in tensors}

        def parsed(part: tuple[str, int, bytes]) -> tuple[str, Ciphertext]:
            name, _, data = part
            return name, self._parsed(data, tensors[name], path)

        with engine.translated(FileError, str(path)):
            parts = envelope.stream(path, "request", self.plan, key)
            for name, ct in in_threads(parsed, parts, min(self.threads, AT_ONCE), AT_ONCE):
                read[name].append(be.adopt(ct))
        return {name: tuple(cts) for name, cts in read.items()}

    def _parsed(self, data: bytes, tensor: TensorInfo, path: Path) -> Ciphertext:
        ct = compiled.native.Ciphertext.from_bytes(self.params, data)
        engine.require_level_and_scale(path, tensor, ct, self.params)
        return ct

    def _respond(self, be: SpillingBackend, run: Run, out: Live) -> None:
        tensors = {tensor.name: _packed(be, out[tensor.name], tensor.level) for tensor in self.plan.response}
        envelope.write_stream(self.work.response, "response", self.plan, run.key, tensors, run.request)


def _packed(be: SpillingBackend, cts: Sequence[Handle], level: int) -> Iterator[bytes]:
    for ct in cts:
        yield be.pool.packed(be.drop_to(ct, level))
