"""A device of OpenCL in place of the processor: whole toy circuits end in the same bytes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from encrypted import make_engine, toy
from service_dispatch import PATIENCE, make_world
from test_cli import run
from test_conformance_ckks import ROTATIONS
from test_generation_encrypted import TEXTS as SENTENCES
from test_options_ckks import BUILDS, INFO, TOKENS
from tiny_decoders import llama

from tacita import compiled
from tacita.approx.activations import gelu
from tacita.approx.fourier import fit
from tacita.errors import InputError, ResourceError
from tacita.evaluate.keyring import KeyRing
from tacita.generation.generate import Request, generate_batch
from tacita.layouts.registry import Shape
from tacita.packings import executor
from tacita.packings.conformance import CASES, circuit_of, world_of
from tacita.packings.lowering import lowering_of
from tacita.planning.place.circuit import place_circuit
from tacita.plans.prices.formulas import prices_of
from tacita.resources import GB, device_number, devices
from tacita.server.jobs import worker
from tacita.server.jobs.evaluator import open_evaluator
from tacita.server.jobs.messages import RESOURCES, Done, Failed, Passed
from tacita.slots.ckks import CkksBackend
from tacita.slots.conformance import CHECKS, COEFFICIENT_TOKENS, Harness

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

# By packing what is classified: products of coefficients are for blocks of all tokens, with a bootstrap.
CLASSIFIED = dict.fromkeys(BUILDS, "norms after, first row, pooled, classified")
CLASSIFIED["coefficients"] = "norms after, averaged, classified"
BY_COEFFICIENTS = partial(lowering_of, shape=Shape("coefficients", "hoisted", INFO.slots, TOKENS))


def by_coefficients(graph: Any, weights: Any, specs: Any) -> Any:
    """The circuit with GELU by a bootstrap, and its feed-forward block by products of coefficients."""
    (name,) = (name for name in specs.nodes if name.endswith("feed_forward"))
    polynomial = specs.nodes[name].function
    series = fit("gelu", gelu.exact, polynomial.interval, polynomial.domain, 1e-4)
    nodes = {**specs.nodes, name: replace(specs.nodes[name], function=series)}
    return BY_COEFFICIENTS(graph, weights, replace(specs, nodes=nodes))


@pytest.fixture(scope="module")
def device() -> int:
    """The first device; skips, in words, where there is none."""
    rows, reason = devices()
    if not rows:
        pytest.skip(f"no OpenCL device: {reason}")
    return 0


class World:
    """A little model with keys of its own and an encrypted request."""

    def __init__(self, packing: str, folder: Path) -> None:
        world = world_of(next(case for case in CASES if case.name == CLASSIFIED[packing]), TOKENS)
        self.circuit = circuit_of(world, {**BUILDS, "coefficients": by_coefficients}[packing])
        self.placed = place_circuit(self.circuit, INFO, prices_of(INFO, None))
        tokens = TOKENS if packing == "coefficients" else None
        self.engine = make_engine(toy(INFO.preset), self.placed.rotations, folder, tokens=tokens)
        levels = {**self.placed.placement.request, **self.placed.fixed_levels}
        self.request = self.engine.request(self.circuit, world.samples, levels)

    def response(self, evaluator: Any) -> list[bytes]:
        """The answer's ciphertexts by this evaluator."""
        be = CkksBackend(evaluator)
        out = executor.run(self.placed.stages, self.circuit.stages, be, dict(self.request))
        return [bytes(ct.to_bytes()) for ct in out[executor.RESPONSE]]

    def on(self, device: int) -> Any:
        """An evaluator on a device that has no keys, over this client's."""
        return compiled.native.Evaluator(self.engine.params, threads=1, device=device).with_keys(
            self.engine.keys
        )


@pytest.fixture(scope="module")
def harness(device: int, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    params = toy(INFO.preset)
    steps = {k % params.slots for k in ROTATIONS} | {params.slots // 2}
    rotations = [(k, params.max_level) for k in sorted(steps)]
    engine = make_engine(params, rotations, tmp_path_factory.mktemp("keys"), tokens=COEFFICIENT_TOKENS)
    be = CkksBackend(compiled.native.Evaluator(params, engine.keys, 1, device))
    return Harness(be, engine.encrypt, engine.secret.decrypt, tolerance=1e-6)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance_on_a_device(harness: Harness, check: Any) -> None:
    check(harness)


@pytest.mark.parametrize("packing", CLASSIFIED)
def test_a_whole_classification_has_the_processors_bytes(packing: str, device: int, tmp_path: Path) -> None:
    world = World(packing, tmp_path)
    assert any(stage.bootstraps for stage in world.placed.stages)
    products = [stage.name for stage in world.circuit.stages if stage.name.endswith("feed_forward.restore")]
    assert len(products) == (packing == "coefficients")
    response = world.response(world.on(device))
    assert response and response == world.response(world.engine.evaluator)


def test_what_a_device_does_not_compute_is_refused_and_not_done_elsewhere(
    device: int, tmp_path: Path
) -> None:
    native, params = compiled.native, toy(INFO.preset)
    engine = make_engine(params, [], tmp_path)
    refusal = "rescale_ms: devices of OpenCL do not compute it yet; hint: --device cpu"
    with pytest.raises(native.TacitaError, match=refusal):
        native.Evaluator(params, engine.keys, 1, device).rescale_ms(engine.encrypt([0.5] * params.slots), 1)


def test_ciphertexts_and_sums_go_from_side_to_side_or_say_why_not(device: int, tmp_path: Path) -> None:
    native, params = compiled.native, toy(INFO.preset)
    engine = make_engine(params, [], tmp_path)
    there, here = native.Evaluator(params, engine.keys, 1, device), engine.evaluator
    a, b = engine.encrypt([0.5] * params.slots), engine.encrypt([0.25] * params.slots)
    mixed, wanted = here.add(there.mul(a, b), a), here.add(here.mul(a, b), a)
    assert (mixed.level, mixed.nbytes, mixed.to_bytes()) == (wanted.level, wanted.nbytes, wanted.to_bytes())
    sums = there.products([[a, b]], [[b]], None)
    assert (sums.rows, sums.columns, sums.nbytes) == (2, 1, here.products([[a, b]], [[b]], None).nbytes)
    with pytest.raises(native.TacitaError, match="lie on another device"):
        here.products([[a, b]], [[a]], sums)
    rows = there.relinearise(there.products([[a, b]], [[a]], sums))
    wanted = here.relinearise(here.products([[a, b]], [[a]], here.products([[a, b]], [[b]], None)))
    assert [[ct.to_bytes() for ct in row] for row in rows] == [
        [ct.to_bytes() for ct in row] for row in wanted
    ]


def test_a_number_without_a_device_is_an_error() -> None:
    with pytest.raises(compiled.native.TacitaError, match="OpenCL"):
        compiled.native.Evaluator(toy(INFO.preset), device=99)


def test_the_command_takes_a_device_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("A card", "Its maker", "A platform", 1, 1, True, gpu) for gpu in (False, True)]
    monkeypatch.setattr(compiled.native, "opencl_devices", lambda: (rows, ""))
    assert [device_number(name) for name in ("cpu", "opencl", "opencl:1", "auto")] == [None, 0, 1, 1]
    with pytest.raises(InputError, match="none of this name"):
        device_number("opencl:2")
    status, _, err = run("classify", "a text", "--device", "cuda:0")
    assert (
        status == 2
        and "device cuda:0: there is none of this name (one of cpu, auto, opencl:0, opencl:1)" in err
    )
    monkeypatch.setattr(compiled.native, "opencl_devices", lambda: ([], "no OpenCL library; hint: a driver"))
    assert device_number("auto") is None
    with pytest.raises(InputError, match="opencl:0: no OpenCL library"):
        device_number("opencl:0")


# A service and a text.


def test_a_worker_on_a_device_answers_in_the_processors_bytes(device: int, tmp_path: Path) -> None:
    """In the process that a service starts for it, which opens few files."""
    world = make_world(tmp_path, ("ann",))
    order, spec = world.job("one").order, replace(world.spec, device=f"opencl:{device}")
    response = order.folder / "response.ct"

    async def served() -> Any:
        async with asyncio.timeout(PATIENCE):
            started = await worker.start(spec)
            try:
                started.send(order)
                while isinstance(said := await started.receive(), Passed):
                    pass
                return said
            finally:
                await started.end()

    assert isinstance(asyncio.run(served()), Done)
    there = response.read_bytes()
    response.unlink()
    assert isinstance(open_evaluator(world.spec).answer(order, lambda _: None), Done)
    assert there == response.read_bytes()


def test_keys_stay_within_a_devices_memory(
    device: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that were used longest ago make room; keys that never fit are an error of their client."""
    world, native = make_world(tmp_path), compiled.native
    ann, bob = (client.work.evaluation_keys for client in world.clients.values())
    spec, order = replace(world.spec, device="opencl:0"), world.job("one").order
    matrices, memory = prices_of(world.plan.parameters).sizes.bootstrap_matrices, [10**9]
    monkeypatch.setattr(native, "opencl_room", lambda number: (1, matrices + memory[0]))

    def ring() -> KeyRing:
        return KeyRing(world.plan, memory=4, allow_insecure=True, device="opencl:0")

    held = ring()
    memory[0] = held.load(ann).nbytes
    held.load(bob)
    assert len(held) == 2
    held = ring()
    held.load(ann)
    key_id = held.load(bob).key_id
    assert len(held) == 1 and held.held(key_id)
    memory[0] -= 1
    answer = open_evaluator(spec).answer(order, lambda _: None)
    assert isinstance(answer, Failed) and answer.code == RESOURCES and answer.resident == 0
    assert "evaluation keys of 0.0" in answer.detail and "device" in answer.hint


def test_ciphertexts_that_slots_do_not_hold_wait_on_disk(
    device: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, ("ann",))
    order, slots = world.job("one").order, max(world.plan.prediction.stage_bytes)
    monkeypatch.setattr(compiled.native, "opencl_room", lambda number: (slots, 10**12))
    answer = open_evaluator(replace(world.spec, device="opencl:0")).answer(order, lambda _: None)
    assert isinstance(answer, Done) and answer.figures["spill_written_gb"] > 0
    assert answer.figures["ciphertext_gb"] <= slots / GB
    assert world.label("one") != "None"


def test_keys_that_a_driver_refuses_push_others_out_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, native = make_world(tmp_path), compiled.native
    ann, bob = (client.work.evaluation_keys for client in world.clients.values())
    held, most = KeyRing(world.plan, memory=4, allow_insecure=True), [1]

    class Full:
        """An evaluator without room for more keys than `most`."""

        def with_keys(self, keys: Any) -> Any:
            if len(held) >= most[0]:
                raise native.TacitaError("OpenCL: clCreateBuffer failed; hint: fewer slots")
            return evaluator.with_keys(keys)

    evaluator = held.prepare()
    monkeypatch.setattr(held, "prepare", Full)
    held.load(ann)
    key_id = held.load(bob).key_id
    assert len(held) == 1 and held.held(key_id)
    most[0] = 0
    with pytest.raises(ResourceError, match="evaluation keys: OpenCL: clCreateBuffer failed"):
        held.load(ann)


def test_a_text_is_written_on_a_device(device: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings reach what evaluates, which gives the token of floats."""
    places, open_ = list[int | None](), compiled.native.Evaluator

    def opened(*given: Any, **how: Any) -> Any:
        places.append(how.get("device"))
        return open_(*given, **how)

    monkeypatch.setattr(compiled.native, "Evaluator", opened)
    how: dict[str, Any] = {"max_tokens": 1, "texts": SENTENCES, "tokens": 16}
    on: dict[str, Any] = {
        "backend": "ckks",
        "scheme": "thor",
        "preset": "insecure_toy_n9",
        "allow_insecure": True,
    }
    prompts = ["a film of quiet beauty"]
    tokens = list(generate_batch(llama(), prompts, Request(**how, **on, device=f"opencl:{device}")))
    assert tokens == list(generate_batch(llama(), prompts, Request(**how))) and places == [device]
