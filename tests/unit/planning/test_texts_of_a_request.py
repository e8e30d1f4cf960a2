"""Whose texts a plan is calibrated for: those side by side in a request, and of a text that is asked row by
row all of its requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
from test_population import MODEL, sentences
from tiny_decoders import gpt2

from tacita import api
from tacita.planning.calibrate.calibrate import CalibrationOptions as Options
from tacita.planning.calibrate.calibrate import survey
from tacita.planning.calibrate.excesses import of_texts
from tacita.planning.calibrate.walk import Sample
from tacita.planning.request import PlanRequest
from tacita.planning.survey import TRIALS, Subject, phases_of
from tacita.plans.scheme import first_shape


@pytest.mark.parametrize(("packing", "together"), [("rows", 4), ("multidiagonal", 1)])
def test_texts_side_by_side_are_those_of_a_request(
    packing: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each can spoil the others' answers, as in a batch."""
    model, seen = gpt2(), list[int]()
    monkeypatch.setattr("tacita.planning.survey.survey", lambda *_, **how: seen.append(how["options"].texts))
    states = [tiny.inputs(model, 8, 8)]
    request = PlanRequest(scheme="thor", tokens=8, inputs=4, packing=packing, hidden_states=states)
    subject = Subject(model, request, phases_of(lambda _: None, ["thor"])).admitted()
    subject.survey(first_shape("thor", 256, 8, packing))
    assert seen == [together]


def test_no_beginning_of_a_text_is_tested_on_intervals_that_the_rest_of_it_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every fifth sample is tested: all that a step is calibrated on of one text is in the same fifth, and
    belongs to that text."""
    model, seen, owners = gpt2(), list[Sample](), list[int]()

    def record(*_: Any, **how: Any) -> None:
        seen.extend(how["hidden_states"])
        owners.extend(how["options"].owners)

    monkeypatch.setattr("tacita.planning.survey.survey", record)
    states = [tiny.inputs(model, 8, 8, seed=seed) for seed in range(13)]
    request = PlanRequest(scheme="thor", tokens=8, cache=True, hidden_states=states)
    subject = Subject(model, request, phases_of(lambda _: None, ["thor"])).admitted()
    subject.survey(replace(first_shape("thor", 256, 8), step=True))
    fifths: dict[bytes, set[int]] = {}
    for place, (rows, _) in enumerate(seen):
        fifths.setdefault(rows[-1].tobytes(), set()).add(place % 5)  # the first token, in reverse
    assert len(seen) >= 4 * 13 and len(fifths) == 13
    assert all(len(places) == 1 for places in fifths.values())
    assert [rows[-1].tobytes() for rows, _ in seen] == [states[text][0][-1].tobytes() for text in owners]


def test_texts_of_several_samples_are_counted_and_not_their_samples() -> None:
    """Requests of a text that is asked row by row leave the intervals together."""
    texts, owners = sentences(60), [number % 20 for number in range(60)]
    each, of_all = (survey(MODEL, 16, texts, options=Options(owners=of)) for of in ((), owners))
    assert each.calibration == of_all.calibration
    assert each.counts.texts == 60 and of_all.counts.texts == 20
    assert 0 < of_all.counts.outside <= each.counts.outside
    furthest = of_texts({"answer": np.array((1.0, 3.0, -2.0, 0.5))}, (7, 2, 2, 7))["answer"]
    assert furthest.tolist() == [3.0, 1.0]


def test_an_error_rests_on_texts_and_not_on_their_rows() -> None:
    """Rows of one text, each a request, err together: three texts of eight rows are too few to bound others,
    where twenty-four texts were not."""
    model = gpt2(layers=1)
    states = [tiny.inputs(model, 8, 8, seed=seed) for seed in range(TRIALS)]
    plan = api.plan(
        model, scheme="thor", tokens=8, preset="insecure_toy_n10", cache=True, hidden_states=states
    )
    assert (plan.prediction.error.texts, plan.prediction.error.share) == (TRIALS, None)
