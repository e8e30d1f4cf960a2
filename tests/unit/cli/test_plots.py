"""`tacita estimate --plot` and the chart of `tacita accuracy`: what they draw is what was computed."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from plans import real_plan

from tacita.cli.app import main
from tacita.cli.ask.accuracy import error_chart
from tacita.cli.ask.measure import Row
from tacita.cli.estimate import cost_chart

SVG = "{http://www.w3.org/2000/svg}"


def test_parts_of_a_stage_add_up_to_its_seconds() -> None:
    plan = real_plan()
    root = ElementTree.fromstring(cost_chart(plan, {}))
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    for stage, seconds in zip(plan.stages, plan.prediction.stage_seconds, strict=True):
        parts = [each for each in titles if each.startswith(f"{stage.name}, ")]
        drawn = sum(float(re.findall(r": (\S+) s$", each)[0]) for each in parts)
        assert len(parts) == 3 and drawn == pytest.approx(seconds, rel=0.02)


def test_an_estimate_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two parties have a bar a connection."""
    picture = tmp_path / "cost.svg"
    assert main(["estimate", "--scheme", "bumblebee", "--tokens", "16", "--plot", str(picture)]) == 0
    assert "drawn:" in capsys.readouterr().out
    root = ElementTree.parse(picture).getroot()
    assert "loopback" in "".join(root.itertext()).lower()


def test_texts_are_drawn_by_what_became_of_their_label() -> None:
    rows = [
        Row(1, (-1.0, 1.0), (-1.01, 1.0), 0.1, 0),
        Row(0, (0.01, 0.0), (0.0, 0.02), 0.1, 0),
        Row(0, (2.0, 0.0), (1.0, 0.0), 0.1, 1),
    ]
    chart = error_chart(rows, "m")
    assert all(f"{kind}: 1" in chart for kind in ("same label", "another label", "with a warning"))
    assert len(re.findall("<circle", chart)) == 3
