"""Images, by the names of their files: to labels on every path that a text takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import random_tensors
from test_families import folder_of

import tacita
from bench.runs.harness import unrounded
from tacita import api
from tacita.checkpoint import Checkpoint, from_tensors, load
from tacita.checkpoint.reference import reference
from tacita.errors import FileError, InputError
from tacita.limits import require
from tacita.models.vit import ViTConfig
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.calibrate.calibration import AttentionCalibration, NormCalibration
from tacita.plans.plan import Plan
from tacita.texts.answer import Classes
from tacita.texts.embedding import ImageConfig, limits
from tacita.texts.images import embed_image
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.public_part import decode, encode, public_part

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install tacita[images]")
IMAGE = ImageConfig(size=12, patch=4, extra=1)
LABELS = ("cat", "dog", "bird")


@pytest.fixture(scope="module")
def model() -> Checkpoint:
    config = ViTConfig(1, 16, 2, 32, 1, IMAGE.tokens, 0, "gelu", "cls", 1e-12, LABELS, image=IMAGE)
    config = replace(config, embedding_norm=False)
    return from_tensors(config, random_tensors(config, 11), name="vit")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(2)
    paths = [folder / f"{number}.png" for number in range(4)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(path)
    return [str(path) for path in paths]


def how(files: list[str], **more: Any) -> dict[str, Any]:
    return {"tokens": IMAGE.tokens, "scheme": "bumblebee", "backend": "plain", "texts": files, **more}


def test_an_image_gets_a_label(model: Checkpoint, files: list[str]) -> None:
    wanted, found = (tacita.classify(files, model=model, **how(files, backend=b)) for b in ("plain", "sim"))
    for one, other in zip(wanted, found, strict=True):
        assert isinstance(one, Classes) and one.label in LABELS
        assert np.abs(one.vector - other.vector).max() < 0.02 and not other.warnings
    rows = tacita.pipeline("image-classification", model=model, **how(files))(Path(files[0]))
    assert [row["label"] for row in rows] == [score.label for score in wanted[0].scores]


@pytest.mark.native
def test_two_parties_classify_an_image(model: Checkpoint, files: list[str]) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    wanted, found = (
        tacita.classify(files[0], model=model, **how(files, backend=b)) for b in ("plain", "ckks")
    )
    assert np.abs(wanted.vector - found.vector).max() < 0.02


def test_a_public_part_needs_no_tokenizer(model: Checkpoint, files: list[str]) -> None:
    plan = api.plan(model, scheme="bumblebee", tokens=IMAGE.tokens, texts=files)
    part = decode(encode(public_part(plan.program, model)))
    assert part.tokenizer == "" and part.front.tokenizer is None
    assert set(part.tables) == {name for name in model.tensors if name.startswith("embeddings.")}


def test_images_are_calibrated_on_images_and_are_no_pairs(model: Checkpoint, files: list[str]) -> None:
    with pytest.raises(InputError, match="calibrated on images"):
        tacita.classify(files[0], model=model, tokens=IMAGE.tokens, scheme="bumblebee", backend="plain")
    with pytest.raises(InputError, match="not an image"):
        tacita.classify("a fine film", model=model, **how(files))
    with pytest.raises(InputError, match="takes images"):
        tacita.classify(tacita.Pair(files[0], files[1]), model=model, **how(files))


@pytest.mark.parametrize(
    "change",
    [
        {"size": 1 << 20},
        {"patch": 5},
        {"patch": 0},
        {"extra": 9},
        {"mean": (0.5,)},
        {"spread": (0.0, 0.5, 0.5)},
        {"shortest": -1},
        {"resample": "strange"},
    ],
    ids=str,
)
def test_a_plan_asks_for_no_strange_images(
    change: dict[str, Any], model: Checkpoint, files: list[str]
) -> None:
    strange = replace(model.config, image=replace(IMAGE, **change))  # type: ignore[type-var]
    require(limits(model.config), "plan", hint="")
    with pytest.raises(FileError, match="image"):
        require(limits(strange), "plan", hint="")
    plan = api.plan(model, scheme="bumblebee", tokens=IMAGE.tokens, texts=files)
    assert isinstance(plan, TwoPartyPlan)
    hostile = replace(plan, config=strange)
    with pytest.raises(FileError):
        parse_plan(hostile.to_bytes())


def test_the_last_layer_is_calibrated_on_the_row_that_is_read(model: Checkpoint, files: list[str]) -> None:
    """Before, patches' rows widened its intervals, and the noise that a wide softmax adds left no decimals of
    the answers of some models."""
    calibration = calibrate(model, IMAGE.tokens, files)
    rows = [reference(model, *embed_image(model, path, IMAGE.tokens)).trace for path in files]
    seen = np.array([row["final_norm.variance"] for row in rows])
    low, high = seen[:, 0].min(), seen[:, 0].max()
    found = calibration.nodes["final_norm"]
    assert isinstance(found, NormCalibration)
    assert low / np.exp(0.21) < found.variance[0] < low and high < found.variance[1] < high * np.exp(0.21)
    assert seen.max() > 2.0 * found.variance[1]  # of the patches, which no circuit computes
    keys = calibration.nodes["layer0.attention"]
    assert isinstance(keys, AttentionCalibration)
    assert keys.input > max(np.abs(row["layer0.attention.input"]).max() for row in rows)  # of every token


def test_a_random_model_is_right_and_rounded_finely(tmp_path: Path) -> None:
    """Weights of transformers' names, with a peaked softmax. Before, half of the noise came of intervals for
    rows that nobody reads, the other half of heads that lie apart, and answers were whole numbers."""
    made, rng = load(folder_of("vit-class", tmp_path)), np.random.default_rng(3)
    noise = [rng.integers(0, 256, (20, 30, 3), dtype=np.uint8) for _ in range(36)]
    states = [embed_image(made, Image.fromarray(each), 16) for each in noise]
    plan = api.plan(made, scheme="thor", tokens=16, preset="insecure_toy_n11", hidden_states=states[:32])
    assert isinstance(plan, Plan) and plan.prediction.error.bound < 0.03
    for backend in ("plain", "sim"):
        for hidden, mask in states[32:]:
            how: dict[str, Any] = {"hidden_states": hidden[mask > 0.0], "backend": backend}
            found = api.classify_locally(unrounded(plan), made, **how)
            wanted = reference(made, hidden, mask).logits
            assert np.abs(found.vector - wanted).max() < 0.02 and not found.warnings
    assert plan.decimals >= 1 and not api.classify_locally(plan, made, **how).warnings
