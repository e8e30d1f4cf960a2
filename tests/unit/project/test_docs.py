"""Every Python block of README, guides and docstrings runs; blocks of one page run in order, sharing
names.

A guide that links to its example (docs/examples) shows pieces of it: the example runs, and every piece is in
it.
"""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
import warnings
from pathlib import Path

import pytest

from tacita.errors import PrivacyWarning

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
SERVED = {"openai-clients.md"}  # its blocks need a gateway: tests/integration/test_openai_guide.py
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
EXAMPLE = re.compile(r"\]\(\.\./examples/(\w+\.py)\)")
PACKAGE = ROOT / "python"
DOCTESTED = [
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
]
DOCTESTED += ["check", "notebooks", "readme_links", "words"]  # of .ci
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [each for each in PAGES if each.name not in SERVED], ids=lambda page: page.name
)
def test_code_blocks_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    examples = "\n".join(
        (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8") for name in EXAMPLE.findall(text)
    )
    if examples:
        strange = [block for block in BLOCK.findall(text) if block not in examples]
        assert not strange, f"{page.name} shows what its example has not:\n{strange[0]}"
        return
    source = "\n".join(BLOCK.findall(text))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)  # what people copy names its backend
        exec(compile(source, str(page), "exec", dont_inherit=True), {"__name__": page.stem})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_run_and_are_shown(example: Path) -> None:
    runpy.run_path(str(example), run_name=example.stem)
    shown = [page for page in PAGES if example.name in EXAMPLE.findall(page.read_text(encoding="utf-8"))]
    assert len(shown) == 1, f"{example.name} is the example of {len(shown)} guides"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_links_to_headings_find_them(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in anchors(page.parent / target if target else page), f"{page.name}: {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.native
@pytest.mark.parametrize("name", DOCTESTED)
def test_the_examples_of_docstrings_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed
