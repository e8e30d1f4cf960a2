"""What we ask of other projects (ranges in pyproject.toml) and what we build with (pins in requirements/)
agree."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]


def declared() -> dict[str, Any]:
    """The tables of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(lines: list[str]) -> dict[str, Requirement]:
    """Requirements by normalised name."""
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def pinned(name: str) -> dict[str, str]:
    """Name -> version of requirements/NAME.txt and the files that it includes. Every line must be an exact
    pin."""
    versions: dict[str, str] = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            versions |= pinned(line.removeprefix("-r ").removesuffix(".txt"))
        elif line.strip() and not line.startswith("#"):
            versions |= exact(line)
    return versions


def exact(line: str) -> dict[str, str]:
    requirement = Requirement(line)
    (only,) = requirement.specifier
    assert only.operator == "==" and "*" not in only.version, f"{line} is not an exact pin"
    return {canonicalize_name(requirement.name): only.version}


RUNTIME = requirements(declared()["project"]["dependencies"])
TOOLS = requirements(
    [*declared()["project"]["optional-dependencies"]["test"], *declared()["build-system"]["requires"]],
)


@pytest.mark.parametrize("name", RUNTIME)
def test_a_runtime_dependency_is_a_range_with_both_ends(name: str) -> None:
    operators = {each.operator for each in RUNTIME[name].specifier}
    assert operators == {">=", "<"}, f"{RUNTIME[name]}: other projects need room, we need an upper end"


@pytest.mark.parametrize("name", RUNTIME)
def test_the_pin_of_a_runtime_dependency_lies_in_its_range(name: str) -> None:
    assert pinned("runtime")[name] in RUNTIME[name].specifier


@pytest.mark.parametrize("name", TOOLS)
def test_the_pin_of_a_tool_lies_in_its_range(name: str) -> None:
    assert pinned("dev")[name] in TOOLS[name].specifier


def test_other_clients_are_pinned() -> None:
    assert {"langchain-openai", "llama-index-llms-openai-like", "openai"} <= pinned("clients").keys()


def test_a_loose_line_among_the_pins_is_refused() -> None:
    with pytest.raises(AssertionError, match="not an exact pin"):
        exact("numpy==2.*")
