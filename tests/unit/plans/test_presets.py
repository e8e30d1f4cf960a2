"""The table of presets: which bootstrap, and which leveled ring is the smallest for a circuit."""

from __future__ import annotations

import pytest

from tacita.plans.presets import LEVELED, PRESETS, can_bootstrap, leveled


@pytest.mark.parametrize(
    ("depth", "slots", "preset"),
    [
        (1, 1, "n13_leveled"),
        (3, 4096, "n13_leveled"),
        (3, 8192, "n14_leveled"),
        (4, 1, "n14_leveled"),
        (8, 1, "n15_leveled"),
        (17, 16384, "n15_leveled"),
        (18, 1, "n16_leveled"),
        (34, 32768, "n16_leveled"),
        (35, 1, "n17_leveled"),
        (1, 65536, "n17_leveled"),
    ],
)
def test_the_smallest_ring_that_is_deep_and_wide_enough(depth: int, slots: int, preset: str) -> None:
    found = leveled(depth, slots)
    assert found is not None
    assert found.preset == preset
    assert found.security_bits == 128


def test_too_deep_or_wide_a_circuit_has_none() -> None:
    assert leveled(71) is None
    assert leveled(1, 131072) is None


def test_only_presets_with_the_primes_bootstrap() -> None:
    assert can_bootstrap(PRESETS["n16"])
    assert can_bootstrap(PRESETS["insecure_toy_n11"])
    assert not any(can_bootstrap(p) for name, p in PRESETS.items() if "leveled" in name)
    assert [name for name, p in PRESETS.items() if p.security_bits < 128] == [
        n for n in PRESETS if "insecure" in n
    ]


def test_deeper_presets_are_larger_rings() -> None:
    depths = [PRESETS[f"n{n}_leveled"].max_level for n in sorted(LEVELED)]
    assert depths == sorted(depths)
