"""What a release promises: workflows that run our Make targets with pinned actions, one version everywhere,
absolute links, and the licences of what is linked."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / ".ci"))
links, notices, repack = map(importlib.import_module, ("readme_links", "notices", "repack"))

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
MAKE = re.compile(r"\bmake ([a-z][a-z -]*)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        yield from job["steps"]


@each_workflow
def test_a_workflow_names_make_targets_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(
        "${{ matrix.part }}", "test-rust test-unit test-integration"
    )
    named = {word for words in MAKE.findall(text) for word in words.split()}
    assert named and named <= TARGETS, named - TARGETS


@each_workflow
def test_an_action_is_pinned_by_its_commit(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    uses = [line.strip().removeprefix("- ") for line in lines if "uses:" in line]
    assert uses and not [line for line in uses if not PINNED.match(line)]


@each_workflow
def test_a_workflow_may_read_alone_and_stores_no_token(path: Path) -> None:
    """What publishes gets more in its own job; a checkout leaves no credentials behind."""
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"} and "secrets." not in text
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_actionlint_finds_nothing() -> None:
    if shutil.which("actionlint") is None:
        pytest.skip("actionlint is not installed")
    done = subprocess.run(["actionlint", *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_run_that_is_published_is_the_one_that_the_audit_fetches() -> None:
    """The target makes, checks and weighs it, the workflow attaches it, the guide names where it lies."""
    made = subprocess.run(
        ["make", "-n", "-o", "setup", "release-run"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert 'build/run/run-of-the-readme --record "a film of quiet beauty"' in made and "-lt 50000000" in made
    assert "--preset" not in made and "insecure" not in made
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    (kept,) = (each["with"] for each in jobs["run"]["steps"] if "upload-artifact" in each.get("uses", ""))
    (given, _, last) = jobs["publish-run"]["steps"]
    assert kept["path"] == "build/run" and given["with"]["name"] == kept["name"]
    assert not kept["name"].startswith("dist-"), "what begins so is uploaded to PyPI"
    guide = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    assert f"release={PROJECT['urls']['Source']}/releases/download/v{PROJECT['version']}\n" in guide
    for name in ("run-of-the-readme.tar.gz", "run-of-the-readme.tar.gz.sha256"):
        assert name in made and name in last["run"] and f"curl -fLO $release/{name}\n" in guide


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_what_github_demands(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name != "config.yml":
        assert form["name"] and form["description"] and form["body"]
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert len({field["id"] for field in fields}) == len(fields)


def test_the_guide_names_make_targets_that_exist() -> None:
    text = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    lines = [line.partition("#")[0] for line in text.splitlines() if line.strip().startswith("make ")]
    named = {word for line in lines for word in line.split()[1:]} | set(re.findall(r"`make ([a-z-]+)", text))
    assert "release-check" in named and named <= TARGETS, named - TARGETS


def test_one_version_stands_everywhere() -> None:
    found = {
        "Cargo.toml": tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"],
        "CITATION.cff": yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"],
        "web/package.json": json.loads((ROOT / "web" / "package.json").read_text())["version"],
    }
    for name in ("python/tacita/version.py", "deploy/compose.yaml"):
        found[name] = re.findall(r"(?:__version__ = \"|tacita:)(\d[\d.a-z]*)", (ROOT / name).read_text())[0]
    assert found == dict.fromkeys(found, PROJECT["version"])
    for crate in (ROOT / "crates").glob("*/Cargo.toml"):
        assert tomllib.loads(crate.read_text())["package"]["version"] == {"workspace": True}, crate


def test_one_address_stands_everywhere() -> None:
    source = PROJECT["urls"]["Source"]
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(PROJECT["urls"])
    assert all(url.startswith(source) for url in PROJECT["urls"].values())
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["repository-code"] == source
    for name in ("SECURITY.md", ".github/ISSUE_TEMPLATE/config.yml"):
        assert f"{source}/security/advisories/new" in (ROOT / name).read_text(), name


def test_every_link_of_the_readme_is_absolute_in_a_release() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.compile(r"(?:\]\(|(?:src|srcset|href)=\")(?!https?:|#)")
    assert relative.search(text)
    assert not relative.search(links.absolute(text, PROJECT["urls"]["Source"], "v0.1.0"))


def test_a_wheel_packed_anew_holds_the_same(tmp_path: Path) -> None:
    """Names, order, bytes, times and modes; here by another encoder than a release's."""
    loose, packed = tmp_path / "loose.whl", tmp_path / "packed.whl"
    with zipfile.ZipFile(loose, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted((ROOT / ".ci").glob("*.py")):
            archive.write(path, f"tacita/{path.name}")
    shutil.copy(loose, packed)
    repack.repack(packed, lambda data: zlib.compress(data, 9, -15))
    with zipfile.ZipFile(loose) as before, zipfile.ZipFile(packed) as after:
        assert after.testzip() is None and len(after.infolist()) > 5
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            assert before.read(old) == after.read(new) and new.compress_size < old.compress_size
            for field in ("filename", "date_time", "external_attr", "compress_type", "CRC"):
                assert getattr(old, field) == getattr(new, field), field


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_the_notices_are_of_what_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """This platform is asked for; `make release-check` asks for all. Cargo.lock has all that is listed."""
    monkeypatch.setenv("CARGO_NET_OFFLINE", "true")
    text = notices.FILE.read_text(encoding="utf-8")
    listed = set(re.findall(r"^(\S+ \d\S*): ", text.split(notices.RULE)[0], re.MULTILINE))
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    assert listed <= {f"{package['name']} {package['version']}" for package in lock}
    here = notices.linked(f"{os.uname().machine}-unknown-linux-gnu").values()
    assert {f"{package['name']} {package['version']}" for package in here} <= listed
    for package in here:
        for _, licence in notices.texts(package):
            assert licence in text, package["name"]


def test_every_licence_is_one_that_deny_allows() -> None:
    """One alternative is enough; `make deny` asks the same of cargo-deny, with RustSec's advisories."""
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))["licenses"]["allow"])
    head = notices.FILE.read_text(encoding="utf-8").split(notices.RULE)[0]
    lines = re.findall(r"^\S+ \d\S*: ([^;]+); ", head, re.MULTILINE)
    assert len(lines) > 50
    for licence in lines:
        terms = [
            re.split(r" OR |/", term) for term in licence.replace("(", "").replace(")", "").split(" AND ")
        ]
        assert all(allowed & set(alternatives) for alternatives in terms), licence
