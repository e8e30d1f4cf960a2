"""Pictures of the documents are of today, say in words what they show, and fit both colour schemes."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tacita.cli.plot import bars, points

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
SVG = "{http://www.w3.org/2000/svg}"
sys.path.insert(0, str(ROOT / ".ci"))
drawn = importlib.import_module("pictures")


def test_pictures_are_of_today() -> None:
    """`python .ci/pictures.py --write` draws them anew."""
    for name, picture in drawn.pictures():
        assert picture == (IMAGES / name).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_xml_with_words(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg" and root.get("role") == "img" and root.get("aria-label")


def test_colours_of_both_schemes_stand_out() -> None:
    """Text at least 4.5 to 1 against its ground, shapes 3 to 1, as WCAG 2.2 asks."""
    light, _, dark = drawn.STYLE.partition("@media")
    for style in (light, dark):
        colours = dict(re.findall(r"\.(\w+)\{fill:(#\w+)", style))
        paper = luminance(colours.pop("paper"))
        for kind, colour in colours.items():
            bright, dim = sorted((paper, luminance(colour)), reverse=True)
            least = 4.5 if kind in {"ink", "soft"} else 3.0
            assert (bright + 0.05) / (dim + 0.05) >= least, (kind, colour)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_names_from_elsewhere_are_escaped() -> None:
    """A model's name and a stage's are not ours."""
    evil = '<script>alert("x")</script>'
    for chart in (
        bars(evil, [(evil, {evil: 1.0})], evil, evil),
        points(evil, {evil: [(1.0, 2.0)]}, (evil, evil), evil),
    ):
        root = ElementTree.fromstring(chart)
        assert not list(root.iter(f"{SVG}script")) and evil in root.get("aria-label", "")


def test_a_bar_is_as_long_as_its_value() -> None:
    root = ElementTree.fromstring(bars("t", [("a", {"x": 1.0, "y": 3.0}), ("b", {"x": 2.0})], "s", "w"))
    boxes = [box for box in root.iter(f"{SVG}rect") if (box.find(f"{SVG}title") is not None)]
    widths = [float(box.get("width", "0")) for box in boxes[2:]]  # behind the legend
    assert widths[1] == pytest.approx(3 * widths[0], rel=0.01)
    assert widths[2] == pytest.approx(2 * widths[0], rel=0.01)
