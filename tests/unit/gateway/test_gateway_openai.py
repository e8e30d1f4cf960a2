"""The gateway as the package `openai` uses it, and what crosses the wire behind it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import openai
import pytest
from gateway_world import MODELS, PAIRS, SECONDS, TEXTS, World, vector_of, world

import tacita
from tacita.api import reference_logits

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
PROMPT = "a fine film"


@pytest.fixture(scope="module")
def served() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def client(served: World) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0) as made:
        yield made


def floats(prompt: str, count: int) -> str:
    return "".join(
        t.text for t in tacita.generate(prompt, model=MODELS["decoder"], max_tokens=count, backend="plain")
    )


def test_models_are_listed_by_name(client: openai.OpenAI) -> None:
    assert [each.id for each in client.models.list()] == [*MODELS]
    assert client.models.retrieve("encoder").object == "model"
    with pytest.raises(
        openai.NotFoundError, match="no model 'nope'; the models are: encoder, ranker, decoder"
    ):
        client.models.retrieve("nope")


def test_embeddings_are_those_of_the_float_model(client: openai.OpenAI, served: World) -> None:
    answer = client.embeddings.create(model="encoder", input=TEXTS[:2])  # base64, as the package asks for
    plain = client.embeddings.create(model="encoder", input=TEXTS[0], encoding_format="float")
    for row, text in zip(answer.data, TEXTS, strict=False):
        cosine = np.array(row.embedding) @ vector_of(served.plans["encoder"], MODELS["encoder"], text)
        assert cosine / np.linalg.norm(row.embedding) > 0.999
    assert [row.index for row in answer.data] == [0, 1]
    assert plain.data[0].embedding == pytest.approx(answer.data[0].embedding, abs=0.01)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 5 + 6


def test_a_chat_is_answered_whole_and_as_a_stream(client: openai.OpenAI) -> None:
    messages: Any = [
        {"role": "system", "content": "a fine"},
        {"role": "user", "content": [{"type": "text", "text": "film"}]},
    ]
    whole = client.chat.completions.create(model="decoder", messages=messages, max_completion_tokens=2)
    (choice,) = whole.choices
    assert choice.message.content == floats("a fine\nfilm", 2) and choice.message.role == "assistant"
    assert whole.usage and (whole.usage.completion_tokens, choice.finish_reason) == (2, "length")
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, usage = client.chat.completions.create(
        model="decoder", messages=messages, max_tokens=2, **options
    )
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == choice.message.content
    assert [chunk.choices[0].delta.role for chunk in chunks[:2]] == ["assistant", None]
    assert chunks[-1].choices[0].finish_reason == "length" and usage.usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1 and len(chunks) == 3


def test_completions_stop_before_a_text_and_take_several_prompts(client: openai.OpenAI) -> None:
    text = floats(PROMPT, 4)
    stop = text.split()[2]
    found = client.completions.create(model="decoder", prompt=PROMPT, max_tokens=4, stop=stop, seed=1)
    assert (found.choices[0].text, found.choices[0].finish_reason) == (text[: text.index(stop)], "stop")
    two = client.completions.create(model="decoder", prompt=[PROMPT, "the plot"], max_tokens=1)
    assert [(c.index, c.text) for c in two.choices] == [(0, floats(PROMPT, 1)), (1, floats("the plot", 1))]
    drawn = client.completions.create(model="decoder", prompt=PROMPT, max_tokens=1, temperature=1.5)
    assert drawn.usage and drawn.usage.completion_tokens == 1


def test_documents_are_ranked(served: World) -> None:
    body: Any = {"model": "ranker", "query": PROMPT, "documents": [TEXTS[1], {"text": TEXTS[3]}], "top_n": 2}
    answer = httpx2.post(f"{served.url}/v1/rerank", json=body, timeout=SECONDS).json()
    assert "results" in answer, answer
    logits = [
        reference_logits(served.plans["ranker"], MODELS["ranker"], (PROMPT, TEXTS[i]))[0] for i in (1, 3)
    ]
    assert [row["index"] for row in answer["results"]] == list(np.argsort(-np.array(logits)))
    for row in answer["results"]:
        assert row["relevance_score"] == pytest.approx(1 / (1 + np.exp(-logits[row["index"]])), abs=0.02)
        assert row["document"]["text"] == TEXTS[(1, 3)[row["index"]]]
    body |= {"documents": [TEXTS[1]], "return_documents": False}
    for path in ("/v2/rerank", "/rerank"):
        (row,) = httpx2.post(f"{served.url}{path}", json=body, timeout=SECONDS).json()["results"]
        assert row["index"] == 0 and set(row) == {"index", "relevance_score"}


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("completions", {"prompt": "a", "n": 2}, "n: not offered here"),
    ("completions", {"prompt": "a", "logprobs": 3}, "logprobs: not offered here"),
    ("completions", {"prompt": "a", "extra_body": {"temprature": 1}}, "did you mean temperature?"),
    (
        "completions",
        {"prompt": "a", "temperature": 1.0, "seed": 7},
        "a seed with a server (the server draws the token)",
    ),
    ("completions", {"prompt": "a", "temperature": 99.0}, "a temperature from 0 to 8"),
    ("completions", {"prompt": "a", "max_tokens": 500}, "ask for fewer tokens"),
    ("completions", {"prompt": ""}, "the text is empty"),
    ("completions", {"prompt": [1, 2]}, "check_embedding_ctx_length=False"),
    ("chat.completions", {"messages": []}, "messages: List should have at least 1 item"),
    ("chat.completions", {"messages": [{"role": "tool", "content": "a"}]}, "messages.0.role"),
    ("embeddings", {"input": "a", "dimensions": 5}, "dimensions: the model gives 16"),
    ("embeddings", {"input": ["a " * 40]}, "the text has 42 tokens"),
    ("embeddings", {"input": []}, "input: Value should have at least 1 item"),
]


@pytest.mark.parametrize(("call", "options", "message"), BAD, ids=[message for _, _, message in BAD])
def test_what_cannot_be_is_a_bad_request(
    client: openai.OpenAI, call: str, options: dict[str, Any], message: str
) -> None:
    model = "encoder" if call == "embeddings" else "decoder"
    target: Any = client
    for part in call.split("."):
        target = getattr(target, part)
    for more in ({}, {"stream": True}) if call != "embeddings" else ({},):
        with pytest.raises(openai.BadRequestError) as caught:
            target.create(model=model, **options, **more)
        assert message in str(caught.value) and caught.value.code == "invalid_value"


def test_a_model_of_another_kind_and_an_unknown_name_are_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="answers with a vector, not the token that comes next"):
        client.completions.create(model="encoder", prompt=PROMPT)
    with pytest.raises(openai.NotFoundError) as caught:
        client.embeddings.create(model="text-embedding-3-small", input=PROMPT)
    assert caught.value.code == "model_not_found" and caught.value.param == "model"


def test_a_reader_that_leaves_ends_the_text_and_the_next_is_answered(
    client: openai.OpenAI, served: World
) -> None:
    with client.completions.create(model="decoder", prompt=PROMPT, max_tokens=20, stream=True) as stream:
        first = next(stream).choices[0].text
    found = client.completions.create(model="decoder", prompt=PROMPT, max_tokens=1)
    assert found.choices[0].text == first == floats(PROMPT, 1)


def test_the_wire_behind_the_gateway_has_neither_texts_nor_answers(
    client: openai.OpenAI, served: World
) -> None:
    secret, pair = "never boring , very good", PAIRS[3]
    answer = client.embeddings.with_raw_response.create(model="encoder", input=secret)
    vector, raw = answer.parse().data[0].embedding, answer.text
    text = client.completions.create(model="decoder", prompt=secret, max_tokens=3).choices[0].text
    body = {"model": "ranker", "query": pair[0], "documents": [pair[1]]}
    httpx2.post(f"{served.url}/v1/rerank", json=body, timeout=SECONDS).raise_for_status()
    crossed = served.crossed()
    assert len(crossed) > 100_000
    for plan in served.plans.values():  # what the servers publish is there, so that the tap is one
        assert (
            plan.hash.encode() in crossed or bytes.fromhex(plan.hash) in crossed or plan.to_bytes() in crossed
        )
    ids = MODELS["encoder"].tokenizer.encode(secret).ids  # type: ignore[union-attr]
    hidden = [secret.encode(), *(part.encode() for part in pair), text.strip().encode(), raw.encode()]
    hidden += [np.array(vector, kind).tobytes() for kind in ("<f4", "<f8")]
    hidden += [base64.b64encode(np.array(vector, "<f4").tobytes())]
    hidden += [np.array(ids, kind).tobytes() for kind in ("<u2", "<u4", "<u8")]
    assert not [each for each in hidden if each in crossed]


def test_the_log_has_no_word_of_anybody(client: openai.OpenAI, served: World) -> None:
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="decoder-of-my-secret-project", prompt=PROMPT)
    httpx2.get(f"{served.url}/v1/models/secret")
    httpx2.get(f"{served.url}/secret?secret=secret")
    assert served.log[-1].startswith("GET (no path) 404, ")
    assert not [line for line in served.log if "secret" in line or PROMPT in line]
    assert any(line.startswith("POST /v1/completions 200, ") for line in served.log)
    assert not [line for line in served.log if line.startswith("defect")]


def test_a_server_that_is_gone_is_no_fault_of_the_caller(served: World) -> None:
    served.wires["ranker"].close()
    body = {"model": "ranker", "query": PROMPT, "documents": ["a"]}
    answer = httpx2.post(f"{served.url}/v1/rerank", json=body, timeout=SECONDS)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (502, "server_error", "server_unreachable")
