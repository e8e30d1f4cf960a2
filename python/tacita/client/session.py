"""The client of one plan: it makes keys, encrypts texts or hidden states, and decrypts answers."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacita import compiled
from tacita.errors import FileError, InputError, KeyBudgetWarning
from tacita.layouts.runs import Answer as Decoded
from tacita.plans import engine, envelope, json_fields
from tacita.plans.answers import Answer, judge, understood
from tacita.plans.files import Workdir, digest_of, replacing, require
from tacita.plans.plan import Plan
from tacita.plans.presets import budget_warning
from tacita.plans.prices.formulas import AT_ONCE, file_bytes
from tacita.plans.public_folder import Public, open_public
from tacita.plans.scheme import PlanHeader
from tacita.progress import Progress
from tacita.resources import in_threads, lock, require_disk, threads
from tacita.texts.embed import Text, arranged, embed, length_of
from tacita.texts.embedding import Embedder
from tacita.texts.task import CHOICE, NEXT

if TYPE_CHECKING:
    from tacita._native import SecretKey

Array = npt.NDArray[np.float64]


class Client:
    """A client with the secret key of one folder; every method is one step of the protocol on its files.

    public: the public part of the server's model, or the folder that holds it, without weights of the
    encoder. one_user: the server is this user's own, so that nobody else sees answers and no
    KeyBudgetWarning is given.
    """

    def __init__(
        self,
        public: Public | Path | str,
        work: Path | str | Workdir,
        *,
        allow_insecure: bool = False,
        one_user: bool = False,
    ) -> None:
        self.public = public if isinstance(public, Public) else open_public(Path(public))
        self.plan = self.public.plan
        self.work = work if isinstance(work, Workdir) else Workdir(Path(work))
        self.allow_insecure = allow_insecure
        self.one_user = one_user

    def keygen(
        self, progress: Callable[[Progress], None] = lambda _: None, *, keep_secret: bool = False
    ) -> None:
        """Writes secret.key (0600) and evaluation.keys, exactly the keys of the plan, streamed to disk, in
        place of those of the folder. keep_secret: makes the evaluation keys anew, with other errors, of the
        secret key that is there.

        Both files appear together or not at all. Raises ResourceError before it starts when the disk is too
        small.
        """
        plan, work, insecure = self.plan, self.work, self.allow_insecure
        secret = load_secret(plan, work, allow_insecure=insecure) if keep_secret else None
        params = engine.parameters(plan.parameters, allow_insecure=insecure)
        require_disk(work.path, file_bytes(plan)["evaluation_keys"], "key generation")
        began, predicted = time.monotonic(), plan.prediction.seconds.get("keygen", 0.0)

        def report(done: int, total: int) -> None:
            spent = time.monotonic() - began
            remaining = spent * (total - done) / done if done else predicted
            progress(Progress("evaluation keys", done, total, spent, remaining))

        native, rotations = compiled.native, list(plan.rotations)
        with ExitStack() as files:
            path = secret or files.enter_context(replacing(work.secret_key, mode=0o600))
            public = files.enter_context(replacing(work.evaluation_keys))
            files.enter_context(engine.translated(FileError, "key generation"))
            if isinstance(path, Path):
                native.keygen(params, rotations, str(path), str(public), report, plan.coefficients)
            else:
                native.evaluation_keys(path, rotations, str(public), report, plan.coefficients)

    def encrypt(
        self, text: Text | None = None, *, hidden_states: Array | None = None, after: str = ""
    ) -> Path:
        """Writes request.ct from a text, or from hidden states (tokens, hidden) after the embedding
        LayerNorm.

        Under a plan that keeps rows (`Plan.kept`) the request holds the last row alone, and the server must
        have those before it. after: sha256 of the request before it in this text, empty for the first.
        Raises InputError for `after` under another plan.
        """
        return self._encrypt([embedded(self.plan, self.public.front, text, hidden_states)], after)

    def encrypt_batch(
        self, texts: Sequence[Text] = (), *, hidden_states: Sequence[Array] = (), after: str = ""
    ) -> Path:
        """Writes request.ct from 1 to plan.batch texts, or as many hidden states; raises InputError for more
        or none. after: as of `encrypt`, where every text has the place that it had.

        Places left over hold copies of the first text: the server learns neither lengths nor how full the
        batch is.
        """
        samples = [embedded(self.plan, self.public.front, text, None) for text in texts]
        samples += [embedded(self.plan, self.public.front, None, states) for states in hidden_states]
        if not 1 <= len(samples) <= self.plan.batch:
            raise InputError(
                f"encrypt: {len(samples)} texts, a request of this plan holds 1 to {self.plan.batch}",
                hint="split them over several requests",
            )
        return self._encrypt(samples, after)

    def decrypt(self, text: Text | None = None) -> Answer:
        """Decrypts the first answer of response.ct. text: the one that was encrypted, from whose tokens the
        answer of a model that answers for every token is read (`understood`). Raises FileError when the file
        is damaged, of another plan or key, or of another request than the one beside it."""
        return self.decrypt_batch(1, [] if text is None else [text])[0]

    def decrypt_batch(self, count: int | None = None, texts: Sequence[Text] = ()) -> list[Answer]:
        """Decrypts the first `count` answers of response.ct (default: one for each text, or all places of the
        batch), in the order of the texts. texts: as of `decrypt`. They are counted beside the key
        (`count_answers`), and KeyBudgetWarning is given for more of them than its budget."""
        secret = load_secret(self.plan, self.work, allow_insecure=self.allow_insecure)
        with engine.translated(FileError, str(self.work.response)):
            slots = list(self._slots(secret, asked := count or len(texts) or self.plan.batch))
        decoded = self.plan.layout.response.read(slots)[:asked]
        return [
            self._answer(one, text)
            for one, text in zip_longest(decoded, texts[: len(decoded)], fillvalue=None)
        ]

    def _slots(self, secret: SecretKey, asked: int) -> Iterator[npt.NDArray[Any]]:
        """Yields the decoded ciphertexts of response.ct, each checked against the plan before it is
        decrypted. asked: how many answers are counted for the key."""
        path, tensors = self.work.response, {tensor.name: tensor for tensor in self.plan.response}
        for number, (name, _, data) in enumerate(envelope.stream(path, "response", self.plan, secret.key_id)):
            ct = compiled.native.Ciphertext.from_bytes(secret.params, data)
            engine.require_level_and_scale(path, tensors[name], ct, secret.params)
            if number == 0:
                answers, request = envelope.after_of(path, "response"), self.work.request
                if answers and request.is_file() and digest_of(request) != answers:
                    raise FileError(f"{path}: answers another request than {request}", hint="evaluate it")
                self._count(secret.key_id, min(asked, self.plan.batch))
            yield np.asarray(secret.decrypt(ct))

    def _count(self, key: str, more: int) -> None:
        """Counts answers before they are decrypted, and warns when the key's budget is spent."""
        message = budget_warning(self.plan, count_answers(self.work, key, more))
        if message and not self.one_user:
            warnings.warn(message, KeyBudgetWarning, stacklevel=4)

    def _answer(self, one: Decoded | None, text: Text | None) -> Answer:
        assert one is not None  # there are no more texts than answers
        front = self.public.front
        real = length_of(front, text) if front and text else None
        answer = judge(self.plan, one.values, sound=one.sound(self.plan.agreement), real=real)
        return replace(understood(self.plan, answer, front, text), privacy=self.plan.privacy)

    def _encrypt(self, samples: Sequence[tuple[Array, Array]], after: str = "") -> Path:
        """Writes request.ct from (hidden states, mask) pairs; AT_ONCE ciphertexts are in memory."""
        if after and not self.plan.kept:
            raise InputError("encrypt: a request that follows another", hint="the plan asks whole texts")
        require_disk(self.work.path, file_bytes(self.plan)["request"], "the request")
        slots = self.plan.layout.request.pack(samples)
        secret = load_secret(self.plan, self.work, allow_insecure=self.allow_insecure)
        levels = {tensor.name: tensor.level for tensor in self.plan.request}
        tensors = {name: _encrypt(secret, vectors, levels[name]) for name, vectors in slots.items()}
        with engine.translated(InputError, "encrypt"):
            envelope.write_stream(self.work.request, "request", self.plan, secret.key_id, tensors, after)
        return self.work.request


def embedded(
    plan: PlanHeader, front: Embedder | None, text: Text | None, hidden_states: Array | None
) -> tuple[Array, Array]:
    """Returns (hidden states (tokens, hidden), mask (tokens,)) of either input. Raises InputError."""
    if (text is None) == (hidden_states is None):
        raise InputError("encrypt: give a text or hidden states", hint="exactly one of the two")
    if text is not None:
        if front is None:
            raise InputError("encrypt: the model starts from hidden states", hint="embed the text yourself")
        return embed(front, text, plan.tokens, backwards=plan.backwards)
    states = np.asarray(hidden_states)
    if states.ndim != 2 or states.shape[1] != plan.hidden:
        raise InputError(
            f"encrypt: hidden states of shape {states.shape}, the model has width {plan.hidden}",
            hint="pass (tokens, hidden) after the embedding LayerNorm",
        )
    return arranged(states, plan.tokens, last=plan.task in (NEXT, CHOICE), backwards=plan.backwards)


def _encrypt(secret: SecretKey, vectors: Sequence[npt.NDArray[Any]], level: int) -> Iterator[bytes]:
    def encrypted(vector: npt.NDArray[Any]) -> bytes:
        slots = np.ascontiguousarray(vector, np.complex128)
        return compiled.native.encrypt(secret, slots, level).to_bytes()

    return in_threads(encrypted, vectors, min(AT_ONCE, threads()), AT_ONCE)


# The secret key's file: mode 0600, written here, read here, sent nowhere. A count of the answers that it has
# decrypted is kept beside it.


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
        lock(file.fileno())
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
    if mode & 0o077 and sys.platform != "win32":  # which has no modes: the folder's rights hold
        raise FileError(f"{path}: mode {mode:03o} lets others read the secret key", hint=f"chmod 600 {path}")
