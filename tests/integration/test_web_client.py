"""The two-party client in WebAssembly beside a real server: its threads in node, then the whole page in
Chromium. `make web` builds what is tested."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tacita
from tacita import api
from tacita.checkpoint.reference import reference
from tacita.data import DEFAULT_DECODER, DEFAULT_MODEL
from tacita.plans.answers import judge, understood
from tacita.texts.embed import embed, length_of

world = pytest.importorskip("web_world", reason="the service's packages are not installed")
random = pytest.importorskip("random_checkpoint")
vectors = pytest.importorskip("program_vectors")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "python" / "tacita" / "data" / "web"
TESTS = ROOT / "web" / "test"
ENGINE = PAGE / "tacita.wasm.br"
NODE = shutil.which("node")
CHROMIUM = os.environ.get("TACITA_CHROMIUM") or shutil.which("chromium")
TEXTS = ("a film of quiet beauty", "a waste of time, truly bad")
TOO_LONG = "x " * 50
PROMPTS = ("It is a truth", "She was not")
SECONDS = 900.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.native,
    pytest.mark.skipif(NODE is None or not ENGINE.exists(), reason="node, or the page: make web"),
]


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    with world.serving(DEFAULT_MODEL, 16) as model:
        yield model


@pytest.fixture(scope="module")
def writer() -> Iterator[Any]:
    with world.serving(DEFAULT_DECODER, 40) as model:
        yield model


def run(script: Path, *arguments: object, **options: object) -> list[dict[str, Any]]:
    """What a script says, line by line. options: of its environment."""
    command = [str(NODE), str(script), *map(str, arguments)]
    env = {**os.environ, **{name: str(value) for name, value in options.items()}}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def build_parts(folder: Path) -> None:
    subprocess.run([str(NODE), str(ROOT / "web" / "build.mjs"), "--parts", str(folder)], check=True)


def test_the_parts_that_need_no_browser(tmp_path: Path) -> None:
    build_parts(tmp_path)
    command = [str(NODE), "--test", str(TESTS / "parts.test.mjs")]
    named = {**os.environ, "TACITA_PARTS": str(tmp_path)}
    done = subprocess.run(command, env=named, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout


def test_its_threads_answer_like_the_model(model: Any, tmp_path: Path) -> None:
    build_parts(tmp_path)
    told = run(TESTS / "ask.mjs", tmp_path, ENGINE, model.listener.port, *TEXTS, TOO_LONG)
    answers, checkpoint = [each for each in told if each["kind"] == "answer"], api.load()
    for text, each in zip(TEXTS, answers, strict=True):
        expected = reference(checkpoint, *embed(checkpoint, text, model.plan.tokens)).logits
        assert each["answer"]["logits"] == pytest.approx(expected, abs=0.05)
    assert "takes 16" in told[-1]["message"] and told[-1]["again"] is True
    assert {each["name"] for each in told if each["kind"] == "node"} >= {"set-up", "layer0.attention"}


CONTEXT = "The plot, never boring, is a very good plot."
TASKS: dict[str, dict[str, Any]] = {
    "tag": {"task": "tokens", "labels": ("O", "B-FILM", "I-FILM", "WORD")},
    "answer": {"task": "span", "labels": ("start", "end")},
    "fill": {"task": "words", "labels": ()},
    "embed": {"pooling": "mean", "labels": ()},
    "normalised": {"pooling": "mean", "labels": (), "normalise": True},
}


@pytest.mark.parametrize("name", TASKS)
def test_its_threads_answer_every_task_as_python_does(name: str, tmp_path: Path) -> None:
    """Places of spans are Python's, and so are vectors, that of a model which normalises among them."""
    checkpoint = random.make_random_checkpoint(layers=1, **TASKS[name])
    question = "A [MASK], dull [MASK]" if name == "fill" else "A fine, dull film?"
    text = (question, CONTEXT) if name == "answer" else question
    build_parts(tmp_path)
    with world.serving(checkpoint, 32) as served:
        options = {"CONTEXT": CONTEXT} if name == "answer" else {}
        told = run(TESTS / "ask.mjs", tmp_path, ENGINE, served.listener.port, question, **options)
        values = reference(checkpoint, *embed(checkpoint, text, 32)).trace["answer"]
        wanted = understood(
            served.plan, judge(served.plan, values, real=length_of(checkpoint, text)), checkpoint, text
        )
    [found] = [each["answer"] for each in told if each["kind"] == "answer"]
    assert found["trusted"]
    if name == "fill":
        return same_candidates(found["spans"], wanted.masks)
    assert found["logits"] == pytest.approx(wanted.logits, abs=0.05)
    spans = getattr(wanted, "spans", None) or ([wanted.span] if name == "answer" else [])
    assert len(found["spans"]) == len(spans) and (spans or "tag" not in name)
    for ours, theirs in zip(found["spans"], spans, strict=True):
        assert (ours["label"], ours["start"], ours["end"]) == (theirs.label, theirs.start, theirs.end)
        assert ours["score"] == pytest.approx(theirs.score, abs=0.05)


def same_candidates(spans: list[dict[str, Any]], masks: Any) -> None:
    """Five of each mask, the likeliest first, with Python's scores."""
    assert len(spans) == 5 * len(masks) > 5
    for at, one in enumerate(spans):
        mask = masks[at // 5]
        score = next(each.score for each in mask.scores if each.label == one["label"])
        assert (one["start"], one["end"]) == (mask.start, mask.end)
        assert one["score"] == pytest.approx(score, abs=0.02)
        assert score == pytest.approx(mask.scores[at % 5].score, abs=0.02)


def words(checkpoint: Any, prompt: str, count: int) -> str:
    """What the model writes in floats."""
    return "".join(token.text for token in tacita.generate(prompt, model=checkpoint, max_tokens=count))


def test_its_threads_write_the_words_that_python_does(writer: Any, tmp_path: Path) -> None:
    """The whole text, then one that ends early and is followed by another."""
    build_parts(tmp_path)
    asked = (TESTS / "ask.mjs", tmp_path, ENGINE, writer.listener.port)
    told = [each for each in run(*asked, *PROMPTS, WRITE=6) if each["kind"] == "written"]
    texts = ["".join(each["text"] for each in told[at : at + 6]) for at in (0, 6)]
    assert texts == [words(writer.checkpoint, prompt, 6) for prompt in PROMPTS]
    assert [each["last"] for each in told] == [*[False] * 5, True] * 2
    early = [each for each in run(*asked, *PROMPTS, WRITE=6, STOP=2) if each["kind"] == "written"]
    assert ["".join(each["text"] for each in early[at : at + 2]) for at in (0, 2)] == [
        words(writer.checkpoint, prompt, 2) for prompt in PROMPTS
    ]
    [failed] = [each for each in run(*asked, TOO_LONG, WRITE=6) if each["kind"] == "failed"]
    assert "this model takes 40" in failed["message"] and failed["again"] is True
    assert writer.visits[0].problem is None


def test_its_threads_attend_by_tiles(tmp_path: Path) -> None:
    """A model with a window, and one that writes: the prompt by tiles, the tokens behind it at once."""
    build_parts(tmp_path)
    windowed = vectors.model_of("tiles")
    with vectors.small_tiles(), world.serving(windowed, 16) as served:
        told = run(TESTS / "ask.mjs", tmp_path, ENGINE, served.listener.port, *vectors.TEXTS)
    for text, each in zip(vectors.TEXTS, [each for each in told if each["kind"] == "answer"], strict=True):
        expected = reference(windowed, *embed(windowed, text, 16)).logits
        assert each["answer"]["logits"] == pytest.approx(expected, abs=0.03)
    with vectors.small_tiles(), world.serving(DEFAULT_DECODER, 20) as served:
        told = run(TESTS / "ask.mjs", tmp_path, ENGINE, served.listener.port, PROMPTS[0], WRITE=3)
        assert any(step.op == "tiles" for step in served.plan.program.steps)
    written = "".join(each["text"] for each in told if each["kind"] == "written")
    assert written == words(served.checkpoint, PROMPTS[0], 3)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.skipif(not (ROOT / "web" / "node_modules").exists(), reason="playwright-core: make web")
def test_the_page_marks_an_answer_ranks_lines_and_fills_a_mask(tmp_path: Path) -> None:
    """A line that was asked about is not asked about again: the second question costs less. A context that
    is written anew while an answer is under way is not the one that the answer is from."""
    question, lines = "A fine film", "a dull plot\nis it never boring\na fine film"
    for name, second in (("answer", CONTEXT), ("embed", lines), ("fill", "")):
        checkpoint = random.make_random_checkpoint(layers=1, **TASKS[name])
        with world.serving(checkpoint, 32) as served, world.service(served, PAGE) as url:
            texts = ("a [MASK] film", "never boring") if name == "fill" else (question, "a good film")
            later = {"LATER": "a dull film"} if name == "answer" else {}
            [found] = run(TESTS / "page.mjs", CHROMIUM, url, *texts, SECOND=second, **later)
        assert found["complaints"] == [] and found["unnamed"] == []
        first, other = found["answers"]
        if name == "fill":
            best = first["scores"][0][0].removeprefix("##")
            assert first["label"] == f"a {best} film" and len(first["scores"]) == 5
            assert "write [MASK] where a word is wanted" in other["status"]
        elif name == "answer":
            assert first["marks"] == [first["label"]] and first["label"] in CONTEXT
        else:
            assert (first["label"], first["scores"][0][1]) == ("a fine film", "1.000")
            assert sorted(row[0] for row in first["scores"]) == sorted(lines.split("\n"))
            assert "How many texts4" in first["saw"] and "How many texts1" in other["saw"]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.skipif(not (ROOT / "web" / "node_modules").exists(), reason="playwright-core: make web")
def test_the_page_writes_a_text_in_a_browser(writer: Any) -> None:
    with world.service(writer, PAGE) as url:
        [found] = run(TESTS / "page.mjs", CHROMIUM, url, PROMPTS[0], WRITE=6)
    [shown] = found["answers"]
    assert found["complaints"] == [] and found["unnamed"] == []
    assert shown["written"] == PROMPTS[0] + words(writer.checkpoint, PROMPTS[0], 6)
    assert shown["label"] == "6 tokens" and PROMPTS[0] not in shown["saw"]
    assert "for each token behind it" in found["price"]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.skipif(not (ROOT / "web" / "node_modules").exists(), reason="playwright-core: make web")
def test_a_text_can_be_stopped_in_a_browser(writer: Any) -> None:
    """It keeps what is written, and the next text is asked in the same session."""
    before = len(writer.visits)
    with world.service(writer, PAGE) as url:
        [found] = run(TESTS / "page.mjs", CHROMIUM, url, *PROMPTS, WRITE=20, STOP=1)
    for prompt, shown in zip(PROMPTS, found["answers"], strict=True):
        count = int(shown["label"].split()[0])
        assert 1 <= count < 20 and shown["status"] == f"Written: {count} tokens"
        assert (prompt + words(writer.checkpoint, prompt, 20)).startswith(shown["written"])
    assert found["complaints"] == [] and len(writer.visits) <= before + 1


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.skipif(not (ROOT / "web" / "node_modules").exists(), reason="playwright-core: make web")
def test_a_page_that_leaves_a_model_can_ask_again(model: Any) -> None:
    with world.service(model, PAGE) as url:
        [found] = run(TESTS / "page.mjs", CHROMIUM, url, *TEXTS, LEAVE=1)
    left, second = found["answers"]
    assert (found["complaints"], left) == ([], {"status": ""}) and second["label"] == "negative"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.skipif(not (ROOT / "web" / "node_modules").exists(), reason="playwright-core: make web")
def test_the_page_answers_in_a_browser(model: Any) -> None:
    with world.service(model, PAGE) as url:
        [found] = run(TESTS / "page.mjs", CHROMIUM, url, *TEXTS, TOO_LONG)
    assert (found["complaints"], found["unnamed"]) == ([], [])
    first, second, third = found["answers"]
    assert (first["label"], second["label"]) == ("positive", "negative")
    assert [row[0] for row in first["scores"]] == ["positive", "negative"]
    assert [row[0] for row in first["cost"]] == ["Time", "Sent", "Received", "Times waited for the server"]
    for shown in (first, second):  # what is shown has passed
        assert {shown[way].removeprefix("… ") for way in ("out", "in")} <= model.passed
    assert "sst2-tiny" in first["saw"] and "text has 52 tokens" in third["status"]
    assert all(text not in json.dumps(each["saw"]) for text, each in zip(TEXTS, (first, second), strict=True))
