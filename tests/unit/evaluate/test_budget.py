"""What a limit of memory leaves for ciphertexts: model and circuit are counted, too."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from plans import model, real_plan
from spilling import CODEC
from tiny_decoders import GPT2, LLAMA

from bench.models.shapes import random_inputs, shaped_model
from tacita.checkpoint import from_tensors
from tacita.cli.console import size
from tacita.cli.service.https import _say_memory
from tacita.errors import PlanError, ResourceError
from tacita.evaluate import Server, session
from tacita.evaluate.keyring import (
    ENCODED_AT_ONCE,
    IN_CIRCUIT,
    NUMBER,
    REFRESH,
    ClientKeys,
    bootstraps_within,
    ciphertext_budget,
    circuit_bytes,
    fixed_bytes,
    measured_budget,
    predicted_memory,
    server_bytes,
)
from tacita.evaluate.spill.store import SpillStore
from tacita.models.bert import BertConfig
from tacita.models.decoders import Gpt2Config, LlamaConfig, Qwen3Config
from tacita.models.registry import tensor_shapes
from tacita.models.variants import AlbertConfig
from tacita.models.vit import ViTConfig
from tacita.packings.lowering import build
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.circuit import model_info, numbers_of
from tacita.planning.fitting import fit_circuit
from tacita.plans.plan import Plan
from tacita.plans.scheme import first_shape
from tacita.resources import GB
from tacita.schemes.ciphertexts import too_large
from tacita.schemes.registry import scheme_of
from tacita.server.core.offers import Offers
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainBackend
from tacita.texts.embedding import FrontConfig, ImageConfig, table_shapes


def bert_base() -> Plan:
    """A plan of toy parameters that says it is of BERT-base's sizes."""
    plan = real_plan()
    sizes: dict[str, Any] = {
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "intermediate": 3072,
        "embeddings": None,
    }
    return replace(plan, model=replace(plan.model, **sizes))


def test_the_circuit_of_a_bert_base_is_counted() -> None:
    plan = bert_base()
    maps = 12 * (4 * 768**2 + 2 * 768 * 3072) + 768**2 + 2 * 768  # of the layers, pooler, classifier
    assert circuit_bytes(plan) == pytest.approx(maps * (NUMBER + IN_CIRCUIT), rel=2e-3)
    assert server_bytes(plan) - plan.prediction.bytes["server_memory"] == circuit_bytes(plan)
    left = ciphertext_budget(plan, fixed_bytes(plan) / GB + 0.08)
    assert left == pytest.approx(0.07 * GB, rel=1e-3)
    assert predicted_memory(plan, 1.0) == GB
    with pytest.raises(ResourceError, match=r"keys and process alone need"):
        ciphertext_budget(plan, circuit_bytes(plan) / GB)
    assert any("keys, matrices and circuit need" in line for line in too_large(plan, 1.0))


def test_the_words_of_a_decoder_are_counted() -> None:
    """GPT-2's 50,257 are half as many weights as its twelve layers have."""
    plan, front = bert_base(), FrontConfig(50257, 1024, 0, 1e-5, embedding_norm=False, first_token=False)
    encoder = replace(plan, model=replace(plan.model, embeddings=front))
    sizes: dict[str, Any] = {"architecture": "gpt2", "pooling": "latest", "task": "next", "labels": ()}
    sizes["embeddings"] = replace(front, backwards=True)
    decoder = replace(plan, model=replace(plan.model, **sizes))
    last = 50257 * 768 * (NUMBER + IN_CIRCUIT) + ENCODED_AT_ONCE
    assert circuit_bytes(decoder) - circuit_bytes(encoder) == pytest.approx(last, rel=2e-2)


def test_a_gate_is_a_third_matrix_of_each_layer() -> None:
    """A gated layer of ModernBERT-base has 4 hidden^2 + 3 hidden * intermediate weights."""
    plan = bert_base()
    gated = replace(plan.model, architecture="modernbert", pooling="cls", intermediate=1152)
    maps = 12 * (4 * 768**2 + 3 * 768 * 1152) + 768**2
    found = circuit_bytes(replace(plan, model=gated))
    assert found == pytest.approx(maps * (NUMBER + IN_CIRCUIT), rel=2e-3)


HEADED = {**LLAMA, "shared": 1, "pooling": "latest"}
MODELS: dict[str, Any] = {
    "llama": LlamaConfig(**HEADED),
    "qwen3": Qwen3Config(**HEADED | {"head_size": 8}),
    "gpt2": Gpt2Config(**GPT2 | {"pooling": "latest"}),
    "albert": AlbertConfig(2, 16, 2, 32, 40, 64, 2, "gelu", "pooler", 1e-12, ("a",), embedding_size=4),
    "words": BertConfig(2, 16, 2, 32, 40, 64, 2, "gelu", "none", 1e-12, (), task="words"),
    "vit": ViTConfig(2, 16, 2, 32, 1, 5, 0, "gelu", "cls", 1e-12, ("a",), image=ImageConfig(8, 4, 1)),
}


@pytest.mark.parametrize("family", MODELS)
def test_every_number_of_a_model_is_counted(family: str) -> None:
    """A plan says enough to count a model's numbers: maps of heads that are larger or smaller than the hidden
    states, of a vocabulary, of smaller tables, of patches."""
    config = MODELS[family]
    found = from_tensors(config, {name: np.ones(shape) for name, shape in tensor_shapes(config).items()})
    maps, tables = numbers_of(model_info(found, "0" * 64))
    assert maps + tables == sum(tensor.size for tensor in found.tensors.values())
    assert tables == sum(math.prod(shape) for shape in table_shapes(config, config.hidden).values())


def test_heads_that_share_keys_have_their_own_in_slots() -> None:
    """6 heads of 4 features, of which 2 share keys and values: 12 columns of each are 24 in slots."""
    config = LlamaConfig(**HEADED | {"shared": 2})
    found = from_tensors(config, {name: np.ones(shape) for name, shape in tensor_shapes(config).items()})
    alone = model_info(replace(found, config=replace(config, shared=1)), "0" * 64)
    assert numbers_of(model_info(found, "0" * 64)) == numbers_of(alone)


def test_a_family_that_is_not_known_is_refused() -> None:
    plan = bert_base()
    strange = replace(plan, model=replace(plan.model, architecture="mamba"))
    with pytest.raises(PlanError, match="family 'mamba'"):
        circuit_bytes(strange)


def test_diagonals_take_no_more_than_is_counted() -> None:
    model = shaped_model("bert-tiny")
    calibration = calibrate(model, 16, hidden_states=random_inputs(128, 16, 4, 2))
    specs, shape = fit_circuit(calibration, model.config, tokens=16), first_shape("thor", 2048, 16, None)
    before = {id(one) for one in gc.get_objects() if isinstance(one, LinearPlan)}
    circuit = build(model, specs, shape)
    made = [one for one in gc.get_objects() if isinstance(one, LinearPlan) and id(one) not in before]
    held, weights = sum(one.vectors.nbytes + one.terms.nbytes for one in made), 2 * 12 * 128**2
    assert circuit.stages and weights * NUMBER <= held <= weights * IN_CIRCUIT


def test_an_estimate_says_what_a_server_forecasts(tmp_path: Path) -> None:
    """The estimate has the server's memory with model and circuit, and what is spilled where ciphertexts fill
    all but an eighth."""
    plan = real_plan()
    found, working = scheme_of("thor").estimate(plan), max(plan.prediction.stage_bytes)
    assert found["bytes"]["server_memory"] == server_bytes(plan)
    for share in (1.1, 1.2):  # of the peak; an eighth is kept free, so that it takes 8/7
        memory = (fixed_bytes(plan) + share * working) / GB
        server = Server(plan, model(), tmp_path, memory=memory, allow_insecure=True)
        found = scheme_of("thor").estimate(plan, memory=memory)
        assert found["spill_gb"] * GB == server.forecast()[1] == (working if share < 8 / 7 else 0)
        assert (found["spill_gb"] > 0) == any(stage["spill_bytes"] for stage in found["stages"])


def test_a_service_says_what_its_workers_take(capsys: pytest.CaptureFixture[str]) -> None:
    """The circuit of BERT-base is most of it."""
    plan = bert_base()
    offered: Any = SimpleNamespace(plan=plan)
    _say_memory(Offers({("m", "thor"): offered}, ()), 8.0)
    assert f"memory: {size(server_bytes(plan))} for m by thor" in capsys.readouterr().out


def test_what_a_process_holds_already_is_left_out_of_its_budget() -> None:
    assert measured_budget(1000, 1.0, None) == 1000
    assert measured_budget(10**8, 1.0, 9 * 10**8) == 10**8 - 10**8 // 8
    assert measured_budget(10**7, 1.0, 9 * 10**8) == 10**7  # as predicted
    assert measured_budget(10**8, 1.0, 9 * 10**8, 2 * 10**7) == 8 * 10**7  # room for large results
    assert measured_budget(10**8, 1.0, 2 * 10**9) == 10**8 // 4  # beyond the limit: the run goes on


def test_bootstraps_of_64_threads_stay_within_the_limit_of_memory() -> None:
    """Half the threads would take 32 GB at N = 2^16; the limit says how many run at once."""
    plan = bert_base()
    need, each = server_bytes(plan), REFRESH * 2 * plan.parameters.slots
    for room in range(40):
        count = bootstraps_within(plan, (need + room * each + 1) / GB, 64)
        assert count == min(32, 1 + room)
    assert bootstraps_within(plan, need / 2 / GB, 64) == 1  # what spills runs one by one
    assert [bootstraps_within(plan, 1e3, threads) for threads in (1, 2, 5, 64)] == [1, 1, 2, 32]


@pytest.mark.parametrize("room", [0, 2, 9, 99])
def test_a_server_of_64_threads_refreshes_no_more_at_once(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine runs as many bootstraps of a call at once as half its threads."""
    plan, slots, seen = real_plan(), 2 * real_plan().parameters.slots, list[int]()
    limit = server_bytes(plan) + room * REFRESH * slots + 1
    server = Server(plan, model(), tmp_path, threads=64, memory=limit / GB, allow_insecure=True)

    class Counted(PlainBackend):
        def bootstrap(self, cts: Any, kinds: Any) -> Any:
            seen.append(len(cts))
            return super().bootstrap(cts, kinds)

    monkeypatch.setattr(session, "CkksBackend", lambda evaluator, at_once: Counted(64))
    monkeypatch.setattr(session, "taken_bytes", lambda evaluator: 0)
    be = server._backend(ClientKeys("", cast("Any", None), 0, ""), SpillStore(tmp_path / "spilled"))
    be.pool.codec = CODEC
    fresh = [be.adopt(PlainBackend(64).encrypt(np.zeros(1), 1)) for _ in range(70)]
    be.bootstrap(fresh, ["real"] * 70)
    assert sum(seen) == 70
    assert server_bytes(plan) + (min(max(seen), 32) - 1) * REFRESH * slots <= limit
