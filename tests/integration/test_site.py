"""The documentation site: it builds without a warning, no link of it is dead, it loads nothing from
elsewhere, and every name and command has a page."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import tacita
from tacita.cli.app import COMMANDS
from tacita.cli.ask.schemas import SCHEMAS

ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """What a page points to, what it loads, and the places on it that can be pointed to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets, self.loaded, self.places = list[str](), list[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        target = given.get("href") or given.get("src") or ""
        self.targets += [target] if target else []
        if tag in {"script", "img", "iframe"} or (tag == "link" and "stylesheet" in given.get("rel", "")):
            self.loaded += [target] if target else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does, but for rustdoc."""
    folder = tmp_path_factory.mktemp("site")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "python")}
    built = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_no_link_is_dead(site: Path, pages: dict[Path, Links]) -> None:
    """A place on a page counts too. rustdoc, which `make site` adds, is known by its folder."""
    dead = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or page.name == "404.html":
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = there / "index.html" if there.is_dir() else there
            if there.relative_to(site).parts[0] == "rust":
                continue
            missing_place = parts.fragment and there.suffix == ".html" and there in pages
            if not there.exists() or (missing_place and unquote(parts.fragment) not in pages[there].places):
                dead.append(f"{page.relative_to(site)}: {target}")
    assert len(pages) > 100 and not dead, dead[:20]


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Links]) -> None:
    outside = {target for links in pages.values() for target in links.loaded if urlsplit(target).netloc}
    assert not outside


def test_every_name_and_command_has_a_page(site: Path) -> None:
    api = {path.stem for path in (site / "reference" / "api").glob("*.html")}
    assert {name for name in tacita.__all__ if name not in {"__version__", "errors"}} == api
    shown = {path.stem for path in (site / "reference" / "commands").glob("*.html")}
    assert {path.stem for path in (site / "reference" / "schemas").glob("*.html")} == set(SCHEMAS)
    groups = shown | {name.partition("-")[0] for name in shown}
    assert {name for _, name, *_ in COMMANDS} <= groups
    for name in api:
        text = html.unescape((site / "reference" / "api" / f"{name}.html").read_text(encoding="utf-8"))
        words = re.findall(r"[a-z]{3,}", (getattr(tacita, name).__doc__ or "").partition(".")[0])
        assert words and all(word in text.lower() for word in words), name


LOOKED_AT = (
    *("index", "learn/start", "which-protection", "audit", "benchmarks", "packages", "settings"),
    *("reference/api/classify", "reference/api/Client", "reference/commands/serve", "reference/http"),
)


def test_everybody_can_read_it(site: Path) -> None:
    """axe-core finds nothing in Chromium, in light and dark colours and at 320 pixels."""
    browser = shutil.which("chromium")
    if not browser or not (ROOT / "web" / "node_modules" / "axe-core").exists():
        pytest.skip("needs Chromium, and web/node_modules: make web")
    pages = [f"{name}.html" for name in LOOKED_AT]
    call = ["node", "web/test/site.mjs", browser, str(site), *pages]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {"looks": 3 * len(pages), "violations": [], "wide": []}
