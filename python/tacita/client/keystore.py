"""Generates keys and keeps the secret key's file: mode 0600, written here, read here, sent nowhere. A count
of the answers that it has decrypted is kept beside it."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tacita import compiled
from tacita.errors import FileError
from tacita.plans import engine, json_fields
from tacita.plans.files import Workdir, replacing, require
from tacita.plans.plan import Plan
from tacita.plans.prices.predict import file_bytes
from tacita.progress import Progress
from tacita.resources import require_disk

if TYPE_CHECKING:
    from tacita._native import SecretKey


def generate(
    plan: Plan,
    work: Workdir,
    *,
    allow_insecure: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Writes `secret.key` (0600) and `evaluation.keys`, exactly the keys of the plan, streamed to disk.

    Both files appear together or not at all. Raises ResourceError before it starts when the disk is too
    small.
    """
    params = engine.parameters(plan.parameters, allow_insecure=allow_insecure)
    require_disk(work.path, file_bytes(plan)["evaluation_keys"], "key generation")
    report = _Adapter(progress, plan.prediction.seconds.get("keygen", 0.0))
    with (
        replacing(work.secret_key, mode=0o600) as secret,
        replacing(work.evaluation_keys) as public,
        engine.translated(FileError, "key generation"),
    ):
        native = compiled.native
        native.keygen(params, list(plan.rotations), str(secret), str(public), report, plan.coefficients)


def load_secret(plan: Plan, work: Workdir, *, allow_insecure: bool = False) -> SecretKey:
    """Loads the secret key of this folder. Raises FileError for one that is missing, readable by others,
    damaged, or of other parameters."""
    path = require(work.secret_key, "keygen")
    _require_private(path)
    params = engine.parameters(plan.parameters, allow_insecure=allow_insecure)
    with engine.translated(FileError, str(path)):
        return compiled.native.SecretKey.load(str(path), params)


def count_answers(work: Workdir, key: str, more: int) -> int:
    """Adds to the answers that the secret key of this folder, of this id, has decrypted, and returns their
    sum. It is called before they are decrypted, so that a run that fails does not take them back; another
    process waits. Raises FileError for a damaged count."""
    with require(work.secret_key, "keygen").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        total = _answers_so_far(work.key_use, key) + more
        with replacing(work.key_use, mode=0o600) as temporary:
            temporary.write_text(json.dumps({"key": key, "answers": total}) + "\n", encoding="utf-8")
    return total


def _answers_so_far(path: Path, key: str) -> int:
    """Reads the count of a key's answers: 0 without a file, or where it counts for another key. Raises
    FileError."""
    if not path.exists():
        return 0
    try:
        count = json_fields.loads(path.read_text(encoding="utf-8"))
        answers = count["answers"] if count["key"] == key else 0
    except (OSError, ValueError, KeyError, TypeError):
        answers = None
    if type(answers) is not int or answers < 0:
        raise FileError(f"{path}: damaged count of answers", hint="make a new key: tacita keygen")
    return answers


def _require_private(path: Path) -> None:
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise FileError(f"{path}: mode {mode:03o} lets others read the secret key", hint=f"chmod 600 {path}")


class _Adapter:
    """Turns the engine's (done, total) calls into Progress reports."""

    def __init__(self, progress: Callable[[Progress], None], predicted: float) -> None:
        import time

        self._now, self._began = time.monotonic, time.monotonic()
        self._progress, self._predicted = progress, predicted

    def __call__(self, done: int, total: int) -> None:
        spent = self._now() - self._began
        remaining = spent * (total - done) / done if done else self._predicted
        self._progress(Progress("evaluation keys", done, total, spent, remaining))
