"""Package data: the default models, and the sentences that intervals are calibrated on when the user brings
none.

Both lie inside the package, so that a wheel and a clone find them in the same way.
"""

from __future__ import annotations

import os
from pathlib import Path

MODELS = Path(__file__).parent / "models"
WEB = Path(__file__).parent / "web"  # the page of the service, where `make web` has built it
# The folder of the model that is used when the user names none; the environment may name another.
DEFAULT_MODEL = Path(os.environ.get("TACITA_MODEL", MODELS / "sst2-tiny"))
DEFAULT_DECODER = MODELS / "austen-tiny"  # the same, of `generate`


def shipped() -> dict[str, Path]:
    """Folders of the models that come with the package, by name."""
    return {path.name: path for path in sorted(MODELS.iterdir()) if path.is_dir()}
