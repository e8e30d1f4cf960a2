"""Package data: the default model, and the sentences that intervals are calibrated on when the user brings
none.

Both lie inside the package, so that a wheel and a clone find them in the same way.
"""

from __future__ import annotations

import os
from pathlib import Path

# The folder of the model that is used when the user names none; the environment may name another.
DEFAULT_MODEL = Path(os.environ.get("TACITA_MODEL", Path(__file__).parent / "models" / "sst2-tiny"))
