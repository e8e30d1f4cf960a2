"""The documents' form: lines that fit a screen, paths that exist, pages that stay short."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.app import COMMANDS
from bench.tables import pages

ROOT = Path(__file__).parents[3]
WIDEST, LONGEST, MOST_FILES = 110, 400, 14
FOLDERS = ("bench", "docs", "examples", "python", "requirements", "training")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for name in FOLDERS for page in sorted((ROOT / name).rglob("*.md"))),
]
# from where a page may name a file: itself, the root, the package, and the crate that a decision is about
BASES = ("", "python/tacita", "crates/mpc/src")
BESIDE = "../shared/"  # data that a clone may come without
NAMED = re.compile(
    r"(?<![\w/:.$~<-])[\w.{][\w{},.-]+(?:/[\w{},.-]+)*(?:/|/[\w{},-]+\.(?:py|rs|md|toml))(?![\w/*])"
)
BENCH = re.compile(r"python\s+-m\s+bench\s+([a-z][a-z-]*)")
MADE = {"build/"}  # while it runs
CODE = ("bench", "crates", "deploy", "docs", "examples", "fuzz", "python", "tests", "training", ".ci")
KINDS = ("*.py", "*.pyi", "*.rs", "Cargo.toml", "run")
BUILT = {"target", "__pycache__"}
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_lines_fit(page: Path) -> None:
    """All but rows of tables, of which none can be broken, and words that are longer by themselves."""
    wide = [line for line in prose(page) if len(line) > WIDEST and " " in line.strip()]
    assert not wide, f"{page.name}: {wide[0]}"


@each_page
def test_shown_code_fits(page: Path) -> None:
    """Commands and code; what a program printed stands as it came."""
    wide = [line for line in shown(page) if len(line) > WIDEST]
    assert not wide, f"{page.name}: {wide[0]}"


@pytest.mark.parametrize("folder", CODE, ids=str)
def test_lines_of_code_fit(folder: str) -> None:
    files = [path for kind in KINDS for path in (ROOT / folder).rglob(kind)]
    files = [path for path in files if path.is_file() and not BUILT & set(path.parts)]
    assert files
    assert not (wide := [f"{path}:{number}" for path in files for number in too_wide(path)]), wide


def test_files_of_code_stay_short() -> None:
    """One idea, one file. An interface without code, and what is generated, are no files to read through."""
    files = [path for folder in CODE for kind in ("*.py", "*.rs") for path in (ROOT / folder).rglob(kind)]
    files = [path for path in files if not BUILT & set(path.parts)]
    long = [path for path in files if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST]
    assert files and not long, long


def test_folders_of_the_package_can_be_overlooked() -> None:
    """Of more than twelve files, some are grouped in a folder."""
    package = ROOT / "python" / "tacita"
    folders = {path.parent for path in package.rglob("*.py")}
    flat = [d for d in folders if not any((sub / "__init__.py").exists() for sub in d.iterdir())]
    assert flat and not [d.name for d in flat if len(list(d.glob("*.py"))) > MOST_FILES]


def too_wide(path: Path) -> list[int]:
    """Numbers of the lines over the limit."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if len(line) > WIDEST]


@each_page
def test_named_files_exist(page: Path) -> None:
    missing = [name for name in named(page.read_text(encoding="utf-8")) if not exists(name, page)]
    assert not missing, f"{page.name} names {missing}"


def test_named_benches_exist() -> None:
    """Every `python -m bench X` of a document, a docstring or the Makefile is a command."""
    files = [*PAGES, ROOT / "Makefile", *(ROOT / folder for folder in CODE)]
    files = [path for file in files for path in ([file] if file.is_file() else file.rglob("*.*"))]
    texts = {path: path.read_text("utf-8") for path in files if path.suffix in {"", ".md", ".py", ".rs"}}
    unknown = {(path.name, name) for path, text in texts.items() for name in BENCH.findall(text)}
    assert not (unknown := {each for each in unknown if each[1] not in COMMANDS}), unknown


def test_the_map_names_no_file_that_is_gone() -> None:
    """ARCHITECTURE.md also says `api.py`, or a file's name in each of several folders."""
    bare = re.findall(r"`(\w+\.(?:py|toml))`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    there = {path.name for path in (*ROOT.glob("*.toml"), *(ROOT / "python" / "tacita").rglob("*.py"))}
    assert bare and set(bare) <= there, set(bare) - there


def test_the_rules_find_what_they_look_for() -> None:
    text = "see `packings/{rows,columns}/attention.py`, crates/ring/src/gemm/ and [x](../a.md), path/to/x, "
    text += "a/b and client/server"
    assert list(named(text)) == [
        "packings/rows/attention.py",
        "packings/columns/attention.py",
        "crates/ring/src/gemm/",
        "../a.md",
    ]
    assert not exists("packings/rows/stages.py", ROOT / "README.md")


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 130
    assert len(text.split()) <= 900
    assert 1000 * len(re.findall(r"\d", text)) < 20 * len(text), "figures stand in docs/benchmarks.md"
    assert len(re.findall(r"^\|(?!---|-)", text, re.MULTILINE)) == 6, "one table: a head and five rows"


def test_the_architecture_fits_two_screens() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110


def test_the_threat_model_fits_a_page() -> None:
    """A table of what is protected comes first; appendices stand in docs/threat-model/."""
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    assert len(text.split()) < 2500
    assert text.index("| asset | adversary | protected |") < text.index("\n## ")
    appendices = {page.name for page in (ROOT / "docs" / "threat-model").glob("*.md")}
    assert appendices and appendices == set(re.findall(r"\(threat-model/([\w-]+\.md)\)", text))


def test_the_benchmarks_fit_a_page() -> None:
    """The newest runs alone; older ones and long comparisons stand in docs/benchmarks/."""
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert len(text.split()) < 2000


def test_decisions_are_short_and_listed() -> None:
    """Details of a decision that is longer stand in docs/decisions/details/."""
    folder = ROOT / "docs" / "decisions"
    notes = sorted(folder.glob("0*.md"))
    assert len(notes) >= 39
    assert not [note.name for note in notes if len(note.read_text(encoding="utf-8").split()) > 1400]
    index = (folder / "README.md").read_text(encoding="utf-8")
    for note in notes:
        assert f"]({note.name})" in index
        history = note.read_text(encoding="utf-8").split("\n")[2].startswith("*History")
        assert history == (f"]({note.name}) (history" in index), note.name


def test_the_changelog_has_a_line_a_change() -> None:
    """Headings as https://keepachangelog.com has them, and bullets of one line."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]" and releases[1:]
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", release) for release in releases[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds
    body = text.partition("## [Unreleased]")[2]
    walls = [line for line in body.splitlines() if line.startswith("  ")]
    assert body.count("\n- ") > 50 and not walls, walls


def test_each_word_has_one_meaning() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = [
        word.strip().lower() for found in re.findall(r"\*\*([^*]+)\*\*", text) for word in found.split(",")
    ]
    twice = {word for word in words if words.count(word) > 1}
    assert len(words) > 60 and not twice, twice
    assert len(text.splitlines()) <= 80


def test_written_figures_are_wrapped() -> None:
    """By what `make figures` calls: sentences fit, rows of tables stay whole, no word is lost."""
    sentence, row = "word " * 60 + "end", "| " + "cell " * 60 + "|"
    found = pages.wrapped(f"{row}\n\n{sentence}\n")
    assert found.split() == f"{row} {sentence}".split() and found.endswith("end\n")
    assert [line for line in found.split("\n") if len(line) > WIDEST] == [row]


def prose(page: Path) -> Iterator[str]:
    """Lines outside code and tables."""
    for line, code in lines(page):
        if not code and not line.startswith(("|", "    ")):
            yield line


def shown(page: Path) -> Iterator[str]:
    """Lines of Python blocks and indented ones."""
    for line, code in lines(page):
        if code == "python" or (not code and line.startswith("    ")):
            yield line


def lines(page: Path) -> Iterator[tuple[str, str]]:
    """Each line, with the language of the fence that it stands in."""
    fence = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fence = "" if fence else line[3:] or "text"
        else:
            yield line, fence


def named(text: str) -> Iterator[str]:
    """Paths with a folder, braces spelled out: files by their ending, folders by the slash at their end."""
    for found in NAMED.findall(text):
        yield from (name for name in spelled(found) if name not in MADE)


def spelled(name: str) -> Iterator[str]:
    """a/{b,c}.py -> a/b.py, a/c.py."""
    parts = re.split(r"\{([^}]*)\}", name)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    yield from ("".join(chosen) for chosen in itertools.product(*choices))


def exists(name: str, page: Path) -> bool:
    if name.startswith(BESIDE) and not (ROOT / BESIDE).exists():
        return True
    return (page.parent / name).exists() or any((ROOT / base / name).exists() for base in BASES)
