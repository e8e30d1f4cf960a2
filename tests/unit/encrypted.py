"""Circuits on the real engine: keys, the secret beside the evaluator, inputs and answers. A test may hold all
of them in one process; no program of ours does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from greedy import run_greedily

from tacita import compiled
from tacita.packings import executor
from tacita.planning.circuit import circuit_of
from tacita.plans import engine as engines
from tacita.slots.ckks import CkksBackend
from tacita.slots.sim import SimBackend


@dataclass(frozen=True)
class Engine:
    """keys: the public ones. evaluator: the engine's."""

    params: Any
    secret: Any
    keys: Any
    evaluator: Any

    @cached_property
    def be(self) -> CkksBackend:
        """The evaluator as a backend."""
        return CkksBackend(self.evaluator)

    def encrypt(self, values: Any, level: int | None = None) -> Any:
        """One ciphertext of slots, at the top level by default."""
        slots = np.ascontiguousarray(np.asarray(values), np.complex128)
        return compiled.native.encrypt(self.secret, slots, self.params.max_level if level is None else level)

    def request(self, circuit: Any, samples: Sequence[Any], levels: Mapping[str, int] = {}) -> dict[str, Any]:
        """The tensors of a request by name."""
        packed = circuit.request.pack(samples)
        return {name: tuple(self.encrypt(v, levels.get(name)) for v in vs) for name, vs in packed.items()}

    def read(self, circuit: Any, out: Mapping[str, Any]) -> Any:
        """The answers of a response."""
        return circuit.response.read([np.asarray(self.secret.decrypt(ct)) for ct in out[executor.RESPONSE]])


def make_engine(
    params: Any,
    rotations: Iterable[tuple[int, int]],
    folder: Path,
    *,
    tokens: int | None = None,
    threads: int = 1,
) -> Engine:
    """Makes keys in the folder. tokens: of products of coefficients."""
    native, pairs = compiled.native, list(rotations)
    paths = str(folder / "secret.key"), str(folder / "evaluation.keys")
    native.keygen(params, pairs, *paths, lambda _done, _total: None, tokens)
    keys = native.EvaluationKeys.load(paths[1], params, pairs, tokens)
    secret = native.SecretKey.load(paths[0], params)
    return Engine(params, secret, keys, native.Evaluator(params, keys, threads))


def toy(preset: str) -> Any:
    """The parameters of an insecure preset."""
    return compiled.native.Parameters.preset(preset, allow_insecure=True)


def engine_of(plan: Any, folder: Path) -> Engine:
    """Takes the parameters and rotations of a plan."""
    params = engines.parameters(plan.parameters, allow_insecure=True)
    return make_engine(params, plan.rotations, folder, tokens=plan.coefficients)


def planned_answers(plan: Any, model: Any, samples: Sequence[Any], folder: Path, **watch: Any) -> Any:
    """Runs the plan's circuit on these samples, stage by stage as it is placed."""
    engine, circuit = engine_of(plan, folder), circuit_of(plan, model)
    live = engine.request(circuit, samples, {tensor.name: tensor.level for tensor in plan.request})
    return engine.read(circuit, executor.run(plan.stages, circuit.stages, engine.be, live, **watch))


def greedy_engine(params: Any, circuit: Any, folder: Path) -> Engine:
    """Has the keys that a greedy run of the circuit uses."""
    sim = SimBackend(params.slots, params.max_level)
    live = {name: tuple(sim.input() for _ in range(count)) for name, count in circuit.request.counts.items()}
    run_greedily(sim, circuit.stages, live, fixed=circuit.fixed)
    return make_engine(params, sorted(sim.rotation_levels.items()), folder)


def greedy_answers(params: Any, circuit: Any, samples: Sequence[Any], folder: Path) -> Any:
    """Runs a circuit on these samples without a plan, bootstrapping where levels end."""
    engine = greedy_engine(params, circuit, folder)
    out, _ = run_greedily(engine.be, circuit.stages, engine.request(circuit, samples), fixed=circuit.fixed)
    return engine.read(circuit, out)
