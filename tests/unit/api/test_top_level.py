"""What `import tacita` offers: the names, when they are imported, and answers in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder

import tacita
from tacita import api, ask
from tacita.errors import CheckpointError, InputError, PlanError
from tacita.progress import Progress

NAMES = {
    *("Answer", "Client", "PrivacyWarning", "Server", "TacitaError", "PlanRequest", "__version__"),
    *(
        "Classes",
        "Embedding",
        "Extract",
        "Fill",
        "Pair",
        "Ranking",
        "Regression",
        "Search",
        "Several",
        *("Estimate", "SentenceEncoder", "Tags", "estimate"),
        *("answer_async", "classify_async", "embed_async", "fill_async", "generate_async", "rerank_async"),
        *("search_async", "tag_async"),
    ),
    *(
        "answer",
        "classify",
        "classify_many",
        "connect",
        "connect_async",
        "embed",
        "errors",
        "fill",
        "generate",
        "load",
        "pipeline",
        "plan",
        "publish",
        "rerank",
        "search",
        "tag",
    ),
}
CALIBRATION = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
TOY: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n10", "texts": CALIBRATION}
MODEL = make_random_checkpoint(layers=1)


def test_the_names_are_these() -> None:
    assert set(tacita.__all__) == set(dir(tacita)) == NAMES
    assert tacita.__all__ == sorted(tacita.__all__)
    assert all(getattr(tacita, name) is not None for name in NAMES)
    assert tacita.plan is api.plan and tacita.classify is ask.classify and tacita.Client is api.Client
    with pytest.raises(AttributeError, match="no attribute 'predict'"):
        tacita.predict  # noqa: B018


def test_no_module_takes_the_place_of_a_name() -> None:
    """An imported module becomes an attribute of its package, before `tacita.NAME` looks for a function."""
    folder = Path(tacita.__file__).parent
    modules = {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert modules & NAMES == {"errors"}


def test_importing_it_imports_no_library() -> None:
    """What is used is imported when it is first used: numpy alone takes longer than all of this may."""
    code = "import sys, tacita; sys.exit(' '.join(sys.modules.keys() & {'numpy', 'typer', 'tacita.api'}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.strip()) == (1, "")


def test_a_text_gets_an_answer_and_a_list_gets_a_list() -> None:
    answer = tacita.classify("a fine film", model=MODEL, **TOY)
    (same, other) = tacita.classify(["a fine film", "the plot is dull"], model=MODEL, **TOY)
    assert same == answer and other.label in MODEL.config.labels
    pair = tacita.classify(tacita.Pair("a fine film", "bad"), model=MODEL, **TOY)
    assert isinstance(pair, tacita.Answer)


@pytest.mark.parametrize("scheme", ["thor", "arion", "bumblebee", "auto"])
def test_every_scheme_answers(scheme: str) -> None:
    texts = [*CALIBRATION, *CALIBRATION[:2]]
    answers = tacita.classify(texts, model=MODEL, scheme=scheme, backend="plain", **TOY)
    plan = api.plan(MODEL, **TOY)
    for text, answer in zip(texts, answers, strict=True):
        assert np.abs(answer.vector - api.reference_logits(plan, MODEL, text)).max() < 0.03


def test_the_plan_is_kept_by_model_and_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[str] = []
    plan = api.choose_plan
    monkeypatch.setattr(ask, "choose_plan", lambda *a, **k: (made.append(a[1].scheme), plan(*a, **k))[1])
    ask._planned.cache_clear()
    folder = write_folder(MODEL, tmp_path / "model")
    for model in (folder, folder, tacita.load(folder)):
        tacita.classify("a fine film", model=model, backend="plain", **TOY)
    assert made == ["thor"]
    tacita.classify("a fine film", model=folder, scheme="arion", backend="plain", **TOY)
    tacita.classify("a fine film", model=make_random_checkpoint(seed=2, layers=1), backend="plain", **TOY)
    assert made == ["thor", "arion", "thor"]


def test_a_model_without_labels_embeds_and_one_with_labels_classifies() -> None:
    vectors = make_random_checkpoint(layers=1, pooling="mean", labels=())
    answer = tacita.embed("a fine film", model=vectors, **TOY)
    assert answer.label is None and answer.vector.shape == (vectors.config.hidden,)
    with pytest.raises(InputError, match="answers with a vector") as caught:
        tacita.classify("a fine film", model=vectors, **TOY)
    assert caught.value.hint.startswith("tacita.embed ")
    with pytest.raises(InputError, match="answers with a label"):
        tacita.embed("a fine film", model=MODEL, **TOY)


def test_what_cannot_be_is_refused_before_a_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "_planned", None)
    with pytest.raises(InputError, match="no backend 'quantum'"):
        tacita.classify("fine", model=MODEL, backend="quantum", **TOY)
    with pytest.raises(InputError, match="no text"):
        tacita.classify([], model=MODEL, **TOY)
    with pytest.raises(InputError, match="no scheme 'thorn'"):
        tacita.classify("fine", model=MODEL, scheme="thorn", **TOY)
    with pytest.raises(PlanError, match="insecure"):
        tacita.classify("fine", model=MODEL, backend="ckks", **TOY)
    with pytest.raises(TypeError, match=r"no keyword 'token': did you mean tokens\?"):
        tacita.classify("fine", model=MODEL, token=16)  # type: ignore[call-overload]
    with pytest.raises(CheckpointError, match="not a folder"):
        tacita.classify("fine", model="/nowhere")


def test_a_text_of_which_the_tokenizer_knows_nothing_is_warned_of() -> None:
    odd, fine = tacita.classify(["\u0e20\u0e32\u0e1e", "a fine film"], model=MODEL, backend="plain", **TOY)
    assert any("knows nothing of this text" in warning for warning in odd.warnings) and not fine.warnings


@pytest.mark.filterwarnings("error")
def test_a_call_that_names_no_backend_warns_where_it_stands() -> None:
    for call in (
        lambda: tacita.classify("a fine film", model=MODEL, **TOY),
        lambda: tacita.pipeline("text-classification", model=MODEL, **TOY),
        lambda: tacita.generate("a fine film"),
    ):
        with pytest.warns(tacita.PrivacyWarning, match="encrypts nothing") as caught:
            call()
        assert caught[0].filename == __file__
    answer = tacita.classify("a fine film", model=MODEL, backend="plain", **TOY)
    assert answer.privacy == "none: plain encrypts nothing" and answer.privacy in repr(answer)
    assert len(repr(answer)) <= 300 >= len(repr(api.plan(MODEL, **TOY)))


@pytest.mark.native
@pytest.mark.parametrize("scheme", ["thor", "bumblebee"])
def test_ckks_is_the_real_thing_and_says_what_it_takes(scheme: str) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    seen: list[Progress] = []
    wanted = tacita.classify("a fine film", model=MODEL, scheme=scheme, backend="plain", **TOY)
    how: dict[str, Any] = {"backend": "ckks", "allow_insecure": True, "progress": seen.append}
    found = tacita.classify("a fine film", model=MODEL, scheme=scheme, **how, **TOY)
    assert np.abs(found.vector - wanted.vector).max() < 0.03
    assert " bits" in found.privacy
    told = next(now for now in seen if now.stage.startswith(f"{scheme}: 1 x "))
    assert told.left > 0.0 and ("GB of memory" in told.stage) == (scheme == "thor")
