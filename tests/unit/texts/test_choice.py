"""The likeliest token and no logits from ciphertexts: plans that say so, what a client reads, and a run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_generation_encrypted import ASKED, RING, TEXTS, TOKENS, TOY, planned, toy_files
from tiny_decoders import gpt2, llama, logits

import tacita
from tacita.api import classify_locally
from tacita.approx.comparison import share
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.cli import main
from tacita.errors import FileError, InputError, PlanError
from tacita.generation.generate import Request
from tacita.layouts.columns import BatchAnswer, BatchShape
from tacita.planning.circuit import require_circuit
from tacita.planning.options import DecisionMargin, Option
from tacita.planning.request import PlanRequest
from tacita.plans.check import check
from tacita.plans.options import CHOSEN
from tacita.plans.plan import Plan, parse
from tacita.texts.embed import tokenize
from tacita.texts.generation import Choice, Chosen, choice
from tacita.texts.task import CHOICE, NEXT

REVEAL = {"reveal": "token", "gap": 0.05}


@pytest.fixture(scope="module")
def rows() -> Plan:
    return planned(llama(), packing="rows", **REVEAL)


@pytest.fixture(scope="module", params=["rows", "multidiagonal"])
def plan(request: pytest.FixtureRequest, rows: Plan) -> Plan:
    return rows if request.param == rows.packing else planned(llama(), packing=request.param, **REVEAL)


def wanted(model: Checkpoint, text: str) -> np.ndarray:
    return np.asarray(logits(model, tokenize(model, text)[0])[-1])


@pytest.mark.parametrize("text", ASKED)
def test_the_token_is_that_of_floats(plan: Plan, text: str) -> None:
    model = llama()
    answer = classify_locally(plan, model, text, backend="sim")
    assert isinstance(answer, Chosen) and answer.trusted
    assert answer.token == wanted(model, text).argmax() and answer.share == 1.0
    assert sorted(answer.logits)[:-1] == [0.0] * (model.config.vocab - 1)  # of the logits nothing is left


def test_other_families_schemes_and_vocabularies() -> None:
    for model, how in ((gpt2(), {}), (llama(vocab=200, layers=1), {}), (llama(), {"scheme": "leaf"})):
        found = planned(model, **REVEAL, **how)
        answer = classify_locally(found, model, ASKED[0], backend="sim")
        assert isinstance(answer, Chosen) and answer.trusted
        assert answer.token == wanted(model, ASKED[0]).argmax()


@pytest.mark.parametrize("how", [{}, {"packing": "multidiagonal"}, {"scheme": "leaf"}])
def test_vocabularies_of_several_ciphertexts(how: dict[str, Any]) -> None:
    """A quarter of this ring's slots, 256 words, is what one ciphertext of logits holds."""
    model = llama(vocab=900, layers=1)
    found = planned(model, **{**REVEAL, "gap": 0.12, **how})
    assert found.layout.response.count == 4
    assert {"choice.win3", "choice.join3"} <= {stage.name for stage in found.stages}
    for backend, text in (("plain", ASKED[0]), ("sim", "beauty is time")):
        answer, logits = classify_locally(found, model, text, backend=backend), wanted(model, text)
        second, first = np.sort(logits)[-2:]
        assert isinstance(answer, Chosen) and answer.trusted and first - second >= 0.2
        assert answer.token == logits.argmax() and answer.share == 1.0


def test_a_gap_beside_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """On diagonals noise moves a logit by up to 0.01 here. The two likeliest words behind "time" are 0.035
    apart, and the third is 0.1 behind: it had a whole share in every other draw."""
    model = llama(vocab=900, layers=1)
    on = {"packing": "multidiagonal", **REVEAL, "gap": 0.02}
    with pytest.raises(PlanError, match=r"a gap of 0\.02 between logits, whose noise") as refusal:
        planned(model, **on)
    (gap,) = re.findall(r"a gap of (0\.\d+), or", refusal.value.hint)
    assert 0.04 < float(gap) < 0.12  # of the test above
    monkeypatch.setattr(DecisionMargin, "admit_noise", Option.admit_noise)
    found, first = planned(model, **on), int(wanted(model, "time").argmax())
    for seed in range(4):
        answer = classify_locally(found, model, "time", backend="sim", seed=seed)
        assert isinstance(answer, Chosen) and answer.trusted
        assert answer.token == first and abs(sum(answer.logits) - 1.0) <= 0.1


def twins(model: Checkpoint, first: int, second: int) -> Checkpoint:
    """The same with two words between which nothing decides."""
    words = "lm_head.weight"
    table = model.tensors[words].copy()
    table[second] = table[first]
    tensors = {**model.tensors, words: table}
    return from_tensors(model.config, tensors, model.tokenizer, name="twins")


def test_two_equal_words_share() -> None:
    model = llama(layers=1)
    first = int(wanted(model, ASKED[1]).argmax())
    second = (first + 5) % model.config.vocab
    both = twins(model, first, second)
    answer = classify_locally(planned(both, **REVEAL), both, ASKED[1], backend="sim")
    assert isinstance(answer, Chosen) and answer.trusted
    assert answer.token in (first, second) and answer.share < 0.9 and "as likely" in answer.wording
    assert abs(sum(answer.logits) - 1.0) <= 0.1
    assert not any(np.delete(answer.vector, [first, second]))


def test_what_a_plan_says(rows: Plan) -> None:
    assert (rows.task, rows.model.task, rows.gap, rows.answer) == (CHOICE, NEXT, 0.05, CHOSEN)
    assert rows.decimals == 1 and parse(rows.to_text(), "plan", rows.salt) == rows
    others = planned(llama(), packing="rows")
    assert others.gap == 0.0 and '"gap"' not in others.to_text().partition('"layout"')[2]
    assert rows.predicted_seconds() > others.predicted_seconds()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gap": 0.0}, "bound|layout"),
        ({"gap": -1.0}, "gap"),
        ({"gap": float("inf")}, "gap"),
        ({"answer": 30.0}, "bound of a choice"),
        ({"decimals": 2}, "decimals"),
    ],
)
def test_plans_that_say_something_else_are_refused(rows: Plan, change: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError, match=message):
        changed = replace(rows, **change)
        check(changed)
        require_circuit(changed)


def test_a_response_of_another_bound_or_without_copies_is_refused(rows: Plan) -> None:
    found: Any = rows.layout.response
    for change, message in (
        ({"bound": 2.0}, "bound of a choice"),
        ({"copies": found.numbers}, "runs of the"),
    ):
        response = replace(found, **change)
        with pytest.raises(FileError, match=message):
            check(replace(rows, layout=replace(rows.layout, response=response)))


def test_a_comparison_of_another_gap_is_refused(rows: Plan) -> None:
    specs = dict(rows.circuit["specs"])
    for comparison, message in (
        ({**specs["comparison"], "gap": 0.25}, "gap of the comparison"),
        ({**specs["comparison"], "gap": share(rows.gap, specs["answer"])}, "gap of the comparison"),
        (None, "comparison of logits"),
        ({**specs["comparison"], "step": []}, "approximations"),
    ):
        changed = {**specs, "comparison": comparison} if comparison else specs
        changed = changed if comparison else {k: v for k, v in specs.items() if k != "comparison"}
        with pytest.raises(FileError, match=message) as refusal:
            require_circuit(replace(rows, circuit={**rows.circuit, "specs": changed}))
        assert "make it again" in refusal.value.hint


def test_choices_that_are_none() -> None:
    assert choice((0.0, 1.0), ()).warnings == ()
    for shares, message in (((0.0, 0.0), "no word"), ((1.0, 1.0), "several words")):
        assert message in choice(shares, ()).warnings[0]
    assert choice((0.0, 0.0), ("broken",)).warnings == ("broken",)


def test_what_tells_a_broken_choice_in_a_batch() -> None:
    """Both copies are the same ciphertext and agree: shares that are no choice's tell, and cells without a
    word."""
    words, norms = np.zeros((8, 8)), np.zeros((8, 8))  # cells and texts
    words[2], norms[0] = 1.0, 0.5
    words[:6, 3], words[7, 4] = 0.4, 0.4
    response = BatchAnswer(BatchShape(64, 8), 6, 1.0, apart=True).response
    answers = response.read([words.ravel(), words.ravel(), norms.ravel()])
    assert [text for text, answer in enumerate(answers) if not answer.sound()] == [4]
    chosen = [choice(tuple(answer.values.tolist()), ()) for answer in answers]
    assert [text for text, one in enumerate(chosen) if not one.trusted] == [3]


def test_requests_that_mean_nothing() -> None:
    for wrong in ({"reveal": "index"}, {"gap": 0.0}, {"gap": float("nan")}):
        with pytest.raises(InputError, match=r"gap|reveals"):
            PlanRequest(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="reveals a token"):
        tacita.plan(tokens=TOKENS, preset=TOY, texts=TEXTS, reveal="token")
    with pytest.raises(PlanError, match="bootstraps, which these parameters cannot"):
        on = {"tokens": TOKENS, "preset": "insecure_toy_leveled_n11", "texts": TEXTS}
        tacita.plan(llama(layers=1), scheme="moai", **on, **REVEAL)
    with pytest.raises(InputError, match="without ciphertexts"):
        Request(reveal="token")
    with pytest.raises(InputError, match="temperature or top_k"):
        Request(reveal="token", scheme="thor", choice=Choice(temperature=0.5))


def test_texts_of_which_none_has_a_likeliest_word() -> None:
    """A plan tells its error and its noise from samples that have one."""
    model = llama(layers=1)
    words = "lm_head.weight"
    same = {**model.tensors, words: np.repeat(model.tensors[words][:1], model.config.vocab, axis=0)}
    flat = from_tensors(model.config, same, model.tokenizer, name="flat")
    with pytest.raises(PlanError, match="no sample"):
        planned(flat, **REVEAL)


def test_tokens_one_after_the_other() -> None:
    model = llama(layers=1)
    common = {"model": model, "max_tokens": 3}
    on = {"scheme": "thor", "tokens": TOKENS, "preset": TOY, "texts": TEXTS, "reveal": "token"}
    found = list(tacita.generate(ASKED[0], backend="sim", **on, **common))
    assert found == list(tacita.generate(ASKED[0], **common))


@pytest.mark.native
def test_tokens_of_several_ciphertexts_encrypted() -> None:
    model = llama(vocab=300, layers=1)
    common = {"model": model, "max_tokens": 2}
    on = {"scheme": "thor", "tokens": TOKENS, "preset": RING, "texts": TEXTS, **REVEAL, "gap": 0.02}
    how = {"backend": "ckks", "allow_insecure": True, "cache": True}
    found = list(tacita.generate("film", **how, **on, **common))
    assert found == list(tacita.generate("film", **common))


@pytest.mark.native
def test_steps_reveal_a_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has the public folder alone; what it decrypts is a token, and its report has no logits."""
    folder, texts, report = toy_files(tmp_path)
    public, work, model = (str(tmp_path / "public"), str(tmp_path / "work"), ["--model", str(folder)])
    insecure, request = ["--work", work, "--allow-insecure"], ["--reveal", "token"]
    ring = ["--tokens", str(TOKENS), "--preset", RING, "--texts", str(texts)]
    monkeypatch.setenv("TACITA_PLAN__GAP", "0.05")
    assert main(["plan", *model, "--work", work, *ring, *request]) == 0
    assert main(["plan", "show", str(tmp_path / "work" / "plan.json")]) == 0
    assert "the likeliest token alone, of logits 0.05 apart" in capsys.readouterr().out
    assert main(["publish", *model, "--work", work, "--planned", "--output", public]) == 0
    assert main(["keygen", "--public", public, *insecure]) == 0
    assert main(["encrypt", ASKED[0], "--public", public, *insecure]) == 0
    assert main(["evaluate", *model, *insecure]) == 0
    capsys.readouterr()
    assert main(["decrypt", "--public", public, *insecure, "--json", str(report)]) == 0
    found, expected = json.loads(report.read_text()), int(wanted(llama(layers=1), ASKED[0]).argmax())
    assert (found["token"], found["share"], found["warnings"]) == (expected, 1.0, [])
    assert "logits" not in found
    assert capsys.readouterr().out.startswith(f"answer: token {expected} of 41")
