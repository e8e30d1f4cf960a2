"""Sixty images out of scikit-learn's two sample photos, to calibrate and to measure models of images on.

    pip download --no-deps scikit-learn==1.4.2
    python evaluation/photo_crops.py --wheel scikit_learn-1.4.2-*.whl --output DIR

Squares at random places of random sides (128 to 420 of 640 x 427 pixels), every other one mirrored. Written:
the images, `calibration.txt` and `test.txt`, a name a line, 8 and 52 of them. Nothing of the wheel (BSD; its
photos CC BY 2.0, see sklearn/datasets/images/README.txt) is executed or installed. Needs Pillow.
"""

from __future__ import annotations

import argparse
import io
import random
import zipfile
from pathlib import Path

from PIL import Image, ImageOps

PHOTOS = ("sklearn/datasets/images/china.jpg", "sklearn/datasets/images/flower.jpg")
CALIBRATED, TESTED = 8, 52
SHORTEST, LONGEST = 128, 420  # sides of a square


def crops(photos: list[Image.Image], rng: random.Random) -> list[Image.Image]:
    """In turn of each photo."""
    found = []
    for number in range(CALIBRATED + TESTED):
        photo, side = photos[number % len(photos)], rng.randint(SHORTEST, LONGEST)
        left, top = rng.randint(0, photo.width - side), rng.randint(0, photo.height - side)
        square = photo.crop((left, top, left + side, top + side))
        found.append(ImageOps.mirror(square) if number // 2 % 2 else square)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wheel", type=Path, required=True, help="of scikit-learn")
    options.add_argument("--output", type=Path, required=True)
    asked = options.parse_args()
    wheel = zipfile.ZipFile(asked.wheel)
    photos = [Image.open(io.BytesIO(wheel.read(name))).convert("RGB") for name in PHOTOS]
    asked.output.mkdir(parents=True, exist_ok=True)
    names = []
    for number, image in enumerate(crops(photos, random.Random(1))):
        path = asked.output / f"{number:02}-{Path(PHOTOS[number % 2]).stem}.png"
        image.save(path)
        names.append(str(path.resolve()))
    (asked.output / "calibration.txt").write_text("\n".join(names[:CALIBRATED]) + "\n")
    (asked.output / "test.txt").write_text("\n".join(names[CALIBRATED:]) + "\n")


if __name__ == "__main__":
    main()
