"""The table of what each OpenCL kernel may take of a card: `make opencl-budgets` compiles, this reads."""

from __future__ import annotations

import doctest
import importlib
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / ".ci"))
opencl_budgets = importlib.import_module("opencl_budgets")


def budgets() -> dict[str, dict[str, dict[str, int]]]:
    table: dict[str, dict[str, dict[str, int]]] = opencl_budgets.by_target(
        tomllib.loads(opencl_budgets.TABLE.read_text(encoding="utf-8"))
    )
    return table


def test_what_compilers_say_is_read() -> None:
    assert doctest.testmod(opencl_budgets).failed == 0


def test_every_kernel_has_a_budget_for_every_card() -> None:
    kernels = set(re.findall(r"^(?:__kernel )?void (\w+)\(", opencl_budgets.sources(), re.MULTILINE))
    kernels |= set(re.findall(r"^ELEMENTWISE\((\w+),", opencl_budgets.sources(), re.MULTILINE))
    assert len(kernels) >= 20
    cards = [*opencl_budgets.NVIDIA, *opencl_budgets.AMD]
    assert set(budgets()) == {f"{flavour}.{card}" for flavour in opencl_budgets.FLAVOURS for card in cards}
    for target, rows in budgets().items():
        assert set(rows) == kernels, target


def test_no_kernel_may_spill_or_round_slowly_and_integers_need_no_doubles() -> None:
    """One conversion, of the bits of a packed residue, is made once before a loop."""
    for target, rows in budgets().items():
        for name, row in rows.items():
            assert row["spilled"] == 0 and row["conversions"] <= (name == "inner_product"), (target, name)
            assert target.startswith("F64") or row["fp64"] == 0, (target, name)


def test_a_budget_that_is_exceeded_is_named() -> None:
    table = budgets()
    assert opencl_budgets.problems(table, table) == []
    target, rows = next(iter(table.items()))
    name, row = next(iter(rows.items()))
    more = {target: {name: {**row, "registers": row["registers"] + 1}}}
    found = opencl_budgets.problems(more, {target: {name: row}})
    assert found == [f"{target} {name}: registers {row['registers'] + 1}, budget {row['registers']}"]


def test_the_table_is_what_would_be_written() -> None:
    assert opencl_budgets.render(budgets()) == opencl_budgets.TABLE.read_text(encoding="utf-8")
