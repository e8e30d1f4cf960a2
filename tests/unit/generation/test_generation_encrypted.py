"""Tokens from ciphertexts: a decoder's rows in reverse, in every packing of one text, and the loop over
them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_decoder_folders import LLAMA, WORDS, written
from tiny_decoders import gpt2, llama, logits
from tokenizers import Tokenizer

import tacita
from tacita.api import classify_batch_locally, classify_locally, reference_logits
from tacita.approx.fit import FitError
from tacita.blocks.base import BEHIND, Attention, Dense, Relative, Rotary
from tacita.blocks.sequence import angles, latest, reach_mask
from tacita.checkpoint import Checkpoint, embed, from_tensors
from tacita.checkpoint.beginning import WIDTH, with_beginning
from tacita.checkpoint.reference import reference
from tacita.cli import main
from tacita.cli.ask import generate as command
from tacita.errors import CheckpointError, FileError, InputError, PlanError
from tacita.layouts import rotations
from tacita.layouts.vector import blocks_of
from tacita.packings.lowering import in_slots
from tacita.packings.weights import Positional
from tacita.planning.calibrate.temper import choose_temperatures, enough_rounds
from tacita.planning.circuit import require_circuit
from tacita.plans.plan import Plan, parse
from tacita.texts.embed import arranged, embedded, tokenize
from tacita.texts.generation import Token

TOY = "insecure_toy_n11"
RING = "insecure_toy_n10"  # of what is encrypted
TOKENS = 16
WORDS_OF_ALL = ["a", "film", "of", "quiet", "beauty", "and", "the", "plot", "is", "time"]
CHOSEN = np.random.default_rng(5)
TEXTS = [" ".join(CHOSEN.choice(WORDS_OF_ALL, count)) for count in CHOSEN.integers(2, 13, 24)]
ASKED = ["a film of quiet beauty", "time", "the plot is quiet and the film is time of a beauty"]
Make = Callable[..., Checkpoint]


def planned(model: Checkpoint, **how: Any) -> Plan:
    found = tacita.plan(model, tokens=TOKENS, texts=TEXTS, **{"scheme": "thor", "preset": TOY, **how})
    assert isinstance(found, Plan)
    return found


def near(plan: Plan) -> float:
    """How far an answer may be from floats: approximations and noise, and half a step of its rounding."""
    return 0.02 + 0.5 * plan.logit_step


@pytest.fixture(scope="module", params=["rows", "multidiagonal"])
def plan(request: pytest.FixtureRequest) -> Plan:
    return planned(llama(), packing=request.param)


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("text", ASKED)
def test_rows_in_reverse_mean_the_same(make: Make, text: str) -> None:
    model = make()
    backwards = in_slots(model)
    hidden, mask = embed(backwards, text, TOKENS)
    count, ids = int(mask.sum()), tokenize(model, text)[0]
    assert mask[:count].all() and not mask[count:].any()
    found = reference(backwards, hidden, mask).logits
    assert np.allclose(found, logits(model, ids)[-1], atol=1e-12)


def test_nothing_but_causal_attention_is_reversed() -> None:
    d = Dense("x", 24, 24)
    for options in ({}, {"reach": (None, 0), "relative": Relative("t", 8, 16)}):
        with pytest.raises(PlanError, match="reversed rows"):
            latest(Attention(6, d, d, d, d, **options))  # type: ignore[arg-type]


def test_angles_turn_back() -> None:
    there, back = (angles(Rotary(100.0, back=each), (5, 8)) for each in (False, True))
    assert np.array_equal(there[0], back[0]) and np.array_equal(there[1], -back[1])


@pytest.mark.parametrize("backend", ["plain", "sim"])
@pytest.mark.parametrize("text", ASKED)
def test_logits_are_those_of_the_model(plan: Plan, text: str, backend: str) -> None:
    model = llama()
    wanted = logits(model, tokenize(model, text)[0])[-1]
    answer = classify_locally(plan, model, text, backend=backend)
    assert answer.trusted and np.abs(answer.vector - wanted).max() < near(plan)
    assert np.allclose(reference_logits(plan, model, text), wanted, atol=1e-12)


def test_logits_of_gpt2_and_of_leaf() -> None:
    model = gpt2()
    wanted = logits(model, tokenize(model, ASKED[0])[0])[-1]
    for how in ({}, {"scheme": "leaf", "packing": "rows"}):
        made = planned(model, **how)
        answer = classify_locally(made, model, ASKED[0], backend="sim")
        assert answer.trusted and np.abs(answer.vector - wanted).max() < near(made)


@pytest.mark.parametrize("packing", ["rows", "multidiagonal"])
@pytest.mark.parametrize("vocab", [200, 700])
def test_a_vocabulary_lies_side_by_side(packing: str, vocab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More words than the slots have blocks for; of 700, three ciphertexts, a sum of each in turn."""
    monkeypatch.setattr(rotations, "AT_ONCE", 64 * vocab)
    model = llama(vocab=vocab, layers=1)
    found = planned(model, packing=packing)
    response = found.layout.response
    assert response.count == (1 if vocab == 200 else 3)
    wanted = logits(model, tokenize(model, ASKED[0])[0])[-1]
    answer = classify_locally(found, model, ASKED[0], backend="sim")
    assert len(answer.vector) == vocab and answer.trusted
    assert np.abs(answer.vector - wanted).max() < near(found)


@pytest.mark.parametrize("size", [1, 15, 16, 300, 5000])
def test_blocks_hold_an_answer(size: int) -> None:
    width, apart = blocks_of(1024, 32, size, dense=True)
    assert apart == (size <= 15)
    assert width == (32 if apart else min(256, max(32, 1 << (size - 1).bit_length())))


def test_what_a_plan_says_of_a_decoder_loads_the_same_model(tmp_path: Path) -> None:
    """Steps load a model by its plan's words, and the plan's commitment is to its hash."""
    folder = folder_of(tmp_path)
    found, same = tacita.load(folder), tacita.load(folder, pooling="latest")
    assert (same.config, same.sha256) == (found.config, found.sha256)
    assert in_slots(found).config.pooling == "latest" and in_slots(found).sha256 == found.sha256
    with pytest.raises(CheckpointError, match="pooling 'mean'"):
        tacita.load(folder, pooling="mean")
    with pytest.raises(CheckpointError, match="latest"):
        tacita.load(pooling="latest")


def test_tokens_are_those_of_floats() -> None:
    model = llama()
    common = {"model": model, "max_tokens": 4}
    wanted = list(tacita.generate(ASKED[0], **common))
    on = {"scheme": "thor", "tokens": TOKENS, "preset": TOY, "texts": TEXTS}
    found = list(tacita.generate(ASKED[0], backend="sim", **on, **common))
    assert [token.id for token in found] == [token.id for token in wanted]


def twins() -> Checkpoint:
    """A decoder in which the logit of every even word is that of the next one, too."""
    model = llama()
    head = model.tensors["lm_head.weight"]
    twice = head[np.arange(len(head)) // 2 * 2]
    return from_tensors(model.config, {**model.tensors, "lm_head.weight": twice}, model.tokenizer)


@pytest.mark.parametrize("reveal", ["logits", "token"])
def test_words_that_rounding_does_not_tell_apart_are_named(reveal: str) -> None:
    on = {"scheme": "thor", "tokens": TOKENS, "preset": TOY, "texts": TEXTS, "reveal": reveal}
    model = twins()
    for token in tacita.generate(ASKED[0], model=model, max_tokens=2, **on):  # type: ignore[arg-type]
        assert model.tokenizer is not None and token.near
        assert any(other.strip() == model.tokenizer.decode([token.id ^ 1]) for other in token.near)
    clear = list(tacita.generate(ASKED[0], model=model, max_tokens=2))
    drawn = list(tacita.generate(ASKED[0], model=model, max_tokens=2, temperature=1.0, seed=1))
    assert not any(token.near for token in (*clear, *drawn))


def test_a_tie_is_warned_of_by_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = [Token(3, " but", near=(" help", " [b]give")), Token(4, " not")]
    monkeypatch.setattr(command, "generate_batch", lambda *_: ((0, token) for token in tokens))
    report = tmp_path / "report.json"
    assert main(["generate", "Emma could", "--json", str(report)]) == 1
    found = json.loads(report.read_text())
    assert found["near"] == {"0": [" help", " [b]give"]} and found["trusted"] is False
    said = capsys.readouterr().err
    assert "token 1, ' but', and ' help', ' [b]give' are a tie" in said and "token 2" not in said


def sink(**options: Any) -> Checkpoint:
    """A decoder whose words "a" and "film" have values a thousand times those of others."""
    model = llama(**options)
    assert model.tokenizer is not None
    tensors = dict(model.tensors)
    tensors[WORDS] = tensors[WORDS].copy()
    tensors[WORDS][tokenize(model, "a film", special=False)[0]] *= 1000.0
    plain = json.loads(model.tokenizer.to_str()) | {"post_processor": None}  # adds no token before a text
    return from_tensors(model.config, tensors, Tokenizer.from_str(json.dumps(plain)), name="sink")


@pytest.mark.parametrize("options", [{}, {"biases": (True, True, True)}])
def test_a_model_behind_public_tokens_is_the_same(options: dict[str, Any]) -> None:
    """Also in reverse and padded; and no row of it has values far larger than others."""
    model = sink(**options)
    begin, text = (tokenize(model, each, special=False)[0] for each in ("a film", "of quiet beauty and time"))
    changed = with_beginning(model, begin, text)
    for one, low, high in ((changed, 1.0, 100.0), (model, 1e5, np.inf)):
        hidden = embedded(one, [*begin, *text], [0] * 7)
        found = reference(in_slots(one), *arranged(hidden, TOKENS, last=True, backwards=True))
        assert np.allclose(found.logits, logits(model, [*begin, *text])[-1], atol=1e-9)
        variances = [value for name, value in found.trace.items() if name.endswith("variance")]
        assert low < max(each.max() / np.median(each[:5]) for each in variances) < high
    assert changed.config.head_size == 4 and changed.config.hidden == model.config.hidden + 2 * WIDTH


@pytest.mark.parametrize(("make", "ids"), [(gpt2, [7]), (llama, [7, 7])])
def test_models_without_a_public_beginning(make: Make, ids: list[int]) -> None:
    with pytest.raises(InputError, match=f"a public beginning of {len(ids)} tokens on ciphertexts"):
        with_beginning(make(), ids, [8, 9])


def test_a_public_beginning_on_ciphertexts() -> None:
    """Tokens are those of floats behind both; without the beginning there is no plan."""
    model, texts = sink(), [text.replace("film", "plot").replace("a ", "the ") for text in TEXTS]
    begun, how = [f"a film {text}" for text in texts], {"tokens": TOKENS, "preset": TOY}
    with pytest.raises(FitError):
        tacita.plan(model, scheme="thor", texts=begun, **how)
    how |= {"model": model, "scheme": "thor", "max_tokens": 2}
    wanted = tokenize(model, "a film quiet", special=False)[0]
    for token in tacita.generate("quiet", begin="a film", texts=texts, backend="sim", **how):
        wanted.append(int(logits(model, wanted)[-1].argmax()))
        assert token.id == wanted[-1]


def test_rounds_of_reversed_rows() -> None:
    """Where padding sees nobody, ten nats take a round if there are any; and a least mean that no polynomial
    of exp follows does so anywhere."""
    model, most = llama(), (0, 3)
    for one, rounds, wanted in ((in_slots(model), most, 1), (model, most, 0), (in_slots(model), (0, 0), 0)):
        betas, chosen = choose_temperatures(lambda name, t, head: (-10.0 * t, 0.0), one.config, rounds)
        assert set(chosen.values()) == {wanted} and {b for each in betas.values() for b in each} == {1.0}
    for layers, nats, count in ((1, 8.0, 0), (12, 8.0, 1), (1, 16.0, 1), (12, 16.0, 2), (12, 80.0, 3)):
        config = replace(in_slots(model).config, layers=layers)  # whose answer has the noise of all of them
        betas, chosen = choose_temperatures(lambda name, t, head, n=nats: (-n * t, 0.0), config, most)
        assert list(chosen.values()) == [count] * layers and {b for e in betas.values() for b in e} == {1.0}
    means = {name: [(np.exp(-low), 1.0) for low in (23.0, 13.0, 7.0, 4.0)] for name in ("a", "b")}
    means["b"][0] = (np.exp(-21.0), 1.0)
    nodes = {name: SimpleNamespace(means=each) for name, each in means.items()}
    assert enough_rounds({"a": 0, "b": 0}, nodes, 3) == {"a": 2}
    assert enough_rounds({"a": 0, "b": 0}, nodes, 3, inside={"a"}) == {"a": 1}  # exponentials stay inside
    assert enough_rounds({"a": 0, "b": 0}, nodes, 0) == {}


def test_options_that_mean_nothing() -> None:
    model = llama()
    for wrong, message in (
        ({"scheme": "orion"}, "scheme 'orion'"),
        ({"scheme": "thor", "begin": "film", "max_tokens": 2}, "a beginning 'film'"),
        ({"backend": "ckks"}, "without ciphertexts"),
        ({"scheme": "bumblebee", "backend": "ckks"}, "without ciphertexts"),
        ({"scheme": "thor", "tokens": TOKENS, "max_tokens": 12}, "in 16 positions"),
    ):
        with pytest.raises(InputError, match=message):
            tacita.generate(ASKED[0], model=model, **wrong)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="bits of security"):
        tacita.generate(
            ASKED[0], model=model, scheme="thor", backend="ckks", tokens=TOKENS, preset=TOY, max_tokens=2
        )


def folder_of(place: Path, layers: int = 1) -> Path:
    fields = LLAMA | {"tie_word_embeddings": False, "eos_token_id": 11, "num_hidden_layers": layers}
    return written(llama(layers=layers), place, fields, {WORDS: "embed_tokens.weight"}, "model.")


def toy_files(place: Path) -> tuple[Path, Path, Path]:
    """A model's folder, texts to plan with, and where a report goes."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    (place / "model").mkdir()
    (place / "texts.txt").write_text("\n".join(TEXTS))
    return folder_of(place / "model"), place / "texts.txt", place / "report.json"


@pytest.mark.native
@pytest.mark.parametrize(("count", "options"), [(3, ()), (2, ("--reveal", "token"))])
def test_tokens_on_ciphertexts(
    count: int,
    options: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command asks on the toy ring: client and server on files, keys once, a request a token. Where the
    token alone is revealed, what is decrypted is one word and zeros."""
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    folder, texts, report = toy_files(tmp_path)
    main_ = ["generate", ASKED[0], "--model", str(folder), "--max-tokens", str(count)]
    on = ["--scheme", "thor", "--backend", "ckks", "--preset", RING, "--tokens", str(TOKENS), *options]
    assert main([*main_, *on, "--texts", str(texts), "--json", str(report)]) == 0
    wanted = [token.id for token in tacita.generate(ASKED[0], model=folder, max_tokens=count)]
    found = json.loads(report.read_text())
    assert found["tokens"] == wanted and found["trusted"]
    assert f"thor: {count} x" in capsys.readouterr().err


@pytest.mark.parametrize("make", [llama, gpt2])
def test_logits_of_a_batch(make: Make) -> None:
    """On columns, as many texts as lanes hold, each with a length of its own."""
    model = make()
    found = planned(model, scheme="arion")
    answers = classify_batch_locally(found, model, ASKED, backend="sim")
    for text, answer in zip(ASKED, answers, strict=True):
        wanted = logits(model, tokenize(model, text)[0])[-1]
        assert answer.trusted and np.abs(answer.vector - wanted).max() < near(found)


def test_a_reach_that_keeps_nothing_from_the_query() -> None:
    square = (TOKENS, TOKENS)
    behind = Positional(visible=reach_mask(square, BEHIND))
    assert behind.seen_first is None and Positional().seen_first is None
    assert Positional(visible=reach_mask(square, (2, 2))).seen_first is not None


def test_a_plan_with_rows_as_they_are_is_refused(plan: Plan) -> None:
    front = plan.model.embeddings
    assert front is not None and front.backwards and plan.backwards
    turned = replace(plan, model=replace(plan.model, embeddings=replace(front, backwards=False)))
    with pytest.raises(FileError, match="rows in reverse"):
        parse(turned.to_text(), "plan", plan.salt)
    other = replace(plan, model=replace(plan.model, pooling="last"))
    with pytest.raises(FileError, match="rows in reverse"):
        require_circuit(other)


@pytest.mark.native
def test_steps_on_two_folders(tmp_path: Path) -> None:
    """The client has the public folder alone, the server no key; the answer is the float model's token."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    (tmp_path / "model").mkdir()
    folder, texts, report = folder_of(tmp_path / "model", 2), tmp_path / "texts.txt", tmp_path / "report.json"
    texts.write_text("\n".join(TEXTS))
    server, client, public = (tmp_path / name for name in ("server", "client", "public"))
    model = ["--model", str(folder)]
    here, there = ["--work", str(server)], ["--work", str(client), "--public", str(public)]
    ring = ["--tokens", str(TOKENS), "--preset", RING, "--texts", str(texts)]
    assert main(["plan", *model, *here, *ring]) == 0
    assert main(["publish", *model, *here, "--planned", "--output", str(public)]) == 0
    assert main(["keygen", *there, "--allow-insecure"]) == 0
    assert main(["encrypt", ASKED[0], *there, "--allow-insecure"]) == 0
    for name in ("evaluation.keys", "request.ct"):
        (server / name).write_bytes((client / name).read_bytes())
    assert main(["evaluate", *model, *here, "--allow-insecure"]) == 0
    (client / "response.ct").write_bytes((server / "response.ct").read_bytes())
    assert main(["decrypt", *there, "--allow-insecure", "--json", str(report)]) == 0
    wanted = logits(llama(), tokenize(llama(), ASKED[0])[0])[-1]
    assert json.loads(report.read_text())["token"] == int(wanted.argmax())
