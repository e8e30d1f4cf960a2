"""The decoder that comes with the package: what it writes, in floats and in integers, and how it is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from tiny_decoders import logits

import tacita
from tacita.checkpoint import Checkpoint, load
from tacita.cli import main
from tacita.data import DEFAULT_DECODER, shipped
from tacita.errors import CheckpointError, InputError
from tacita.generation.sources import Floats
from tacita.planning.calibrate.calibrate import texts_for

PROMPT = "Emma could not"
WRITTEN = " help thinking that she was not able to be in the room. She was not so very much as to be, but"
# a passage behind which nothing comes
ENDED = (
    '"Harriet must give us as much of her company as she can while my brother and sister are here. '
    "I am sure she will be pleased with the children. We are very proud of the children, are not we, papa? "
    'I wonder which she will think the handsomest, Henry or John?"'
)
POSITIONS, MOST_BYTES = 256, 5_000_000


@pytest.fixture(scope="module")
def model() -> Checkpoint:
    return load(DEFAULT_DECODER)


def text_of(prompt: str, **options: object) -> str:
    return "".join(token.text for token in tacita.generate(prompt, **options))  # type: ignore[arg-type]


def words(model: Checkpoint, count: int) -> str:
    """A prompt of so many tokens, the one that every text begins with included."""
    assert model.tokenizer is not None
    prompt = " ".join(["the"] * (count - 1))
    assert len(model.tokenizer.encode(prompt).ids) == count
    return prompt


def test_it_writes_english(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", PROMPT, "--max-tokens", "24"]) == 0
    assert capsys.readouterr().out == f"{WRITTEN}\n" and text_of(PROMPT, max_tokens=24) == WRITTEN


def test_the_integers_of_two_parties_write_the_same() -> None:
    found = list(tacita.generate(PROMPT, backend="sim", tokens=64, max_tokens=24))
    assert "".join(token.text for token in found) == WRITTEN and all(token.sound for token in found)


def test_every_length_of_the_cache_means_the_whole_text(model: Checkpoint) -> None:
    """A token behind 1 to 128 others, beside the reference, which keeps nothing."""
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(" ".join(model.texts[:40])).ids[:129]
    wanted, floats = logits(model, ids), Floats(model)
    for length, token in enumerate(ids):
        found, _ = floats.logits([token])
        assert np.abs(found - wanted[length]).max() < 1e-9, length


@pytest.mark.parametrize("length", [1, 2, 16, 127, 128])
def test_a_prompt_at_once_is_its_tokens_one_by_one(model: Checkpoint, length: int) -> None:
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(" ".join(model.texts[:40])).ids[: length + 1]
    floats = Floats(model)
    floats.logits(ids[:length])
    found, _ = floats.logits(ids[length:])
    assert np.abs(found - logits(model, ids)[-1]).max() < 1e-9


def test_prompts_at_the_limit_and_over_it(model: Checkpoint) -> None:
    """256 positions; what is written last is not read."""
    assert len(list(tacita.generate(words(model, POSITIONS), model=model, max_tokens=1))) == 1
    for count, more in ((POSITIONS, 2), (POSITIONS + 1, 1), (1000, 1)):
        with pytest.raises(InputError, match=f"a prompt of {count} tokens, 0 before and {more} behind it"):
            tacita.generate(words(model, count), model=model, max_tokens=more)


@pytest.mark.parametrize("options", [{}, {"backend": "sim", "tokens": 128}])
def test_a_text_that_ends_at_once(model: Checkpoint, options: dict[str, object]) -> None:
    (only,) = tacita.generate(ENDED, max_tokens=9, **options)  # type: ignore[arg-type]
    assert only.id in model.config.ends and only.text == ""  # type: ignore[union-attr]


def test_a_stop_text_at_once() -> None:
    assert text_of(PROMPT, max_tokens=24, stop=[WRITTEN[:3]]) == ""


def test_it_is_small_and_says_what_it_is(model: Checkpoint) -> None:
    files = sorted(DEFAULT_DECODER.iterdir())
    names = ["README.md", "calibration.txt", "config.json", "model.safetensors", "tokenizer.json"]
    assert [path.name for path in files] == names
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert "public domain" in (DEFAULT_DECODER / "README.md").read_text(encoding="utf-8")


def test_any_text_is_read_and_spelled_back(model: Checkpoint) -> None:
    tokenizer = model.tokenizer
    assert tokenizer is not None
    for text in (PROMPT, '"Oh! Mr. Darcy," said she;--"it is £5."', "żółw €\tx  y\n"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_it_is_calibrated_on_texts_of_its_own_kind(model: Checkpoint) -> None:
    assert texts_for(model) == model.texts and len(model.texts) == 200
    assert "a film" not in " ".join(model.texts)
    classifier = tacita.load()
    assert not classifier.texts and "wonderful" in texts_for(classifier)


def test_a_folder_brings_texts_of_its_own(tmp_path: Path) -> None:
    folder = write_folder(make_random_checkpoint(), tmp_path / "model")
    assert not load(folder).texts
    (folder / "calibration.txt").write_text("# of mine\na fine film\n")
    assert texts_for(load(folder)) == ("a fine film",)
    for wrong in (b"", b"\xff\xfe"):
        (folder / "calibration.txt").write_bytes(wrong)
        with pytest.raises(CheckpointError, match=r"calibration\.txt"):
            load(folder)


def test_shipped_models_have_names_and_others_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(shipped()) == {"austen-tiny", "sst2-tiny"}
    for name, folder in shipped().items():
        assert load(name).sha256 == load(folder).sha256
    for wrong in ("austen", "../austen-tiny", "austen-tiny.gguf"):
        with pytest.raises(CheckpointError, match="is not a folder") as refused:
            load(wrong)
        assert refused.value.hint.endswith("one of austen-tiny, sst2-tiny")
    assert main(["generate", PROMPT, "--model", "austen"]) == 2
    assert "austen is not a folder" in capsys.readouterr().err


def test_a_folder_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that holds no model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "austen-tiny").mkdir()
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load("austen-tiny")
