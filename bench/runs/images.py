"""`python -m bench image-vectors`: vectors of images as two parties compute them, or ciphertexts, beside the
float model's: cosines, and whether the nearest other image is the same.

    python -m bench photo-crops --wheel scikit_learn-1.4.2-*.whl --output CROPS
    python -m bench image-vectors --model DIR/dinov2 --texts CROPS/calibration.txt \
        --images CROPS/test.txt --json vectors.json
    python -m bench image-vectors --model DIR/dinov2-1 --scheme thor --backend ckks --limit 3 ...

`sim` has the rounding of two parties, or the noise of ciphertexts, and sends nothing; `--backend ckks` runs
both parties, or client and server, in this process, one image after another. One line an image as it is done,
the summary at the end; the file is written anew after every image.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import tacita
from bench.options import ModelFolder, emit
from bench.runs.families import MEMORY_GB, PRESET
from bench.runs.harness import Group, Machine, Ran, requests
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.reference import reference
from tacita.cli.console import write_report
from tacita.cli.options import Json, option
from tacita.planning.calibrate.calibrate import load_texts
from tacita.schemes.base import AnyPlan
from tacita.schemes.prices import prices_here
from tacita.texts.images import embed_image

Array = NDArray[np.float64]


def image_vectors(
    model: ModelFolder,
    texts: Annotated[Path, option("--texts", help="Images to calibrate on, a name a line.")],
    images: Annotated[Path, option("--images", help="Images to measure, a name a line.")],
    limit: Annotated[int, option("--limit", help="Images, the first so many.")] = 1000,
    backend: Annotated[str, option("--backend", help="sim or ckks.")] = "sim",
    scheme: Annotated[str, option("--scheme", help="bumblebee or thor.")] = "bumblebee",
    json: Json = None,
) -> None:
    """Compare vectors of images, by two parties or on ciphertexts, with the float model's."""
    loaded, began = load(model), time.perf_counter()
    assert loaded.config.image is not None
    tokens = loaded.config.image.tokens
    if scheme == "thor":  # whose places are a power of two
        tokens = 1 << (tokens - 1).bit_length()
    options: dict[str, Any] = {"scheme": scheme, "tokens": tokens, "prices": prices_here(PRESET)}
    plan: AnyPlan = tacita.plan(loaded, texts=load_texts(texts), **options)
    spent, estimate = time.perf_counter() - began, plan.predicted_seconds()
    print(f"planned in {spent:.0f} s; an image should take {estimate:.0f} s", flush=True)
    paths, ran = load_texts(images)[:limit], Ran()
    encrypted = "shares" if scheme == "bumblebee" else "ckks"
    machine = Machine(encrypted if backend == "ckks" else "sim", memory=MEMORY_GB, quiet=True)
    expected: list[Array] = []
    total: dict[str, Any] = {}
    asked = requests(plan, loaded, [Group([path]) for path in paths], machine, ran)
    for path, answers in zip(paths, asked, strict=True):
        expected.append(floats(loaded, path))
        found = np.array([each.anyway.vector for each in ran.answers])
        cosine, seconds = cosines(expected[-1][None], found[-1:])[0, 0], ran.requests[-1]["evaluate"]
        print(f"{Path(path).name} {cosine:.9f} {seconds:.1f} s {answers[0].warnings}", flush=True)
        total = {"predicted_seconds": estimate, **summary(np.array(expected), found, ran)}
        write_report(json, total)
    emit(total)


def floats(model: Checkpoint, path: Any) -> Array:
    """The float model's vector."""
    assert model.config.image is not None
    return reference(model, *embed_image(model, path, model.config.image.tokens)).logits


def cosines(a: Array, b: Array) -> Array:
    """(rows of a, rows of b)."""
    lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    return np.asarray(a @ b.T / lengths)


def summary(expected: Array, found: Array, ran: Ran) -> dict[str, Any]:
    """Compares all images' vectors, (images, features) each, and says what they took."""
    same = np.diag(cosines(found, expected))
    own, other = cosines(expected, expected), cosines(found, expected)
    for each in (own, other):
        np.fill_diagonal(each, -1.0)
    return {
        "images": len(found),
        "smallest cosine": float(same.min()),
        "mean cosine": float(same.mean()),
        "largest error": float(np.abs(found - expected).max()),
        "largest number": float(np.abs(expected).max()),
        "same nearest": float((own.argmax(axis=1) == other.argmax(axis=1)).mean()),
        "cosine between images": float(own[own > -1.0].mean()) if len(found) > 1 else None,
        "warned": sum(bool(answer.warnings) for answer in ran.answers),
        "seconds": median(steps["evaluate"] for steps in ran.requests),
        "MB": median(ran.sent) / 1e6,
    }
