"""Package data: the default models, and the sentences that intervals are calibrated on when the user brings
none.

Both lie inside the package, so that a wheel and a clone find them in the same way.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parent / "models"
WEB = Path(__file__).parent / "web"  # the page of the service, where `make web` has built it
# The folder of the model that is used when the user names none; the environment may name another.
DEFAULT_MODEL = Path(os.environ.get("TACITA_MODEL", MODELS / "sst2-tiny"))
DEFAULT_DECODER = MODELS / "austen-tiny"  # the same, of `generate`


def read_list() -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Returns the models of `tacita models` by name, and its tasks, each with a model and commands."""
    data = tomllib.loads((Path(__file__).parent / "models.toml").read_text(encoding="utf-8"))
    return data["models"], data["tasks"]


def shipped() -> dict[str, Path]:
    """Folders of the models that come with the package, or that `tacita models fetch` brought, by name."""
    folders = (*_below(models_cache()), *_below(MODELS))
    return {path.name: path for path in folders}


def models_cache() -> Path:
    """Returns the folder of fetched models, by the XDG base directory rules."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacita" / "models"


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[!.]*") if path.is_dir())
