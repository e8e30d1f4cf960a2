"""The harness of all whole runs: a plan, its inputs and a backend -> answers, seconds, bytes, memory.

    ask(plan, model, groups, Machine("sim"), ran := Ran())

Backends: `ckks` encrypts through the files of a folder; `shares` asks a two-party server over TLS on the
loopback; `plain` and `sim` send nothing, and of a two-party plan compute in floats and in the two parties'
integers.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.runs.sittings import Sittings
from bench.runs.stages import StageClock, compared
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.cli.console import progress
from tacita.cli.steps import usage_fields
from tacita.client import Answer, Client
from tacita.client.session import embedded
from tacita.errors import InputError
from tacita.evaluate import Server
from tacita.evaluate.session import MEMORY_GB, Usage
from tacita.planning.circuit import circuit_of
from tacita.planning.request import NEAREST
from tacita.plans import engine
from tacita.plans.answers import understood
from tacita.plans.files import Workdir, digest_of
from tacita.plans.plan import Plan
from tacita.plans.public_folder import public_of
from tacita.resources import peak_memory_gb
from tacita.schemes.base import AnyPlan, save
from tacita.schemes.ciphertexts import parameters, row_by_row
from tacita.schemes.registry import scheme_of
from tacita.schemes.two_parties import TwoParties, dialled, listening
from tacita.texts.answer import softmax
from tacita.texts.embed import Text

Array = NDArray[np.float64]
Sample = tuple[Array, Array]  # hidden states (tokens, hidden), mask (tokens,)
Steps = dict[str, float]  # seconds
Read = Callable[[str], Sequence[Array]]  # a live tensor by its name -> slot vectors
REQUEST = ("encrypt", "evaluate", "decrypt")
ONCE = ("circuit", "start", "keys")  # of a server's first request, but for keys before its client comes
DECIMALS = 12


@dataclass(frozen=True)
class Machine:
    """How a run is executed. memory: GB of the server. work: folder of its files (default: a temporary one).
    device: what evaluates, a name that `tacita.resources.device_number` reads."""

    backend: str
    threads: int = 0
    memory: float = MEMORY_GB
    allow_insecure: bool = False
    work: Path | None = None
    device: str = "cpu"

    @property
    def encrypts(self) -> bool:
        """Whether ciphertexts are evaluated."""
        return self.backend == "ckks"


@dataclass(frozen=True)
class Group:
    """The inputs of one request: texts, then hidden states as slots hold them."""

    texts: Sequence[Text] = ()
    samples: Sequence[Sample] = ()

    def __len__(self) -> int:
        return len(self.texts) + len(self.samples)


@dataclass
class Ran:
    """What was measured so far. seconds: of steps done once, those of `ONCE` apart from the evaluation;
    requests: seconds of each request by step; stages: of each request by stage. bytes: of files, or of what
    was sent both ways; sent: request and response of each request together. peak_gb: of the process after the
    last request."""

    answers: list[Answer] = field(default_factory=list)
    seconds: Steps = field(default_factory=dict)
    requests: list[Steps] = field(default_factory=list)
    stages: list[Steps] = field(default_factory=list)
    bytes: dict[str, int] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    threads: int = 1
    peak_gb: float = 0.0

    @contextmanager
    def timing(self, step: str, into: Steps | None = None) -> Iterator[None]:
        """Adds the seconds of its body."""
        began, seconds = time.monotonic(), self.seconds if into is None else into
        yield
        seconds[step] = seconds.get(step, 0.0) + time.monotonic() - began

    @property
    def logits(self) -> Array:
        """Returns those of all answers, (inputs, outputs), also where a check failed."""
        return np.array([answer.anyway.logits for answer in self.answers])

    @property
    def setup(self) -> Steps:
        """Seconds that a server's first request pays for what it keeps."""
        return {name: self.seconds.get(name, 0.0) for name in ONCE}

    def steps(self, requests: Sequence[Steps]) -> Steps:
        """Seconds of plan, keys and these requests' steps; the evaluation pays for the server's set-up."""
        once = {name: self.seconds[name] for name in ("plan", "keygen") if name in self.seconds}
        found = {name: sum(one.get(name, 0.0) for one in requests) for name in REQUEST}
        found["evaluate"] += sum(self.setup.values())
        return once | found


class LayerErrors:
    """Pass `see` as what a run in the clear tells after each stage (`Ciphertexts.in_the_clear`).

    worst: by layer, the largest absolute error of its output on real tokens, over the range of the float
    model's output there; over all samples that were started. A layer is what stands before the first dot of a
    node's name, and its output that of its last norm; of a layer that computes the first token alone, this
    token counts.
    """

    def __init__(self, plan: Plan, model: Checkpoint) -> None:
        self.worst: dict[str, float] = {}
        self._model, self._circuit = model, circuit_of(plan, model, texts=1)
        compared = [stage.name for stage in self._circuit.stages if stage.name in self._circuit.probes]
        last = {name.partition(".")[0]: name for name in compared}
        self._layers = {stage: layer for layer, stage in last.items()}
        self._trace: dict[str, Array] = {}
        self._real: NDArray[np.bool_] = np.ones(0, dtype=bool)

    def start(self, sample: Sample) -> None:
        """The next run is of this sample. Cost: one float64 forward pass."""
        self._trace, self._real = dict(reference(self._model, *sample).trace), sample[1] > 0.0

    def see(self, stage: str, read: Read) -> None:
        """Compares where a layer ends."""
        if (layer := self._layers.get(stage)) is None:
            return
        probe = self._circuit.probes[stage]
        (found,) = probe.read(read(probe.tensor))
        rows = np.flatnonzero(self._real[: len(found)])
        wanted = self._trace[probe.reference][rows]
        error = float(np.abs(found[rows] - wanted).max() / np.ptp(wanted))
        self.worst[layer] = max(error, self.worst.get(layer, 0.0))


def unrounded(plan: Plan) -> Plan:
    """The plan whose answers are shown as they are decrypted: who measures has the secret key anyway."""
    return replace(plan, decimals=DECIMALS, noise=0.0)


def ask(
    plan: AnyPlan,
    model: Checkpoint,
    groups: Sequence[Group],
    machine: Machine,
    ran: Ran,
    *,
    seed: int = 0,
    layers: LayerErrors | None = None,
) -> None:
    """Asks one request after another of one server, and writes answers and what it measures into `ran`.

    seed: of the first request's noise on `sim`. layers: compares the layers of samples, on `plain` and `sim`.
    Raises as `Client` and `Server`, ParameterError for a plan below 128 bits that is not allowed.
    """
    match machine.backend:
        case "ckks":
            asked = _encrypted(plan, model, groups, machine, ran)
        case "shares":
            asked = _shared(plan, model, groups, ran)
        case _:
            asked = _in_the_clear(plan, model, groups, machine, ran, seed, layers)
    for answers in asked:
        ran.answers += answers
        ran.peak_gb = peak_memory_gb()
        ran.sent.append(sum(ran.bytes.get(name, 0) for name in ("request", "response")))


def _encrypted(
    plan: AnyPlan, model: Checkpoint, groups: Sequence[Group], machine: Machine, ran: Ran
) -> Iterator[list[Answer]]:
    if not isinstance(plan, Plan):
        raise InputError(f"bench: {plan.scheme} has no requests", hint="ask its backend `shares`")
    engine.require_secure(plan.parameters, allow_insecure=machine.allow_insecure)
    with nullcontext(machine.work) if machine.work else _temporary() as folder:
        files = Workdir(Path(folder))
        sittings = Sittings.of(files.path, _digest(plan, groups), len(groups))
        save(plan, files.plan)
        how: dict[str, Any] = {"allow_insecure": machine.allow_insecure}
        client = Client(public_of(plan, model), files, one_user=True, **how)
        how |= {"threads": machine.threads, "memory": machine.memory, "device": machine.device}
        server = Server(plan, model, files, resume=machine.work is not None, **how)
        server.forget()  # the rows of an earlier text
        with ran.timing("start"):
            circuit_of(plan, model)
            server.ring.provide()
        with progress("keygen") as report, sittings.once("keygen", ran.seconds) as wanted:
            if wanted:
                client.keygen(report)
        for group in groups:
            answers = _request(plan, client, server, group, machine, ran, sittings)
            names = ("evaluation_keys", "request", "response")
            ran.bytes = {name: getattr(files, name).stat().st_size for name in names}
            ran.usage, ran.threads = server.usage, server.threads
            yield answers
        sittings.path.unlink(missing_ok=True)  # a whole run: the next makes keys and request anew


def _digest(plan: Plan, groups: Sequence[Group]) -> str:
    """Identifies a run's plan and inputs."""
    found = sha256(plan.hash.encode())
    for group in groups:
        found.update(repr(list(group.texts)).encode())
        for array in (array for sample in group.samples for array in sample):
            found.update(array.tobytes())
    return found.hexdigest()


def _request(
    plan: Plan,
    client: Client,
    server: Server,
    group: Group,
    machine: Machine,
    ran: Ran,
    sittings: Sittings,
) -> list[Answer]:
    steps: Steps = {}
    if not sittings.again:
        sittings.steps.pop("encrypt", None)
        sittings.stages = {}
    with sittings.once("encrypt", steps) as wanted:
        rows = (hidden[mask > 0] for hidden, mask in group.samples)
        states = [each[::-1] if plan.backwards else each for each in rows]  # as a client has them
        if wanted:
            after = digest_of(client.work.request) if plan.kept and ran.requests else ""
            client.encrypt_batch(group.texts, hidden_states=states, after=after)
    if not ran.requests:
        with ran.timing("keys"):
            server.load_keys()
    ran.stages.append(sittings.stages)
    with progress(f"evaluate request {len(ran.requests) + 1}") as bar, ran.timing("evaluate", steps):
        server.evaluate(clock := StageClock(sittings.stages, sittings.save, bar))
    steps["evaluate"] += clock.earlier
    with ran.timing("decrypt", steps):
        answers = client.decrypt_batch(len(group), group.texts)
    ran.requests.append(steps)
    return answers


def _in_the_clear(
    plan: AnyPlan,
    model: Checkpoint,
    groups: Sequence[Group],
    machine: Machine,
    ran: Ran,
    seed: int,
    layers: LayerErrors | None,
) -> Iterator[list[Answer]]:
    be, scheme = machine.backend, scheme_of(plan.scheme)
    steps_of = row_by_row(plan, model, be, seed) if isinstance(plan, Plan) and plan.kept else None
    for number, group in enumerate(groups):
        samples = [*(embedded(plan, model, text, None) for text in group.texts), *group.samples]
        steps: Steps = {}
        if layers is not None:
            layers.start(samples[0])
        see: dict[str, Any] = {} if layers is None else {"see": layers.see}
        with progress(f"{be} request {number + 1}") as bar, ran.timing("evaluate", steps):
            clock = StageClock(bar=bar)
            ran.stages.append(clock.seconds)
            if steps_of:
                answers = steps_of(samples)
            else:
                answers = scheme.in_the_clear(plan, model, samples, be, seed + number, clock, **see)
        ran.requests.append(steps)
        texts = [*group.texts, *[None] * len(group.samples)]
        yield [understood(plan, answer, model, text) for answer, text in zip(answers, texts, strict=True)]


def _shared(plan: AnyPlan, model: Checkpoint, groups: Sequence[Group], ran: Ran) -> Iterator[list[Answer]]:
    """Both parties in this process, a text a request. The first also pays for base transfers."""
    if isinstance(plan, Plan):
        raise InputError(f"bench: {plan.scheme} has no two parties", hint="ask its backend `ckks`")
    scheme = TwoParties()
    with _temporary() as folder, listening(scheme.server(plan, model)) as address, dialled(address) as party:
        client = scheme.client(party, Path(folder))
        for group in groups:
            steps, before = Steps(), party.cost
            with ran.timing("evaluate", steps):
                answers = [client.classify(text) for text in group.texts]
            ran.requests.append(steps)
            sent = {name: int(party.cost[name] - before[name]) for name in ("bytes_sent", "bytes_received")}
            ran.bytes = {"request": sent["bytes_sent"], "response": sent["bytes_received"]}
            yield answers
        client.end()


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tacita-bench-")


def figures(
    plan: Plan, machine: Machine, ran: Ran, rows: Sequence[Mapping[str, Any]], inputs: int
) -> dict[str, Any]:
    """The fields that the report of every run has. rows: its stages (`stages.stage_rows`)."""
    return {
        "scheme": plan.scheme,
        "packing": plan.packing,
        "backend": machine.backend,
        "encrypted": machine.encrypts,
        "model": plan.model.name,
        "tokens": plan.tokens,
        "inputs": inputs,
        "prices": plan.prediction.machine,
        "stages": list(rows),
        **compared(rows),
        "bootstraps": plan.bootstraps,
        "bytes": ran.bytes,
        "peak_rss_gb": ran.peak_gb,
        **usage_fields(ran.usage),
        "warnings": sum(bool(answer.warnings) for answer in ran.answers),
        "parameters": parameters(plan) if machine.encrypts else None,
        "plan_hash": plan.hash,
        "threads": ran.threads,
    }


def quality(logits: Array, reference: Array, labels: Sequence[int] | None = None) -> dict[str, Any]:
    """Answers and the float model's, both (inputs, outputs), and the labels' numbers where they are known.

    agreement, accuracy, reference_accuracy: shares of inputs. max_abs_error, mean_abs_error: of logits, over
    inputs and outputs. max_softmax_error: of a probability.
    """
    found, wanted = logits.argmax(axis=1), reference.argmax(axis=1)
    errors = np.abs(logits - reference)
    return {
        "agreement": float(np.mean(found == wanted)),
        "accuracy": None if labels is None else float(np.mean(found == np.array(labels))),
        "reference_accuracy": None if labels is None else float(np.mean(wanted == np.array(labels))),
        "max_abs_error": float(errors.max()),
        "mean_abs_error": float(errors.mean()),
        "max_softmax_error": float(np.abs(softmax(logits) - softmax(reference)).max()),
    }


def cosine(a: Array, b: Array) -> float:
    """Compares two vectors by their angle alone; 0 for a vector of zeros."""
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a.ravel() @ b.ravel() / max(lengths, np.finfo(float).tiny))


def alike(found: Array, wanted: Array) -> dict[str, float]:
    """How alike scores (queries, documents) rank. same_ten: of so many queries the ten nearest documents are
    the float model's. shared: the part of all documents that are. worst: of the others, how far below its
    tenth score, over the query's largest."""
    ours, theirs = (np.argsort(-each, axis=1, kind="stable")[:, :NEAREST] for each in (found, wanted))
    common = np.array([len(np.intersect1d(a, b)) for a, b in zip(ours, theirs, strict=True)])
    tenth, reached = (np.take_along_axis(wanted, each, 1).min(axis=1) for each in (theirs, ours))
    worst = float(((tenth - reached) / wanted.max(axis=1)).max())
    most = theirs.shape[1]
    shares = {"same_ten": int((common == most).sum()), "shared": float(common.mean()) / most}
    return {"queries": len(wanted), **shares, "worst": worst}
