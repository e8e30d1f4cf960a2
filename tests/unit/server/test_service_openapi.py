"""Whatever its description allows, and what it does not: the service answers as it says, and never fails.

Calls are made up by schemathesis from `/openapi.json`, valid ones and others, and given to the application in
this process: the same ones in every run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from schemathesis import APIOperation, Case, GenerationMode, openapi
from schemathesis.specs.openapi.checks import positive_data_acceptance
from service_world import KEY, MODEL, SCHEME, World, world

from tacita.plans import wire

VALID, INVALID = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
SETTINGS = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    data = tmp_path_factory.mktemp("openapi") / "data"
    with pytest.MonkeyPatch.context() as patch, world(data, patch, address_per_minute=10**6) as found:
        yield found


def operations(there: World, **known: list[str]) -> list[APIOperation]:
    """Those that can be called otherwise than in one way. known: values of parameters by name, which made-up
    ones would never hit."""
    document = there.call("GET", "/openapi.json").json()
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in known:
                    parameter["schema"] = {"enum": known[parameter["name"]]}
    return [each.ok() for each in openapi.from_dict(document).get_all_operations()]


def attack(there: World, operation: APIOperation, mode: GenerationMode) -> list[int]:
    """Statuses of made-up calls, each of whose answers was as described."""
    seen: list[int] = []

    @SETTINGS
    @given(operation.as_strategy(generation_mode=mode))
    def call(case: Case) -> None:
        how = case.as_transport_kwargs(base_url="https://test")
        method, url, body = how["method"], how["url"], how.get("data")
        answer = there.call(method, url, params=how["params"], headers=how["headers"], content=body)
        note(f"{method} {url} {answer.status_code}")
        seen.append(answer.status_code)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert wire.Problem.model_validate_json(answer.content).status == answer.status_code
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])  # files have a form

    call()
    return seen


def test_made_up_calls_are_answered_as_described(there: World) -> None:
    seen = [status for operation in operations(there) for status in attack(there, operation, VALID)]
    assert {200, 403, 404} <= set(seen)


def test_calls_that_are_not_allowed_are_refused_as_described(there: World) -> None:
    taking = [each for each in operations(there) if each.definition.raw.get("parameters")]
    seen = [status for operation in taking for status in attack(there, operation, INVALID)]
    assert 422 in seen


def test_calls_of_what_there_is_are_answered_as_described(there: World) -> None:
    """Keys, a request and its answer are there, and each path finds them."""
    assert there.put_keys().status_code == 201
    ids = [there.post().json()["id"] for _ in range(2)]
    there.pool.answer(ids[0])
    known = {"model": [MODEL], "scheme": [SCHEME], "key": [KEY], "id": [*ids, KEY]}
    seen = {each.label: attack(there, each, VALID) for each in operations(there, **known) if kept(each)}
    assert {200, 304} & set(seen["GET /v1/models/{model}/public"])
    assert 200 in seen["GET /v1/keys/{id}"] and 200 in seen["GET /v1/requests/{id}"]
    assert {200, 409} == {*seen["GET /v1/requests/{id}/response"]} - {404}
    assert {400, 413, 422} & {*seen["PUT /v1/keys/{id}"]} and {400, 422} & {*seen["POST /v1/requests"]}


def kept(operation: APIOperation) -> bool:
    """Whether it leaves what there is, and ends by itself: a request that waits has events for ever."""
    return operation.method != "delete" and not operation.path.endswith("/events")
