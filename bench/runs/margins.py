"""What noise and unseen texts do to a plan's promises: answers lost, errors above the stated bound.

    python -m bench noise-margins --model DIR --packing multidiagonal --functions thor
    python -m bench noise-margins --model DIR --texts ../shared/data/sst2/dev.tsv --unseen 1000

Texts are divided as by `bench families`: those that calibrate, and `--inputs` that are asked, each `--seeds`
times on `sim`. An answer is lost where a client would be told not to trust it. With `--unseen` so many of
`--texts` are asked instead, and the plan is made of the model's usual sentences (of the first `--calibration`
of `--texts` where the model has files of its own). Answers are those of the float model with the circuit's
approximations, to each of which the noise of one of `--inputs` texts on `sim` is added, rounded as a client
shows them.

    python -m bench silent-errors --inputs 2000 --noise 0.25

are inputs of batches that err beyond what their plan states, and which of them the client is told of. Without
--model: ARION's two BERT-Tinys, the iDASH 2024 DASHformer and the default model. Inputs are mixtures of one
sentence's vectors with noise. `--calibrate` of them make a plan of ARION, and `--inputs` others are asked on
`sim`, as a client would: with the noise of the engine, rounded, behind its checks. `stated`: the error that
the plan states, from so many `texts`. `above`: share of inputs that err by more, `silent`: that besides pass
the client's checks, and `silent twice`: that err by more than twice of it. `false`: are not above, and fail a
check. `largest` and `percentile_99`: of the errors that pass. Nothing is encrypted. Prints lines of JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import tacita
from bench.models import published
from bench.options import AnyModel, Lines, Packing, emit_rows, lines_of
from bench.runs.dashformer import PUBLISHED, dashformer_folder
from bench.runs.dashformer import TOKENS as AMINO_ACIDS
from bench.runs.families import PRESET, divided, length, short, texts_of
from bench.runs.harness import Group, Machine, Ran, Sample, ask, unrounded
from tacita import api
from tacita.checkpoint import Checkpoint, embed, load, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.cli.console import write_report
from tacita.cli.options import Json, option
from tacita.errors import InputError
from tacita.packings.approximated import approximated
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import load_texts
from tacita.planning.calibrate.calibration import Calibration
from tacita.planning.calibrate.temper import tempered
from tacita.plans.answers import rounded
from tacita.plans.plan import Plan
from tacita.schemes.prices import prices_here
from tacita.texts.embed import Text

Array = NDArray[np.float64]
LONGEST = 512  # tokens of a text, others are left out
Functions = Annotated[str, option("--functions", help="tacita or thor.")]


def plan_for(model: Checkpoint, texts: Sequence[Text], known: Sequence[Text] | None, **circuit: Any) -> Plan:
    """Plans a length that holds all texts, calibrated on those that are known."""
    how: dict[str, Any] = {"prices": prices_here(PRESET), "tokens": length(model, texts), "texts": known}
    plan = tacita.plan(model, scheme="thor", **how, **circuit)
    assert isinstance(plan, Plan)
    return plan


def noise_margins(
    model: AnyModel = None,
    inputs: Annotated[int, option("--inputs", help="Asked; with --unseen, whose noise is measured.")] = 3,
    seeds: Annotated[int, option("--seeds", help="Draws of noise of each.")] = 16,
    calibration: Annotated[int, option("--calibration", help="Texts that calibrate.")] = 300,
    texts: Lines = None,
    unseen: Annotated[int, option("--unseen", help="Ask so many of --texts, each once.")] = 0,
    packing: Packing = None,
    functions: Functions = "tacita",
) -> None:
    """Count answers that noise takes out of calibrated intervals, or errors above the stated bound."""
    loaded = tacita.load(model) if model else tacita.load()
    circuit: dict[str, Any] = {"packing": packing, "functions": functions}
    given = lines_of(texts) if texts else texts_of(model) if model else [*load_texts()]
    if not unseen:
        some = list(islice(short(loaded, given, LONGEST), inputs + calibration))
        known, asked = divided(some, inputs, calibration)
        emit_rows(lost(loaded, plan_for(loaded, some, known, **circuit), asked, seeds))
        return
    if texts is None:
        raise InputError("noise-margins: --unseen without --texts", hint="a file of texts that are asked")
    asked, usual = list(short(loaded, given, 64)), model is None or texts_of(model) != given
    some, asked = asked[:calibration], asked if usual else asked[calibration:]
    asked = asked[:: max(1, len(asked) // unseen)][:unseen]
    plan = plan_for(loaded, asked, None if usual else some, **circuit)
    emit_rows([above_bound(loaded, plan, asked, inputs)])


def lost(model: Checkpoint, plan: Plan, asked: Sequence[Text], seeds: int) -> Iterator[dict[str, Any]]:
    """Yields how many draws of noise lose the answer of each text that is asked."""
    for text in asked:
        answers = (api.classify_locally(plan, model, text, backend="sim", seed=seed) for seed in range(seeds))
        count = sum(any("intervals" in warning for warning in answer.warnings) for answer in answers)
        yield {"lost": count, "of": seeds}


def above_bound(model: Checkpoint, plan: Plan, asked: Sequence[Text], inputs: int) -> dict[str, Any]:
    """How many texts are above the stated bound, of those that stay within their intervals."""
    found = np.array([*errors(plan, model, asked, noises(plan, model, asked[:inputs]))])
    bound, inside = plan.prediction.error, found[np.isfinite(found)]
    above = int((inside > bound.bound).sum())
    return {
        **{"model": plan.name, "texts": len(found), "outside": len(found) - len(inside)},
        **{"bound": bound.bound, "from": bound.texts, "above": above, "share": above / len(inside)},
        **{"largest": inside.max(), "percentile_99": float(np.quantile(inside, 0.99))},
        **{"noise": plan.noise, "step": plan.step},
    }


def noises(plan: Plan, model: Checkpoint, texts: Sequence[Text]) -> list[Array]:
    """Returns what noise adds to each text's answer; a vector is divided by its length first."""
    raw = unrounded(plan)
    answers = [
        [api.classify_locally(raw, model, text, backend=backend, seed=seed) for backend in ("sim", "plain")]
        for seed, text in enumerate(texts)
    ]
    return [np.subtract(noisy.logits, quiet.logits) for noisy, quiet in answers]


def errors(plan: Plan, model: Checkpoint, texts: Sequence[Text], noise: Sequence[Array]) -> Iterator[float]:
    """The largest error of each text's numbers as they are shown; infinite outside the intervals."""
    soft = tempered(model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    for number, text in enumerate(texts):
        sample = embed(model, text, plan.tokens)
        found, wanted = approximated(soft, specs, *sample), reference(model, *sample, all_rows=False)
        if found.outside:
            yield np.inf
            continue
        size = float(np.linalg.norm(wanted.trace["answer"])) if plan.normalise else 1.0
        values = (found.answer + noise[number % len(noise)]) * size
        shown = np.array(rounded(plan, values))
        yield float(np.abs(shown - wanted.logits).max())


SENTENCE = 64  # that a sentence may have
GROUP = 250  # inputs that run at once: a ciphertext of sim has no more places than that


def silent_errors(
    model: Annotated[list[str] | None, option("--model", help="A folder; several.")] = None,
    inputs: Annotated[int, option("--inputs", help="Asked.")] = 2000,
    calibrate: Annotated[int, option("--calibrate", help="That calibrate.")] = 256,
    noise: Annotated[float, option("--noise", help="Of each feature's standard deviation.")] = 0.25,
    shortest: Annotated[int, option("--shortest", help="Tokens of the sentence, at least.")] = 8,
    json: Json = None,
) -> None:
    """Count inputs of batches that err beyond what their plan states, and of which a client is told."""
    report = {}
    for name, loaded, vectors in models(model or [], shortest):
        draw = mixtures(vectors, noise)
        calibrating, asked = ([next(draw) for _ in range(number)] for number in (calibrate, inputs))
        report[name] = measured(loaded, calibrating, asked)
        emit_rows([{"model": name, **report[name]}])
    write_report(json, report)


def models(folders: Sequence[str], shortest: int) -> Iterator[tuple[str, Checkpoint, Array]]:
    """Names, models and the vectors of one sentence, of text models the first that is long enough."""
    if not folders:
        for task in ("sst2", "pretrained") if published.available() else ():
            example = published.load_example(task)
            yield f"arion-{task}", example.checkpoint, example.hidden
        if PUBLISHED.is_dir():
            with dashformer_folder(None, PUBLISHED) as (folder, sequences):
                model = load(folder)
                yield "dashformer", model, embed(model, lines_of(sequences)[0], AMINO_ACIDS)[0]
    for name in folders or [str(api.DEFAULT_MODEL)]:
        model = api.load(name)
        embedded = (embed(model, text, SENTENCE) for text in load_texts())
        vectors = (hidden[mask > 0.0] for hidden, mask in embedded)
        yield Path(name).name, model, next(found for found in vectors if len(found) >= shortest)


def mixtures(vectors: Array, noise: float) -> Iterator[Sample]:
    """Seeded: each row a mixture of the sentence's rows, of which a few prevail, and noise."""
    rng, spread = np.random.default_rng(0), noise * vectors.std(axis=0)
    tokens = 1 << (len(vectors) - 1).bit_length()
    while True:
        shares = rng.dirichlet(np.full(len(vectors), 0.5), size=len(vectors))
        yield pad_hidden(shares @ vectors + rng.normal(size=vectors.shape) * spread, tokens)


def measured(model: Checkpoint, calibrating: list[Sample], asked: list[Sample]) -> dict[str, Any]:
    began, tokens = time.monotonic(), len(calibrating[0][1])
    plan = api.plan(model, scheme="arion", tokens=tokens, hidden_states=calibrating)
    planned = time.monotonic()
    told, errors = answered(plan, model, asked)
    stated = plan.prediction.error
    above, twice = ~(errors <= stated.bound), ~(errors <= 2.0 * stated.bound)
    shares = {"above": above, "silent": above & ~told, "silent twice": twice & ~told, "false": told & ~above}
    return {
        **{"tokens": tokens, "stated": stated.bound, "texts": stated.texts},
        **{name: float(np.mean(share)) for name, share in shares.items()},
        **{"largest": errors[~told].max(), "percentile_99": float(np.quantile(errors[~told], 0.99))},
        **{"plan_seconds": planned - began, "ask_seconds": time.monotonic() - planned},
    }


def answered(plan: Plan, model: Checkpoint, asked: Sequence[Sample]) -> tuple[NDArray[np.bool_], Array]:
    """Returns for each input whether its answer is marked as untrusted, and its error."""
    ran, groups = Ran(), [Group(samples=asked[at : at + GROUP]) for at in range(0, len(asked), GROUP)]
    ask(plan, model, groups, Machine("sim"), ran)
    wanted = np.array([reference(model, *sample, all_rows=False).logits for sample in asked])
    told = np.array([not answer.trusted for answer in ran.answers])
    return told, np.abs(ran.logits - wanted).max(axis=1)
