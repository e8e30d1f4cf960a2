"""Makes the pages of the site that stand in no file of docs/: a hook of mkdocs (mkdocs.yml).

    mkdocs build      the site, into build/site, without rustdoc
    make site         the same with rustdoc

It adds a page for every name of `tacita.__all__`, every command, the errors, the paths of the HTTP service
and documents that lie elsewhere (README, ARCHITECTURE, model cards); and it turns links to files outside
docs/ into links to those pages.
"""

from __future__ import annotations

import importlib
import inspect
import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import tacita
from tacita import errors
from tacita.cli.app import app
from tacita.cli.ask.schemas import SCHEMAS, schema_of
from tacita.server.core.service import Service
from tacita.server.http.app import app_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / ".ci"))
fenced = importlib.import_module("site_doctests").fenced
ELSEWHERE = {  # file of the repository: its page
    "README.md": "learn/start.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changes.md",
    "RELEASING.md": "project/releasing.md",
    "examples/README.md": "learn/examples.md",
    "web/README.md": "project/web.md",
    "training/README.md": "project/training.md",
    "requirements/README.md": "project/requirements.md",
    "python/tacita/data/models/sst2-tiny/README.md": "models/sst2-tiny.md",
    "python/tacita/data/models/austen-tiny/README.md": "models/austen-tiny.md",
}
LINK = re.compile(r"(?<!!)(\]\()([^)#\s:]+)((?:#[^)]*)?\))")
IMAGE = re.compile(r"(!\[[^\]]*\]\()([^)#\s:]+)(\))")
MERMAID = ROOT / "build" / "mermaid" / "mermaid.min.js"  # as `make site` fetches it
METHODS = ("get", "post", "put", "delete", "patch")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages that this file makes into the navigation."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    details = sorted((ROOT / "docs" / "decisions" / "details").glob("*.md"))
    fill(config.nav, "Decisions", ["decisions/README.md", *(f"decisions/{path.name}" for path in decisions)])
    fill(config.nav, "Decisions", [{"Details": [f"decisions/details/{path.name}" for path in details]}])
    reference = {
        "Python": [f"reference/api/{name}.md" for name in names()],
        "Commands": [f"reference/commands/{name}.md" for name in commands()],
        "Schemas": [f"reference/schemas/{name}.md" for name in SCHEMAS],
    }
    single = ["reference/errors.md", "reference/http.md", "reference/rust.md"]
    fill(config.nav, "Reference", [*({key: value} for key, value in reference.items()), *single])
    named = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    guides = [f"guides/{path.name}" for path in sorted((ROOT / "docs" / "guides").glob("*.md"))]
    fill(config.nav, "Tasks", [guide for guide in guides if guide not in named])
    fill(config.nav, "Learn", [{"Examples": "learn/examples.md"}])
    fill(config.nav, "Extend", [{"Changes": "project/changes.md"}, "project/training.md"])
    fill(config.nav, "Extend", ["project/requirements.md", "project/releasing.md"])
    if MERMAID.exists():
        config.extra_javascript.append("mermaid.min.js")
    else:  # its graphs are shown as text: nothing is loaded from elsewhere while one reads
        config.mdx_configs["pymdownx.superfences"]["custom_fences"].clear()
    return config


def fill(nav: Any, section: str, entries: list[Any]) -> None:
    next(entry[section] for entry in nav if isinstance(entry, dict) and section in entry).extend(entries)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages, and the source files that documents link to."""
    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    if MERMAID.exists():
        files.append(File.generated(config, "mermaid.min.js", abs_src_path=str(MERMAID)))
    for path in [*(ROOT / "docs").rglob("*.md"), *map(ROOT.joinpath, ELSEWHERE)]:
        for _, target, _ in LINK.findall(path.read_text(encoding="utf-8")):
            source = (path.parent / target).resolve()
            file = str(source.relative_to(ROOT)) if source.is_relative_to(ROOT) else ""
            if source.is_file() and is_source(file):
                name = f"source/{file}.txt"
                if files.get_file_from_path(name) is None:
                    files.append(File.generated(config, name, content=source.read_text(encoding="utf-8")))
    return files


def is_source(file: str) -> bool:
    """Whether a file of the repository is shown as text: it has no page of its own."""
    return file not in ELSEWHERE and (not file.startswith("docs/") or Path(file).suffix in {".py", ".rs"})


def pages() -> Iterator[tuple[str, str]]:
    """(path below docs/, Markdown) of every page that is made here."""
    for source, path in ELSEWHERE.items():
        yield path, (ROOT / source).read_text(encoding="utf-8")
    for name in names():
        yield f"reference/api/{name}.md", f"# {name}\n\n{api(name)}\n"
    for name, command in commands().items():
        yield f"reference/commands/{name}.md", command_page(name, command)
    for name in SCHEMAS:
        text = json.dumps(schema_of(name), indent=1)
        page = f"# tacita {name} --json\n\n`tacita schema {name}` prints it.\n\n```json\n{text}\n```\n"
        yield f"reference/schemas/{name}.md", page
    yield "reference/errors.md", errors_page()
    yield "reference/http.md", http_page()
    yield "reference/rust.md", RUST


def api(name: str) -> str:
    """What a page of the API holds: mkdocstrings' directive; of a function made by a function, which the
    source does not show, its signature and docstring as they are at run time."""
    thing = getattr(tacita, name)
    if inspect.isclass(thing) or thing.__code__.co_name == name:
        return f"::: tacita.{name}\n    options: {{heading_level: 2}}"
    signature = re.sub(r"(\w*Path)\('[^']*/([^/']+)'\)", r"'\2'", str(inspect.signature(thing)))
    return f"```python\n{name}{signature}\n```\n\n{fenced(inspect.getdoc(thing) or '')}"


def names() -> list[str]:
    return [name for name in tacita.__all__ if not name.startswith("_") and name != "errors"]


def commands() -> dict[str, Any]:
    """Commands by their words, those of groups too: "token-add" is `tacita token add`."""
    every = dict[str, Any]()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        every |= {f"{name}-{sub}": each for sub, each in below.items()} if below else {name: command}
    return every


def command_page(name: str, command: Any) -> str:
    """One command as its parser knows it."""
    words = name if name in {c[0] for c in top()} else name.replace("-", " ", 1)
    lines = [f"# tacita {words}", "", plain(command.help or ""), ""]
    rows = [row(each) for each in command.params if not getattr(each, "hidden", False)]
    return "\n".join([*lines, "| option | what it is |", "|---|---|", *rows, ""])


def top() -> list[tuple[str, Any]]:
    return list(typer.main.get_command(app).commands.items())  # type: ignore[attr-defined]


def row(option: Any) -> str:
    spelled = ", ".join(f"`{each}`" for each in [*option.opts, *option.secondary_opts])
    if option.param_type_name == "argument":
        spelled = f"`{(option.metavar or option.name).strip('[]').upper()}`"
    return f"| {spelled} | {plain(option.help or '')} |"


def plain(text: str) -> str:
    """Text of the parser as Markdown that shows every sign as it is."""
    return re.sub(r"([|<>*_`\[\]])", r"\\\1", " ".join(text.split()))


def errors_page() -> str:
    """The tree of exceptions, with what each means."""
    lines = ["# Errors", "", "The command line prints an error as one line and ends with status 2.", ""]
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    for kind in kinds:
        base = kind.__bases__[0].__name__
        lines += [f"## {kind.__name__}", "", f"A `{base}`. {plain(kind.__doc__ or '')}", ""]
    return "\n".join(lines)


def http_page() -> str:
    """The paths of the service, from its own description."""
    settings = SimpleNamespace(origins=(), hosts=(), lasting=False, proxies=())
    document = app_of(cast(Service, SimpleNamespace(settings=settings))).openapi()
    lines = ["# HTTP", "", "`/openapi.json` of a server says the same to programs.", ""]
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            if method in METHODS:
                lines += [
                    f"## {method.upper()} `{path}`",
                    "",
                    plain(call.get("description") or call["summary"]),
                ]
                lines += ["", *responses(call), ""]
    return "\n".join(lines)


def responses(call: dict[str, Any]) -> list[str]:
    rows = [f"| {status} | {plain(each['description'])} |" for status, each in call["responses"].items()]
    return ["| status | meaning |", "|---|---|", *rows]


RUST = """# Rust

The crates are documented by rustdoc, beside this site: <a href="../rust/tacita_ring/index.html">ring</a>
(polynomials and their transforms), <a href="../rust/tacita_ckks/index.html">ckks</a> (encryption, key
switches, bootstrapping), <a href="../rust/tacita_mpc/index.html">mpc</a> (two parties) and
<a href="../rust/tacita_wire/index.html">wire</a> (files and messages).
"""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links to files outside docs/ to their pages."""
    here = page.file.src_uri
    source = next((key for key, value in ELSEWHERE.items() if value == here), f"docs/{here}")

    def moved(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if file in ELSEWHERE:
            page_of_it = ELSEWHERE[file]
        elif (ROOT / file).is_file() and is_source(file):
            page_of_it = f"source/{file}.txt"
        elif file.startswith("docs/"):
            page_of_it = file.removeprefix("docs/")
        else:
            return match.group()
        return before + posixpath.relpath(page_of_it, posixpath.dirname(here) or ".") + after

    return IMAGE.sub(moved, LINK.sub(moved, markdown))
