"""What a server keeps of a text from one request to the next: rows as ciphertexts, in a folder of its own.

    manifest         plan, key; of each state the last request's sha256, how many there were, sha256s of files
    *.spill          a ciphertext each

A request names the one that it follows, so its own sha256 stands for the text so far, and one that is
replayed, skipped or of another text is refused before anything is computed. The rows that a request leaves
are written after its response, beside those before it, which go when the manifest has been replaced in one
step: a killed server has the one or the other, and evaluates the request again bit for bit, or refuses it as
answered. On disk at most: twice the rows of a text. The files are the server's own and are checked as well.

A service, whose requests may come twice (`again`), keeps the state before the last row, too: a request that
names what the last one named is evaluated on it and takes its place. Any other is refused as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacita.errors import FileError
from tacita.evaluate.spill import Handle, SpillFile, SpillingBackend, SpillStore
from tacita.evaluate.spill import store as manifest
from tacita.plans import engine, envelope
from tacita.plans.files import digest_of
from tacita.plans.plan import Plan, TensorInfo
from tacita.plans.prices.formulas import ciphertext_bytes, prices_of
from tacita.slots.stage import Live

FOLDER = ".tacita-rows"  # in the work folder
FORMAT, VERSION = "tacita-rows", 2
MAX_BYTES = 1 << 24
ANEW = "begin the text anew: let the server forget what it keeps, and send the first row"
Read = Callable[[bytes, TensorInfo, Path], Any]  # bytes, their tensor and file -> a checked ciphertext
Cts = tuple[Handle, ...]


@dataclass(frozen=True)
class State:
    """Rows after a request. request: its sha256, hex; rows: how many there were."""

    request: str
    rows: int
    tensors: Mapping[str, tuple[SpillFile, ...]]


@dataclass(frozen=True)
class Text:
    """The content of a manifest. states: the last, and where requests may come twice the one before it."""

    plan: str
    key: str
    states: tuple[State, ...]

    @property
    def files(self) -> list[SpillFile]:
        """All files of the text's rows."""
        tensors = (files for state in self.states for files in state.tensors.values())
        return [file for files in tensors for file in files]


class KeptRows:
    """The rows that a request takes and leaves. text: that is kept; state: of it, that the request continues;
    None before the first row. again: whether `state` is kept beside what the request leaves."""

    def __init__(
        self, plan: Plan, store: SpillStore, text: Text | None, state: State | None, again: bool
    ) -> None:
        self._plan, self._store, self.text = plan, store, text
        self._state, self._again = state, again

    def live(self, be: SpillingBackend, given: Live, read: Read) -> Live:
        """The plan's kept tensors, before the first row zeros, which the server takes from the request
        (`given`) by subtracting it from itself. Raises FileError for a file that is not what was written."""
        if self._state is None:
            (hidden,) = given["hidden"]
            zero = be.sub(hidden, hidden)
            return {t.name: (be.drop_to(zero, t.level),) * t.count for t in self._plan.kept}
        files = self._state.tensors
        return {
            t.name: tuple(be.adopt(self._read(file, t, read)) for file in files[t.name])
            for t in self._plan.kept
        }

    def _read(self, file: SpillFile, tensor: TensorInfo, read: Read) -> Any:
        path = self._store.folder / file.name
        with engine.translated(FileError, str(path)):
            return read(self._store.load(file), tensor, path)

    def leave(self, be: SpillingBackend, left: Mapping[str, Cts], key: str, digest: str) -> None:
        """Keeps these in place of those that were taken. left: by the plan's names. key, digest: of the
        request, hex. Raises ResourceError, FileError; then those before are still kept."""
        tensors = {t.name: self._written(be, left[t.name], t.level) for t in self._plan.kept}
        before, count = self.text.files if self.text else [], self._state.rows if self._state else 0
        earlier = (self._state,) if self._state and self._again else ()
        self.text = Text(self._plan.hash, key, (*earlier, State(digest, count + 1, tensors)))
        self._store.write_manifest(manifest.stated(FORMAT, VERSION, self.text))
        held = {file.name for file in self.text.files}
        for file in before:
            if file.name not in held:
                self._store.remove(file)
        self._store.hold(held)

    def _written(self, be: SpillingBackend, cts: Cts, level: int) -> tuple[SpillFile, ...]:
        return tuple(self._store.write(be.pool.packed(be.drop_to(ct, level))) for ct in cts)


@contextmanager
def kept_rows(plan: Plan, work: Path, request: Path, *, again: bool = False) -> Iterator[KeptRows | None]:
    """Yields the rows that a request continues; None under a plan that keeps none. The folder is locked
    meanwhile. again: whether a request may come twice, or another in its place.

    Raises FileError for a request that does not follow the last one of the text that is kept, or with `again`
    the one before, ResourceError where another process has the folder.
    """
    if not plan.kept:
        yield None
        return
    store = SpillStore(work / FOLDER)
    try:
        state = _continued(plan, request, text := _read_text(store), again=again)
        if text is None:
            store.sweep()
        yield KeptRows(plan, store, text, state, again)
    finally:
        store.close(keep=store.has_manifest())


def kept_bytes(plan: Plan, *, again: bool = False) -> int:
    """Returns the largest size of the files: those of one row more are written before the others go. again:
    of `kept_rows`."""
    return (3 if again else 2) * ciphertext_bytes(plan.kept, prices_of(plan.parameters))[0]


def forget(work: Path) -> None:
    """Deletes the rows of the text that is kept, if any. Raises FileError, ResourceError as `kept_rows`."""
    if (work / FOLDER).exists():
        SpillStore(work / FOLDER).close(keep=False)


def _continued(plan: Plan, request: Path, text: Text | None, *, again: bool) -> State | None:
    """Returns the state that a request continues, None for none. Raises FileError."""
    after, key = envelope.after_of(request), envelope.key_of(request, "request")
    if text is None:
        if after:
            what = f"goes on behind request {after[:12]}, and no rows are kept"
            raise FileError(f"{request}: {what}", hint=ANEW)
        return None
    if (text.plan, text.key) != (plan.hash, key):
        raise FileError(f"{request}: rows are kept of a text under another plan or key", hint=ANEW)
    *earlier, last = text.states
    before = earlier[-1] if earlier else None
    if again and (last.rows == 1 or before) and after == (before.request if before else ""):
        return before
    if digest_of(request) == last.request:
        raise FileError(f"{request}: row {last.rows} of its text, answered already", hint="send the next row")
    if after != last.request:
        what = f"goes on behind request {after[:12]}" if after else "begins a text"
        state = f"{last.rows} rows are kept, the last of request {last.request[:12]}"
        raise FileError(f"{request}: {what}, {state}", hint=ANEW)
    if last.rows >= plan.tokens:
        raise FileError(f"{request}: a text of {plan.tokens} rows is full", hint="plan for more --tokens")
    return last


def _read_text(store: SpillStore) -> Text | None:
    """Reads the text that is kept; None for nothing. Raises FileError for what `KeptRows.leave` would not
    have written."""
    try:
        if (manifest_text := store.read_manifest(MAX_BYTES)) is None:
            return None
        text = manifest.parsed(manifest_text, FORMAT, VERSION, Text)
        if not 1 <= len(text.states) <= 2:
            raise ValueError(f"{len(text.states)} states")
        store.adopt(text.files)
    except (FileError, *manifest.MALFORMED) as error:
        raise FileError(f"{store.folder}: not the rows of a text ({error!s:.200})", hint=ANEW) from error
    return text
