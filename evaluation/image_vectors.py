"""Vectors of images as two parties compute them, or ciphertexts, beside the float model's: cosines, and
whether the nearest other image is the same.

    python evaluation/photo_crops.py --wheel scikit_learn-1.4.2-*.whl --output CROPS
    python evaluation/image_vectors.py --model DIR/dinov2 --texts CROPS/calibration.txt \
        --images CROPS/test.txt --json vectors.json
    python evaluation/image_vectors.py --model DIR/dinov2-1 --scheme thor --backend ckks --limit 3 ...

`sim` has the rounding of two parties, or the noise of ciphertexts, and sends nothing; `--backend ckks` runs
both parties, or client and server, in this process, one image after another.
One line an image as it is done, the summary at the end; the file is written anew after every image.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from family_runs import RUNS, Run

import tacita
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.reference import reference
from tacita.planning.calibrate.calibrate import load_texts
from tacita.schemes.prices import prices_here
from tacita.texts.images import embed_image


def floats(model: Checkpoint, path: str) -> np.ndarray:
    """The float model's vector."""
    assert model.config.image is not None
    return reference(model, *embed_image(model, path, model.config.image.tokens)).logits


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(rows of a, rows of b)."""
    lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    return np.asarray(a @ b.T / lengths)


def summary(expected: np.ndarray, found: np.ndarray, runs: Sequence[Run]) -> dict[str, Any]:
    """Of all images' vectors, (images, features) each, and what they took."""
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
        "warned": sum(bool(run.answer.warnings) for run in runs),
        "seconds": median(run.seconds for run in runs),
        "MB": median(run.bytes for run in runs) / 1e6,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--texts", type=Path, required=True, help="images to calibrate on, a name a line")
    options.add_argument("--images", type=Path, required=True, help="images to measure, a name a line")
    options.add_argument("--limit", type=int, default=1000)
    options.add_argument("--backend", choices=("sim", "ckks"), default="sim")
    options.add_argument("--scheme", choices=("bumblebee", "thor"), default="bumblebee")
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    model = load(asked.model)
    assert model.config.image is not None
    began = time.perf_counter()
    tokens = model.config.image.tokens
    if asked.scheme == "thor":  # whose places are a power of two
        tokens = 1 << (tokens - 1).bit_length()
    request: dict[str, Any] = {"scheme": asked.scheme, "tokens": tokens, "prices": prices_here("n16")}
    plan = tacita.plan(model, texts=load_texts(asked.texts), **request)
    spent, estimate = time.perf_counter() - began, plan.predicted_seconds()
    print(f"planned in {spent:.0f} s; an image should take {estimate:.0f} s", flush=True)
    paths = load_texts(asked.images)[: asked.limit]
    encrypted = "shares" if asked.scheme == "bumblebee" else "ckks"
    how = RUNS[encrypted if asked.backend == "ckks" else "sim"]
    expected: list[np.ndarray] = []
    runs: list[Run] = []
    total: dict[str, Any] = {}
    for path, run in zip(paths, how(plan, model, paths), strict=True):
        runs.append(run)
        expected.append(floats(model, path))
        found = np.array([each.answer.anyway.vector for each in runs])
        cosine = cosines(expected[-1][None], found[-1:])[0, 0]
        print(f"{Path(path).name} {cosine:.9f} {run.seconds:.1f} s {run.answer.warnings}", flush=True)
        total = {"predicted_seconds": estimate, **summary(np.array(expected), found, runs)}
        if asked.json:
            asked.json.write_text(json.dumps(total, indent=1) + "\n")
    print(json.dumps(total, indent=1))


if __name__ == "__main__":
    main()
