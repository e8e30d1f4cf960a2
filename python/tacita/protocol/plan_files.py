"""Writing a plan into its server's folder: plan.json, which anybody may read, and the salt, which stays
there."""

from __future__ import annotations

from pathlib import Path

from tacita.plans.commitment import SALT_FILE
from tacita.plans.plan import Plan
from tacita.protocol.files import replacing, write_text


def save(plan: Plan, path: Path) -> None:
    """Writes plan and salt (mode 0600) beside each other, the plan last: `Plan.load` reads both. Raises
    FileError."""
    if plan.salt:
        with replacing(path.with_name(SALT_FILE), mode=0o600) as temporary:
            temporary.write_text(plan.salt + "\n", encoding="ascii")
    write_text(path, plan.to_text())
