"""Generation in the clear: the loop over any source of tokens, choices of tokens, and tiny decoders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_decoder_folders import LLAMA, written
from tiny_decoders import gpt2, llama, logits
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tacita
from tacita.checkpoint import Checkpoint
from tacita.cli import main
from tacita.errors import InputError, PlanError
from tacita.generation.sources import Integers
from tacita.planning.request import PlanRequest
from tacita.texts.generation import Choice, Ends, Local, Token, generated
from tacita.two_party.planning import make_two_party_plan

PROMPT = "a film of quiet beauty"
TEXTS = [
    f"{a} {b} {c}" for a in ("a film", "the plot") for b in ("of", "is") for c in ("quiet", "time beauty")
]


class Script:
    """A source that says what it was given, and remembers what it was told."""

    near = ()
    sound = True

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids, self.told = list(ids), list[int]()

    def next(self, tokens: Sequence[int]) -> int:
        self.told += tokens
        return self.ids.pop(0)


def spelled(text: str, ends: Ends, sizes: Sequence[int] | None = None) -> tuple[list[str], Script]:
    """Texts of tokens, each a byte of `text` behind a prompt of one."""
    source = Script(text.encode())
    found = generated(source, [ord(">")], lambda ids: bytes(ids).decode(errors="replace"), ends)
    return [token.text for token in found], source


def test_tokens_come_until_there_are_enough() -> None:
    texts, source = spelled("abcdef", Ends(3))
    assert texts == ["a", "b", "c"] and source.told == [
        ord(c) for c in ">ab"
    ]  # nothing is asked behind the last


def test_a_character_of_several_bytes_waits_for_its_last() -> None:
    assert spelled("aé€b", Ends(7))[0] == ["a", "", "é", "", "", "€", "b"]
    assert spelled("a€", Ends(3))[0] == ["a", "", "\ufffd"]


def test_an_ending_token_is_the_last() -> None:
    texts, source = spelled("ab.cd", Ends(9, frozenset([ord(".")])))
    assert texts == ["a", "b", "."] and len(source.ids) == 2


@pytest.mark.parametrize(
    ("stops", "texts"),
    [
        (("d",), ["a", "b", "c", ""]),
        (("cd",), ["a", "b", "", ""]),
        (("cx",), ["a", "b", "", "cd", "e"]),
        (("bcx", "cde"), ["a", "", "", "b", ""]),
        (("ez",), ["a", "b", "c", "d", "e"]),
    ],
)
def test_stop_texts_are_not_told_and_their_beginnings_wait(stops: tuple[str, ...], texts: list[str]) -> None:
    assert spelled("abcde", Ends(5, texts=stops))[0] == texts


def test_choices() -> None:
    values, chance = np.array([1.0, 3.0, 3.0, 2.0]), np.random.default_rng(0)
    assert Choice().of(values, chance) == 1 and Choice(top_k=3).of(values, chance) == 1
    assert {Choice(5.0, top_k=2).of(values, chance) for _ in range(50)} == {1, 2}
    drawn = [Choice(1.0).of(values, chance) for _ in range(4000)]
    shares = np.bincount(drawn, minlength=4) / 4000
    assert np.abs(shares - np.exp(values) / np.exp(values).sum()).max() < 0.03
    for wrong in ({"temperature": -1.0}, {"temperature": float("nan")}, {"top_k": -1}, {"seed": -1}):
        with pytest.raises(InputError, match="temperature"):
            Choice(**wrong)


def greedy(model: Checkpoint, count: int) -> list[int]:
    """The whole sequence each time, by the reference."""
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(PROMPT).ids
    start = len(ids)
    for _ in range(count):
        ids = [*ids, int(logits(model, ids)[-1].argmax())]
    return ids[start:]


@pytest.mark.parametrize("model", [llama(), gpt2()], ids=["llama", "gpt2"])
def test_floats_and_integers_say_what_the_whole_sequence_says(model: Checkpoint) -> None:
    wanted = greedy(model, 12)
    assert [token.id for token in tacita.generate(PROMPT, model=model, max_tokens=12)] == wanted
    options = {"backend": "sim", "tokens": 24, "texts": TEXTS}
    found = list(tacita.generate(PROMPT, model=model, max_tokens=12, **options))
    assert [token.id for token in found] == wanted and all(token.sound for token in found)


def test_a_seed_says_what_comes() -> None:
    def drawn(seed: int) -> list[int]:
        found = tacita.generate(PROMPT, model=llama(), max_tokens=9, temperature=3.0, seed=seed)
        return [token.id for token in found]

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_token_that_ends_texts_ends_one() -> None:
    model = llama()
    wanted = greedy(model, 6)
    ended = replace(model, config=replace(model.config, ends=(0, wanted[4])))
    first = wanted.index(wanted[4])
    assert [token.id for token in tacita.generate(PROMPT, model=ended, max_tokens=20)] == wanted[: first + 1]


def test_values_outside_their_range_are_told() -> None:
    model = llama()
    plan = make_two_party_plan(model, PlanRequest(scheme="bumblebee", tokens=16, texts=TEXTS))
    narrow = replace(plan.bounds, functions=dict.fromkeys(plan.bounds.functions, (-0.01, 0.01)))
    for planned, sound in ((plan, True), (replace(plan, bounds=narrow), False)):
        source = Local(Integers(model, planned, slots=16).logits, Choice())
        found = generated(source, [2, 4], str, Ends(2))
        assert [token.sound for token in found] == [sound, sound]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "0 tokens"),
        ({"stop": [""]}, "stop texts"),
        ({"backend": "ckks"}, "backend ckks without ciphertexts"),
        ({"max_tokens": 59}, "59 behind it, in 64 positions"),
        ({"backend": "sim", "tokens": 5}, "a prompt of 7 tokens, 0 before and 64 behind it, in 5 positions"),
        ({"backend": "sim", "tokens": 60}, "0 before and 64 behind it, in 60 positions"),
        ({"temperature": -0.1}, "temperature -0.1"),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_token(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tacita.generate(PROMPT, model=llama(), **options)  # type: ignore[arg-type]


def test_other_models_and_empty_prompts_are_refused() -> None:
    with pytest.raises(InputError, match="the model answers with a label, not the token that comes next"):
        tacita.generate(PROMPT, model=tacita.load())
    with pytest.raises(InputError, match="the text is empty"):
        tacita.generate(" ", model=llama())
    with pytest.raises(InputError, match="the model answers with the token that comes next, not a label"):
        tacita.classify(PROMPT, model=llama())


def folder_of(place: Path) -> Path:
    """A decoder over bytes, some of which act on terminals."""
    model = llama()
    signs = pre_tokenizers.ByteLevel.alphabet()
    pieces = ["Ġ", "Ċ", "[", "a", "b", "ą", *sorted(set(signs) - set("ĠĊ[abą"))][:41]
    made = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    bytes_only = replace(model, tokenizer=made)
    return written(
        bytes_only, place, LLAMA, {"embeddings.word_embeddings.weight": "embed_tokens.weight"}, "model."
    )


def test_the_command_streams_text_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, report = folder_of(tmp_path), tmp_path / "report.json"
    arguments = ["generate", "ab", "--model", str(folder), "--max-tokens", "20", "--json", str(report)]
    assert main(arguments) == 0
    said, told = capsys.readouterr().out, json.loads(report.read_text())
    tokens = list(tacita.generate("ab", model=folder, max_tokens=20))
    assert told["tokens"] == [token.id for token in tokens] and len(tokens) == 20
    assert told["text"] == "".join(token.text for token in tokens)
    assert told["prefill"]["wall_seconds"] > 0.0 < told["token"]["wall_seconds"] and told["trusted"]
    assert said.endswith("\n") and "\x1b" not in said and "\x85" not in said
    for line in told["text"].split("\n"):
        assert line.isprintable() <= (line in said)


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(folder_of(tmp_path))
    assert main(["generate", "ab", "--model", folder, "--max-tokens", "80"]) == 2
    assert "64 positions" in capsys.readouterr().err
    assert main(["generate", "ab", "--model", folder, "--temperature", "-1"]) == 2
    assert main(["generate", "ab", "--model", str(tmp_path / "nowhere")]) == 2


def test_a_token_that_is_not_sound_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [Token(3, "fine"), Token(4, "garbage", False), Token(5, "more", False)]
    for place in ("tacita.generation.generate", "tacita.cli.ask.generate"):
        monkeypatch.setattr(f"{place}.generate_batch", lambda *_: ((0, token) for token in tokens))
    with pytest.raises(PlanError, match="values left the calibrated ranges at token 2, which is not shown"):
        list(tacita.generate("ab", backend="plain"))
    assert list(tacita.generate("ab", backend="plain", show_anyway=True)) == tokens
    arguments, report = ["generate", "ab", "--json", str(tmp_path / "report.json")], tmp_path / "report.json"
    for value, said in (("false", "fine"), ("true", "finegarbagemore")):
        monkeypatch.setenv("TACITA_RUN__SHOW_ANYWAY", value)
        assert main(arguments) == 2
        found = json.loads(report.read_text())
        assert found["text"] == said == capsys.readouterr().out.strip() and not found["trusted"]


def test_a_public_beginning_is_part_of_the_text() -> None:
    """As if it stood in the prompt, in floats and in integers; positions go on behind it."""
    for model in (llama(), gpt2()):
        assert model.tokenizer is not None
        begin, prompt = "a film of", "quiet beauty"
        ids = [model.tokenizer.encode(text, add_special_tokens=False).ids for text in (begin, prompt)]
        wanted = [*ids[0], *ids[1]]
        for _ in range(8):
            wanted.append(int(logits(model, wanted)[-1].argmax()))
        for options in ({}, {"backend": "sim", "tokens": 24, "texts": TEXTS}):
            found = list(tacita.generate(prompt, model=model, begin=begin, max_tokens=8, **options))
            assert [token.id for token in found] == wanted[-8:] and all(token.sound for token in found)


def test_a_beginning_is_for_decoders_with_published_tables() -> None:
    with pytest.raises(InputError, match="a public beginning"):
        make_two_party_plan(tacita.load(), PlanRequest(scheme="bumblebee", tokens=16, begin="a film"))
    with pytest.raises(InputError, match="a public beginning"):
        request = PlanRequest(scheme="bumblebee", tokens=16, texts=TEXTS, begin="a film", embeddings="hidden")
        make_two_party_plan(llama(), request)
    with pytest.raises(PlanError, match="a public beginning in a plan on ciphertexts"):
        tacita.plan(llama(), scheme="thor", tokens=16, texts=TEXTS, begin="a film")
