"""Operation counts of the batch schemes beside the papers' tables, at the papers' sizes (BERT-base, 128
tokens)."""

from collections import Counter
from functools import lru_cache

import numpy as np
import pytest
import tiny
from circuits import build_batch_circuit

from tacita.layouts.columns import BatchShape
from tacita.slots.sim import SimBackend

SLOTS, TOKENS, HIDDEN, HEADS, WIDE = 32768, 128, 768, 12, 3072
HEAD_SIZE, SEQUENCES = HIDDEN // HEADS, SLOTS // TOKENS
# stages by what they are in the papers' tables
STAGES = {
    "layer0.attention.attend": "attend",
    "layer0.attention.project": "project",
    "layer0.norm1.variance": "variance1",
    "layer0.norm1": "norm1",
    "layer0.feed_forward": "forward",
    "layer0.norm2.variance": "variance2",
    "layer0.norm2": "norm2",
}
ROTATIONS = ("rotate", "rotate_shared")

# What the papers state for one layer or head, and what their public code executes.
ARION_TABLE_3 = 37_584  # rotations of attention, all heads
MOAI_TABLE_3 = 215_040  # the same, as ARION states it for MOAI
MOAI_TABLE_1 = 9_648  # rotations of 12 layers, amortised over the batch
MOAI_TABLE_7 = 834  # key switches of one layer, amortised
ARION_TABLE_4 = 1_764  # rotations of 12 layers, amortised
ARION_CODE_HEAD, MOAI_CODE_HEAD = 19_122, 10_420  # key switches of one head's matrix products


@lru_cache
def counts(scheme: str) -> Counter:
    """(operation, stage) of one BERT-base layer with mean pooling, so that all tokens are computed."""
    model = tiny.checkpoint(hidden=HIDDEN, heads=HEADS, ff=WIDE, pooling="mean", classes=2)
    hidden, mask = tiny.inputs(model, 16, 16)  # intervals only: the reference need not be long
    specs = tiny.specs(model, tiny.run_reference(model, hidden, mask), mask, 1e-3)
    circuit = build_batch_circuit(model, specs, BatchShape(SLOTS, TOKENS), scheme)
    be, found = SimBackend(SLOTS, 40), Counter()
    live = {name: tuple(be.input() for _ in range(n)) for name, n in circuit.request.counts.items()}
    assert set(live) >= circuit.fixed
    for stage in circuit.stages:
        with be.stage(stage.name):
            live = stage.run(be, live)
    for (op, _, stage), n in be.counts.items():
        found[op, STAGES.get(stage, stage)] += n
    return found


def total(found: Counter, ops, stages) -> int:
    return sum(n for (op, stage), n in found.items() if op in ops and stage in stages)


def test_a_head_takes_fewer_key_switches_than_both_papers_code():
    found, pairs = counts("arion"), HEAD_SIZE // 2
    rotations = total(found, ROTATIONS, ("attend",)) / HEADS
    conjugations = found["conjugate", "attend"] / HEADS
    relinearised = found["relin", "attend"] / HEADS + pairs  # the last term: V times the mask
    # (b + g - 2) rotations of pairs of Q, K and V columns and of the mask; one relinearisation per diagonal,
    # per partial sum
    assert rotations == (16 + 8 - 2) * pairs + (16 + 8 - 2) * (pairs + 1)
    assert conjugations == TOKENS + pairs
    assert relinearised == TOKENS + 8 * (pairs + 1) + pairs
    assert rotations + conjugations + relinearised == 2_014 < MOAI_CODE_HEAD < ARION_CODE_HEAD


def test_rotations_of_a_layer_beside_the_tables():
    arion, moai = (total(counts(s), ROTATIONS, ("attend",)) for s in ("arion", "moai"))
    assert arion == 17_160 < ARION_TABLE_3
    assert moai == 58_824 < MOAI_TABLE_3
    assert 12 * arion / SEQUENCES < ARION_TABLE_4
    assert 12 * moai / SEQUENCES < MOAI_TABLE_1


def test_key_switches_of_a_layers_matrix_products_amortised():
    found = counts("arion")
    switches = total(found, (*ROTATIONS, "conjugate", "relin"), ("attend",)) + HEADS * HEAD_SIZE // 2
    assert switches / SEQUENCES == pytest.approx(94, abs=1) and switches / SEQUENCES < MOAI_TABLE_7


@pytest.mark.parametrize("scheme", ["arion", "moai"])
def test_softmax_and_layernorm_rotate_nothing(scheme):
    found = counts(scheme)
    for stage in ("project", "variance1", "norm1", "forward", "variance2", "norm2"):
        assert total(found, ROTATIONS, (stage,)) == 0
    assert (
        total(found, ("matmul",), ("forward",)) == 2 * HIDDEN * WIDE + HIDDEN**2
    )  # the residual is one more product
    assert total(found, ("matmul",), ("attend",)) == 3 * HIDDEN**2


def test_linear_layers_relinearise_nothing():
    found = counts("arion")
    activation = found["mul", "forward"] // WIDE
    assert found["mul", "forward"] == activation * WIDE and found["relin", "forward"] == 0
    assert found["relin", "variance1"] == found["relin", "variance2"] == 1
    assert np.isclose(found["outer", "variance1"], HIDDEN)


def test_products_of_a_layer_prepare_and_rescale_no_more_than_they_must():
    """12 products of 256 inner columns read all columns; the first of 6 blocks of 512 makes all columns of
    the sum in one product, which reads the residual, and the others a third in each of three; of attention's,
    two a head make Q and K and one V."""
    found = counts("arion")
    assert found["matmul_input", "forward"] == 12 * HIDDEN + 512 + HIDDEN + 5 * 512 * 3
    assert found["matmul_input", "attend"] == HEADS * (2 + 1) * HIDDEN
    activation = found["rescale", "forward"] - WIDE - 6 * HIDDEN
    assert activation >= 0 and activation % WIDE == 0
