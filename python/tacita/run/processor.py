"""Which processor this is: its name for people, and a key by which prices measured on it are found again.

Many cloud machines of different speed share one name ("AMD EPYC"), so the key has family and model too.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
UNKNOWN = "unknown processor"


@dataclass(frozen=True)
class Processor:
    """name: as the system has it. family, model: its numbers, empty where the system has none."""

    name: str
    family: str = ""
    model: str = ""
    architecture: str = ""

    @property
    def key(self) -> str:
        """16 hexadecimal digits."""
        return hashlib.sha256("\n".join(asdict(self).values()).encode()).hexdigest()[:16]


def processor(cpuinfo: Path = CPUINFO) -> Processor:
    """Of this machine. cpuinfo: as Linux writes it; where there is none, what Python knows."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    found: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        found.setdefault(name.strip(), value.strip())
    name = found.get("model name") or platform.processor() or UNKNOWN
    return Processor(name, found.get("cpu family", ""), found.get("model", ""), platform.machine())
