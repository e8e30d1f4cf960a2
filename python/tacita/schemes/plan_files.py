"""The plan of a server's folder, of either kind: plan.json, which anybody may read, and for a plan of
ciphertexts the salt of its commitment, which stays there.
"""

from __future__ import annotations

from pathlib import Path

from tacita.plans.commitment import SALT_FILE
from tacita.plans.plan import Plan, read_capped
from tacita.plans.two_party.check import parse_plan
from tacita.plans.two_party.plan import FORMAT
from tacita.protocol.files import replacing, write_text
from tacita.schemes.base import AnyPlan

TWO_PARTIES = f'"format":"{FORMAT}"'  # in the one spelling of a plan of two parties


def save(plan: AnyPlan, path: Path) -> None:
    """Writes plan and salt (mode 0600) beside each other, the plan last: `load` reads both. Raises
    FileError.
    """
    if not isinstance(plan, Plan):
        return write_text(path, plan.to_bytes().decode())
    if plan.salt:
        with replacing(path.with_name(SALT_FILE), mode=0o600) as temporary:
            temporary.write_text(plan.salt + "\n", encoding="ascii")
    write_text(path, plan.to_text())


def load(path: Path) -> AnyPlan:
    """Reads and checks a plan of either kind. Raises FileError: missing, too large, no plan, altered."""
    text = read_capped(path)
    return parse_plan(text.encode()) if TWO_PARTIES in text else Plan.load(path)
