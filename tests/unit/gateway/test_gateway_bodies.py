"""What a body of OpenAI's API may say, and how messages become a prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError
from random_checkpoint import make_tokenizer
from tiny_decoders import llama

from tacita.gateway.bodies import NEUTRAL, Chat, Completion, Embeddings, Rerank, prompts_of, reason_of

SAID = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": " you"}]},
]


@pytest.mark.parametrize(
    ("stop", "texts"), [(None, ()), ([], ()), (".", (".",)), (["a", "b"], ("a", "b"))], ids=str
)
def test_a_text_ends_at_one_text_or_several(stop: Any, texts: tuple[str, ...]) -> None:
    assert Completion(prompt=["a"], stop=stop).options(9).stop == texts


def test_the_most_tokens_have_two_names_and_a_default_that_fits() -> None:
    assert Completion(prompt=["a"], max_tokens=7).options(3).max_tokens == 7
    assert Completion(prompt=["a"], max_completion_tokens=5).options(3).max_tokens == 5
    assert [Completion(prompt=["a"]).options(room).max_tokens for room in (500, 20, 0)] == [64, 20, 1]


def test_what_changes_nothing_passes() -> None:
    Completion.model_validate({"prompt": "a", **NEUTRAL, "user": "me", "metadata": {"a": "b"}})
    Completion.model_validate({"prompt": "a", **dict.fromkeys(NEUTRAL), "max_tokens": None, "seed": 3})
    assert Embeddings.model_validate({"input": "a"}).input == ["a"]
    assert Rerank.model_validate({"query": "a", "documents": [{"text": "b"}, "c"]}).documents == ["b", "c"]


@pytest.mark.parametrize("name", NEUTRAL)
def test_what_would_change_the_answer_is_named(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Completion.model_validate({"prompt": "a", name: "another value"})
    assert reason_of(caught.value.errors()) == (f"{name}: not offered here; leave it out", name)


@pytest.mark.parametrize(
    "content", [{"type": "image_url"}, [{"type": "image_url", "image_url": "x"}], None, 3]
)
def test_a_message_is_text(content: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Chat.model_validate({"messages": [{"role": "user", "content": content}]})
    assert reason_of(caught.value.errors())[1] == "messages"


def test_messages_are_written_in_the_form_that_the_model_knows() -> None:
    chat, model = Chat.model_validate({"messages": SAID}), llama(layers=1)
    assert prompts_of(chat, model) == ["Be brief.\nHello you"]
    tokenizer = make_tokenizer(41)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    (prompt,) = prompts_of(chat, replace(model, tokenizer=tokenizer))
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello you<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
