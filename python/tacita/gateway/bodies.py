"""The JSON bodies of OpenAI's API that the gateway takes. An option that would change an answer and that a
private model does not have is refused, so that nobody believes it was obeyed."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tacita.texts.embedding import Embedder
from tacita.texts.generation import TOKENS, Choice, TextOptions

TEXTS, DOCUMENTS, STOPS = 2048, 1000, 4  # of one call, as OpenAI and Cohere bound them
# Options with the one value that changes nothing, beside null; and those that never change an answer
NEUTRAL: dict[str, object] = {
    **{"n": 1, "best_of": 1, "top_p": 1, "echo": False, "logprobs": False, "top_logprobs": 0},
    **{"presence_penalty": 0, "frequency_penalty": 0, "logit_bias": {}, "suffix": "", "tools": []},
    **{"functions": [], "tool_choice": "none", "response_format": {"type": "text"}, "modalities": ["text"]},
}
IGNORED = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "task"}
FORM, BEGIN = "<|im_start|>{}\n{}<|im_end|>\n", "<|im_start|>assistant\n"  # ChatML, of Qwen and SmolLM2


def _texts(given: Any) -> Any:
    if isinstance(given, list) and any(isinstance(one, int | list) for one in given):
        raise ValueError(
            "token numbers are another tokenizer's: send texts (check_embedding_ctx_length=False)"
        )
    return [given] if isinstance(given, str) else given or []


def _content(given: Any) -> Any:
    if isinstance(given, list) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in given
    ):
        return "".join(str(part.get("text")) for part in given)
    return given


Texts = Annotated[list[str], BeforeValidator(_texts), Field(min_length=1, max_length=TEXTS)]
Text = Annotated[str, Field(min_length=1)]
Stops = Annotated[tuple[Text, ...], BeforeValidator(_texts), Field(max_length=STOPS)]
Document = Annotated[
    str, BeforeValidator(lambda given: given.get("text") if isinstance(given, dict) else given)
]
Positive = Annotated[int, Field(ge=1)]


class Body(BaseModel):
    """What every call has. model: a name of the server's; empty where it has only one that would do."""

    model_config = ConfigDict(extra="allow")
    model: str = ""

    @model_validator(mode="after")
    def refuse_others(self) -> Self:
        """Raises ValueError for an option that would change the answer, or that OpenAI does not have."""
        for name, value in (self.model_extra or {}).items():
            if name in NEUTRAL and value not in (None, NEUTRAL[name]):
                raise ValueError(f"{name}: not offered here; leave it out")
            if name not in NEUTRAL and name not in IGNORED:
                near = get_close_matches(name, [*type(self).model_fields, *NEUTRAL], 1)
                raise ValueError(f"{name}: no such option" + (f"; did you mean {near[0]}?" if near else ""))
        return self


class Embeddings(Body):
    """POST /v1/embeddings."""

    input: Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


class Rerank(Body):
    """POST /v1/rerank, as Cohere, Jina and vLLM have it."""

    query: str
    documents: Annotated[list[Document], Field(min_length=1, max_length=DOCUMENTS)]
    top_n: Positive | None = None
    return_documents: bool = True


class Writing(Body):
    """What completions of both kinds have. temperature: 0 by default, where OpenAI has 1. top_k: vLLM's."""

    max_tokens: Positive | None = None
    temperature: Annotated[float, Field(ge=0.0)] | None = None
    top_k: Annotated[int, Field(ge=0)] = 0
    seed: int | None = None
    stop: Stops = ()
    stream: bool = False
    stream_options: dict[str, bool] | None = None
    max_completion_tokens: Positive | None = None

    def options(self, room: int) -> TextOptions:
        """Returns how a text is written; a seed counts where tokens are drawn. room: tokens that fit behind
        the prompt."""
        most = self.max_tokens or self.max_completion_tokens or max(1, min(TOKENS, room))
        seed = self.seed if self.temperature else None
        return TextOptions(most, self.stop, Choice(self.temperature or 0.0, self.top_k, seed))


class Completion(Writing):
    """POST /v1/completions."""

    prompt: Texts


class Message(BaseModel):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_content)]


class Chat(Writing):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=TEXTS)]


def prompts_of(body: Chat | Completion, front: Embedder) -> list[str]:
    """Returns the prompts. Messages are one: in ChatML where the model knows its marks; else their contents,
    one a line."""
    if isinstance(body, Completion):
        return body.prompt
    if front.tokenizer is None or front.tokenizer.token_to_id("<|im_start|>") is None:
        return ["\n".join(each.content for each in body.messages)]
    turns = [(each.role.replace("developer", "system"), each.content) for each in body.messages]
    return ["".join(FORM.format(*turn) for turn in turns) + BEGIN]


def reason_of(problems: Sequence[Any]) -> tuple[str, str]:
    """Returns what is wrong with a body, and the option that it is about. problems: pydantic's."""
    words = str(problems[0]["msg"]).removeprefix("Value error, ")
    where = ".".join(str(part) for part in problems[0]["loc"] if part != "body")
    return (f"{where}: {words}", where.partition(".")[0]) if where else (words, words.partition(":")[0])
