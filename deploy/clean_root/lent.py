"""The light root: programs and Python of this machine, lent read-only, in place of an image.

It stands in for the last stage's base and for what its `COPY --from` brings: an environment `/tacita` that
finds tacita where it lies on this machine. So the stage's other instructions and the start are tried in
seconds.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

from clean_root.rooms import Room

LINKS = ("bin", "sbin", "lib", "lib64")
OF_USERS = ("passwd", "group", "shadow", "gshadow", "login.defs", "ld.so.cache", "nsswitch.conf")


def light_root(root: Path) -> Room:
    """Makes it in an empty folder. Raises ModuleNotFoundError where this Python has no tacita."""
    packages = [_package(), *map(Path, {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})]
    room = bare_root(root, *packages)
    _environment(root / "tacita", packages)
    return room


def bare_root(root: Path, *packages: Path) -> Room:
    """Makes a root of this machine's programs and its Python, in an empty folder. packages: lent as well."""
    for name in ("etc", "home", "tmp", "var", "opt"):
        (root / name).mkdir()
    for name in LINKS:
        if (Path("/") / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for name in OF_USERS:
        if (found := Path("/etc") / name).exists():
            shutil.copy2(found, root / "etc" / name)
    lent = (Path("/usr"), Path(sys.base_prefix).resolve(), *packages)
    outermost = [path for path in dict.fromkeys(lent) if not any(other in path.parents for other in lent)]
    return Room(root, tuple(outermost))


def _package() -> Path:
    """The folder that tacita is imported from."""
    spec = importlib.util.find_spec("tacita")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("this Python has no tacita to lend: start it with the environment's own")
    return Path(spec.origin).resolve().parents[1]


def _environment(folder: Path, packages: list[Path]) -> None:
    venv.create(folder, with_pip=False, symlinks=True)
    library = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (library / "lent.pth").write_text("\n".join(map(str, packages)))
    program = folder / "bin" / "tacita"
    program.write_text("#!/tacita/bin/python\nfrom tacita.cli import main\n\nmain()\n")
    program.chmod(0o755)
