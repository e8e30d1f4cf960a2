"""The wheel of `make wheel`, installed in a fresh environment outside the clone, answers there.

The environment has the wheel alone; its dependencies are those of the environment that runs the tests, lent
by a .pth file, so that nothing is downloaded. Neither the clone nor its editable installation is on the path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / "build" / "wheels"
PACKAGE = ROOT / "python" / "tacita"
GOOD, BAD = "a film of quiet beauty", "a waste of time"
# Bytes at most of what a wheel is made of, as it packs them: the figure of the day, rounded up a little. A
# release packs tighter, and has less of a module (decision 123), but grows by what these grow.
PARTS = {"module": 3_900_000, "models": 6_040_000, "page": 620_000, "rest": 1_100_000}
TOY = ["--preset", "insecure_toy_n11", "--tokens", "16", "--text", GOOD]


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted(WHEELS.glob("tacita-*.whl"))
    assert len(found) == 1, f"{len(found)} wheels in {WHEELS}, one is needed: make wheel"
    return found[0]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("wheel") / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    python, paths = folder / "bin" / "python", sysconfig.get_paths()
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *install], check=True, env=outside()
    )
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (own / "dependencies.pth").write_text("\n".join(dict.fromkeys([paths["purelib"], paths["platlib"]])))
    return folder


def outside() -> dict[str, str]:
    """The environment's variables without those that lead to the clone or to another model; a screen wide
    enough."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "TACITA_MODEL"}}
    return kept | {"COLUMNS": "120"}


def run(installed: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(installed / "bin" / program), *arguments]
    return subprocess.run(command, cwd=installed, env=outside(), capture_output=True, text=True, check=False)


def test_the_wheel_holds_every_file_of_the_package_as_it_is_now(wheel: Path) -> None:
    """Also the default model, the price tables and the calibration sentences, which are such files."""
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in {".so", ".pyc"}]
    assert len(files) > 200
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        for path in files:
            name = path.relative_to(PACKAGE.parent).as_posix()
            assert name in inside, f"{name} is not in the wheel: make wheel"
            assert archive.read(name) == path.read_bytes(), f"{name} is another in the wheel: make wheel"


def test_it_carries_every_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        for name in ("LICENSE", "THIRD-PARTY-NOTICES.txt"):
            assert archive.read(f"{info}/licenses/{name}") == (ROOT / name).read_bytes(), name
        assert any(name.startswith(f"{info}/sboms/") for name in archive.namelist())
        assert "Project-URL: Source, https://" in archive.read(f"{info}/METADATA").decode()


def test_no_part_of_it_grows(wheel: Path) -> None:
    """Linking a release's wheel, which `make release-check` weighs, takes minutes: growth is seen here."""
    packed = Counter[str]()
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            packed[part(info.filename)] += info.compress_size
    assert {"module", "models", "rest"} <= set(packed)  # the page is in it if it was built
    assert not (large := {name: size for name, size in packed.items() if size > PARTS[name]}), large


def part(name: str) -> str:
    """What of a wheel a file belongs to."""
    folders = {"tacita/_native.abi3.": "module", "tacita/data/models/": "models", "tacita/data/web/": "page"}
    return next((own for folder, own in folders.items() if name.startswith(folder)), "rest")


def test_the_benches_stay_outside(wheel: Path, installed: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in inside if not name.endswith((".dist-info", ".libs"))} == {"tacita"}
    found = run(installed, "python", "-c", "import importlib.util as u; print(u.find_spec('bench'))")
    assert found.stdout.strip() == "None", found.stdout + found.stderr


def test_it_is_imported_from_there_with_its_models(installed: Path) -> None:
    found = run(
        installed,
        "python",
        "-c",
        "from tacita import _native, data; print(_native.__file__, data.DEFAULT_MODEL, data.DEFAULT_DECODER)",
    )
    assert found.returncode == 0, found.stderr
    for path in found.stdout.split():
        assert Path(path).exists() and Path(path).is_relative_to(installed), path


def test_classify_answers(installed: Path) -> None:
    found = run(installed, "tacita", "classify", GOOD, BAD, "--backend", "plain")
    assert found.returncode == 0, found.stderr
    assert answers(found.stdout) == {GOOD: "positive", BAD: "negative"}


def test_the_demo_encrypts_on_a_toy_ring(installed: Path) -> None:
    found = run(installed, "tacita", "demo", *TOY, "--allow-insecure")
    assert found.returncode == 0, found.stdout + found.stderr
    assert answers(found.stdout) == {GOOD: "positive"}
    assert "encrypts nothing" not in found.stdout


def test_the_demo_refuses_a_toy_ring_that_was_not_asked_for_as_insecure(installed: Path) -> None:
    found = run(installed, "tacita", "demo", *TOY)
    assert found.returncode != 0
    assert "--allow-insecure" in found.stderr
    assert not answers(found.stdout)


def answers(screen: str) -> dict[str, str]:
    """Text -> label, as the rows of the table of answers show them."""
    rows = [[cell.strip() for cell in line.split("│")] for line in screen.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) > 2}
