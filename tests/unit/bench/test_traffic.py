"""Bytes moved by an operation, beside counts by hand."""

from __future__ import annotations

import pytest

from bench.app import app
from bench.kernels import roofline, scaling, traffic
from tacita.cli.app import main
from tacita.plans.prices.cost import Sizes
from tacita.schemes.prices import switch_phases

RING = traffic.Ring(1 << 16, 9, 19)


def test_a_rotation_at_twelve_limbs():
    """Two digits. In coefficient form 24; conversions: 12 limbs for each of 2 groups of special primes and 3
    of limbs, 60; own limbs 12; key 2 x 2 x 19 = 76, packed 60; divisions, each half: 7 sources, 8 for their
    overflow, 3 x 8 for the groups, 78 in all; result 24; c0 12."""
    assert traffic.rotate(12, 7) == 24 + 60 + 12 + 60 + 78 + 24 + 12
    assert RING.bytes(traffic.rotate(12, 7)) == 270 * 524_288


def test_a_product_at_twelve_limbs():
    """Operands 48, sum 36, of which 24 are read again; in coefficient form 24; conversions: 8 sources of the
    division in 2 groups, 11 limbs in 3; own limbs 12, key 60; divisions 2 x (8 + 9 + 3 x 9); result 22."""
    assert traffic.relinearise(12, 7) == 48 + 36 + 24 + 24 + 60 + 12 + 60 + 88 + 22
    assert traffic.relinearise(12, 7, products=3, multiples=2) - traffic.relinearise(12, 7) == 8 * 12 + 4 * 12


def test_rescaling_and_hoisting():
    assert traffic.rescale(12) == 2 * (1 + 33)
    # 12 limbs in coefficient form; read for 5 groups of 19 targets; own limbs; two digits of 19
    assert traffic.hoist(12, 7) == 24 + 60 + 12 + 38


def test_few_special_primes_move_less():
    assert traffic.rotate(3, 3) < 0.7 * traffic.rotate(3, 7)


def test_a_giant_step_at_three_limbs_and_three_special_primes():
    """c1: 3 sources, 4, 4, then 3 limbs read and written; switched: 6, 2 groups x 3, 3, key 10, c0 6, result
    12; added: two operands and the sum, 36."""
    assert traffic.giant_step(3, 3) == (3 + 11 + 6) + (6 + 6 + 3 + 10 + 6 + 12) + 36


def test_the_maps_are_those_of_the_engine():
    """After the raise 14 hoisted and 14 whole rotations from coefficients to slots, 30 and 30 back."""
    assert traffic._maps(15, 3) == [(8, 4), (8, 8), (8, 8)]
    assert traffic._maps(15, 2) == [(16, 16), (16, 16)]


def test_a_bootstrap_is_the_sum_of_its_stages():
    """Two waves of 12 sums, and conjugations, below the maps; and no stage is free."""
    waves = 2 * traffic.wave(25, 7)
    turns = traffic.rotate(25, 7) + traffic.rotate(16, 7)
    assert waves + turns < traffic.bootstrap(RING) < 4 * waves
    assert 12 * traffic.relinearise(16, 7) < traffic.wave(25, 7) < 14 * traffic.relinearise(25, 7)


def test_the_share_of_a_copy():
    times = {"rotate": 15.0, "multiply": 15.0, "rescale": 5.0, "bootstrap": 3000.0}
    found = traffic.moved(RING, times, 12, 10**9, copy=20.0)
    assert found["copy_gb_per_second"] == 20.0
    rotate = found["operations"]["rotate"]
    assert rotate["bytes"] == 308 * 524_288
    assert rotate["share_of_copy"] == pytest.approx(308 * 524_288 / 15e-3 / 20e9)
    assert found["operations"].keys() == times.keys()


def test_more_cores_give_no_more_than_tasks_and_bandwidth_do() -> None:
    """A rotation of 12 limbs has 84 transforms, which 16 threads share in 48, 72 and 48 tasks."""
    sizes = Sizes.of_ring(16)
    phases = switch_phases(12, sizes)
    assert [count for count, *_ in phases] == [12, 36, 36]
    assert [count for count, *_ in switch_phases(30, sizes)] == [30, 45, 120]  # three digits
    each = {"rotate": 16.0, "mul": 16.0, "rescale": 3.0, "bootstrap": 2500.0, "two bootstraps": 3000.0}
    rows = {work.name: work for work in scaling.works(RING, 12, each, each, sizes)}
    rotate = rows["rotate"]
    assert [rotate.tasks(cores) for cores in (2, 16, 64)] == ["12 4 4", "48 72 48", "192 144 192"]
    assert [rows["rescale"].tasks(cores) for cores in (2, 16)] == ["1 11", "16 88"]
    times = [scaling.counted(rotate, cores, 28.0, 28.0) for cores in (1, *scaling.CORES)]
    assert times[0] == pytest.approx(16.0)
    assert times == sorted(times, reverse=True)
    memory = rotate.bytes / 28.0 / 1e6
    waits = 12 * 3 / 48 + 36 * 5 / 72 + 36 * 3 / 48
    assert times[4] == pytest.approx((16.0 - memory) * waits / 84 + memory)
    boots = rows["64 bootstraps"]
    alone = scaling.counted(rows["bootstrap"], 2, 28.0, 39.0)
    many = scaling.counted(boots, 64, 28.0, 1e9)
    assert many == pytest.approx(2 * scaling.counted(rows["bootstrap"], 2, 28.0, 1e9), rel=0.02)
    assert alone > scaling.counted(rows["bootstrap"], 16, 28.0, 200.0)


FP64 = dict.fromkeys(roofline.instructions(), 1)


def test_launches_and_transforms_of_a_rotation_on_a_card() -> None:
    """At 12 limbs and 9 special primes. Digits of 11 and 1: two copies and five launches each; a product; two
    divisions of two copies, five launches and a product by a factor; two permutations, a sum."""
    work = dict(zip(roofline.FIELDS, roofline.Counter(FP64, 16).rotate(12, 9), strict=True))
    assert work["launches"] == 2 * (2 + 5) + 1 + 2 * (2 + 5 + 1) + 3
    assert work["transforms"] == sum(count for count, *_ in switch_phases(12, Sizes.of_ring(16)))


def test_bytes_of_a_transform_and_of_a_conversion_on_a_card() -> None:
    """Two kernels read and write each limb, and roots are two numbers; seven limbs are read for four."""
    counter = roofline.Counter(FP64, 16)
    assert counter.ntt("forward", 3)[1] == 3 * (2 + 2 + 2)
    assert counter.convert(7, 4)[1] == 7 + 4
    assert counter.elements("add", 5, 2)[1] == 15


def test_a_sum_of_products_is_one_launch_that_writes_once() -> None:
    """Eight limbs of each of three terms, and 24 of plaintexts; a tensor product reads four polynomials."""
    counter = roofline.Counter(FP64, 16)
    assert list(counter.sum_products(8, 3, 24)[:2]) == [1, 3 * 8 + 8 + 24]
    one, two = (counter.relinearise(12, 9, products=count) for count in (1, 2))
    assert list((two - one)[:2]) == [0, 4 * 12]


def test_instructions_are_those_of_the_budgets() -> None:
    """The loop of a kernel and what is behind it are all of it: another kernel needs other figures."""
    budgets = roofline.instructions()
    assert {name: roofline.TERMS[name] + end for name, end in roofline.ENDS.items()} == {
        name: budgets[name] for name in roofline.ENDS
    }


def test_a_bootstrap_on_a_card_has_the_transforms_of_the_engine() -> None:
    """Decision 79 counts 8,310 for this chain; what this adds up is a tenth fewer at most."""
    work = roofline.bootstrap(RING)
    assert 0.9 * 8310 < work.transforms < 1.05 * 8310
    assert work.bytes > RING.bytes(traffic.bootstrap(RING))  # launches, whose caches keep nothing between


def test_every_line_of_a_roofline_says_that_nothing_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "--device-roofline"], app) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(roofline.CARDS)
    assert all(line.startswith("counted, never run: ") for line in lines)
    assert all(
        card.name in line and card.source in line
        for card, line in zip(roofline.CARDS, lines[1:], strict=True)
    )
