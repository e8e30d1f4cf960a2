"""Every Python block of README, guides and the API's docstring runs; blocks of one file run in order, sharing names."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tacita import api

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page: Path) -> None:
    source = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    exec(compile(source, str(page), "exec", dont_inherit=True), {"__name__": page.stem})


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.native
def test_the_example_of_the_interface_runs() -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    found = doctest.testmod(api)
    assert found.attempted >= 8 and not found.failed
