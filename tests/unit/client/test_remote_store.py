"""What is kept of services: where, with which rights, and what becomes of what others wrote there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tacita.client.http.trust import address_of
from tacita.client.offers import choose, seconds_of
from tacita.client.store import About, PlanFolder, ServerFolder, Store, data_folder
from tacita.errors import FileError, InputError, PeerError
from tacita.plans.wire import Model, Models, Offer

ADDRESS = address_of("https://models.example.org:8443")
SIGNER, PLAN = "a" * 64, "b" * 64
ABOUT = About("toy", "thor", PLAN, "c" * 32, "2026-01-01T00:00:00+00:00")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_and_files_are_the_owners_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "data")
    store.ready()
    server = store.server(ADDRESS)
    server.meet(ADDRESS.url, SIGNER)
    server.plan(PLAN).write_about(ABOUT)
    with server.plan(PLAN).request_folder() as folder:
        assert folder.secret_key == server.plan(PLAN).secret_key and folder.request.parent == folder.path
        assert folder.path.parent == server.plan(PLAN).path
        paths = [store.root, *store.root.rglob("*")]
        assert len(paths) == 8
        assert {mode(path) for path in paths if path.is_dir()} == {0o700}
        assert {mode(path) for path in paths if path.is_file()} == {0o600}
    assert not folder.path.exists()
    assert server.path == tmp_path / "deep" / "data" / "servers" / "models.example.org_8443"
    assert server.plan(PLAN).path.name == PLAN[:16]


def test_a_folder_that_others_could_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "data" / "servers").mkdir(parents=True, mode=0o755)
    Store(tmp_path / "data").ready()
    assert mode(tmp_path / "data") == mode(tmp_path / "data" / "servers") == 0o700


def test_the_default_is_of_the_users_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "tacita"
    for other in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", other)
        assert data_folder() == Path.home() / ".local" / "share" / "tacita"


def test_the_first_signer_is_kept_and_another_refused(tmp_path: Path) -> None:
    server = ServerFolder(tmp_path / "one")
    server.meet(ADDRESS.url, SIGNER)
    server.meet(ADDRESS.url, SIGNER)
    with pytest.raises(PeerError, match="signs with key dddd") as caught:
        server.meet(ADDRESS.url, "d" * 64)
    assert "d" * 64 in caught.value.hint and f"tacita keys forget {ADDRESS.url}" in caught.value.hint
    assert server.record == {"url": ADDRESS.url, "signer": SIGNER}
    assert server.forget() and not server.forget()
    server.meet(ADDRESS.url, "d" * 64)
    assert server.record == {"url": ADDRESS.url, "signer": "d" * 64}


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '{"url": 1, "signer": ""}', "\0", "x" * 70_000])
def test_damaged_files_are_told(text: str, tmp_path: Path) -> None:
    server = ServerFolder(tmp_path)
    (tmp_path / "server.json").write_text(text)
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "about.json").write_text(text)
    with pytest.raises(FileError, match=r"server\.json: damaged"):
        server.meet(ADDRESS.url, SIGNER)
    with pytest.raises(FileError, match=r"about\.json: damaged"):
        _ = server.plans[0].about


def test_keys_are_told_of_and_removed(tmp_path: Path) -> None:
    folder = ServerFolder(tmp_path).plan(PLAN)
    assert folder.about is None and ServerFolder(tmp_path).plans == []
    folder.write_about(ABOUT)
    folder.secret_key.write_bytes(b"1234")
    (found,) = ServerFolder(tmp_path).plans
    assert isinstance(found, PlanFolder) and found.about == ABOUT
    assert found.size == 4 + len(json.dumps(asdict(ABOUT), indent=1)) + 1
    found.remove()
    assert not found.path.exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be made"):
        Store(tmp_path / "file" / "data").ready()


def test_auto_is_the_offer_that_answers_so_many_texts_soonest() -> None:
    def offer(scheme: str, batch: int, seconds: float, keygen: float = 0.0, keys: int = 0) -> Offer:
        found = {"scheme": scheme, "plan": PLAN, "connected": False, "tokens": 16, "batch": batch}
        once = {"keygen_seconds": keygen, "keys_bytes": keys}
        return Offer.model_validate({**found, **once, "seconds": seconds})

    offers = (offer("thor", 1, 10.0, 10.0), offer("arion", 100, 60.0, 20.0), offer("bumblebee", 1, 12.0))
    model = Model(name="one", task="text", labels=("a", "b"), offers=offers)
    found = Models(release="1", signer=SIGNER, models=(model,))
    schemes = [choose(found, ["classify"], None, "auto", texts)[1].scheme for texts in (1, 4, 7, 150)]
    assert schemes == ["bumblebee", "bumblebee", "thor", "arion"]
    assert seconds_of(offers[1], 101) == 20.0 + 2 * 60.0
    assert seconds_of(offers[1], 101, tokens=3) == 20.0 + 3 * 2 * 60.0  # each token is a request
    assert seconds_of(offer("moai", 1, 0.0, 0.0, 10**9), 1) == 8.0
    text = (
        offers[0],
        offers[2].model_copy(update={"token_seconds": 1.0, "connected": True, "seconds": 25.0}),
    )
    writer = Models(
        release="1", signer=SIGNER, models=(model.model_copy(update={"task": "next", "offers": text}),)
    )
    schemes = [choose(writer, ["generate"], None, "auto", 1, tokens)[1].scheme for tokens in (1, 2)]
    assert schemes == ["thor", "bumblebee"]  # 20 s or 25 s of a prompt, then 10 s or 1 s a token


def test_rows_are_kept_where_that_is_asked_for_alone() -> None:
    """A server of before tells of none, and so does an offer that keeps none; a client of before takes it."""
    common = {"plan": PLAN, "tokens": 16, "batch": 1, "seconds": 1.0}
    kept, two = (
        Offer.model_validate({"scheme": scheme, "connected": scheme != "thor", **common})
        for scheme in ("thor", "bumblebee")
    )
    kept = kept.model_copy(update={"kept_bytes": 9, "kept_seconds": 1.0})
    assert "kept_bytes" in kept.model_dump_json() and "kept" not in two.model_dump_json()
    alone = two.model_copy(update={"task": "choice"}).model_dump_json()
    assert Offer.model_validate_json(alone).task == "choice" and "task" not in two.model_dump_json()

    def chosen(offers: tuple[Offer, ...], scheme: str | None, cache: bool) -> str:
        models = Models(release="1", signer=SIGNER, models=(Model(name="w", task="next", offers=offers),))
        return choose(models, ["generate"], None, scheme, cache=cache)[1].scheme

    for scheme in (None, "auto"):
        assert [chosen((kept, two), scheme, cache) for cache in (False, True)] == ["bumblebee", "thor"]
        assert chosen((kept,), scheme, False) == "thor"  # whose plan is refused then
    for offers, named in [((two,), None), ((kept, two), "bumblebee")]:
        with pytest.raises(InputError, match="keeps no rows of texts"):
            chosen(offers, named, True)


@pytest.mark.parametrize(
    ("problem", "suits"),
    [
        ("single_label", {"classify"}),
        ("multi_label", {"classify"}),
        ("search", {"search"}),
        ("dreams", set[str]()),
        ("", {"classify", "search"}),  # a server of before, whose plan tells
    ],
)
def test_a_search_is_told_from_labels_before_a_plan_is_fetched(problem: str, suits: set[str]) -> None:
    told = {"scheme": "thor", "plan": PLAN, "connected": False, "batch": 1, "tokens": 16, "seconds": 1.0}
    model = Model(
        name="one", task="text", problem=problem, labels=("a", "b"), offers=(Offer.model_validate(told),)
    )
    found = Models(release="1", signer=SIGNER, models=(model,))
    for verb in ("classify", "search", "embed"):
        if verb in suits:
            assert choose(found, [verb], "one", None)[0] == model
        else:
            with pytest.raises(InputError, match=f"{verb}: the model answers with"):
                choose(found, [verb], "one", None)


def test_a_model_is_the_only_one_or_named() -> None:
    def model(name: str, task: str = "text", labels: tuple[str, ...] = ("a", "b"), schemes: int = 2) -> Model:
        offers = [
            Offer(scheme=scheme, plan=PLAN, connected=False, batch=1, tokens=16, seconds=1.0)
            for scheme in ("thor", "arion")[:schemes]
        ]
        return Model(name=name, task=task, labels=labels, offers=tuple(offers))

    def models(*each: Model) -> Models:
        return Models(release="1", signer=SIGNER, models=each)

    both = models(model("one"), model("vectors", labels=()), model("tags", "tokens"), model("new", "dreams"))
    assert [choose(both, [verb], None, None)[0].name for verb in ("classify", "embed", "tag", "search")] == [
        "one", "vectors", "tags", "one",
    ]  # fmt: skip
    assert choose(both, ["classify"], "one", "arion")[1].scheme == "arion"
    assert choose(both, ["classify", "embed"], "vectors", None)[1].scheme == "thor"
    for verbs, name, match in (
        (["fill"], None, "no model of the server"),
        (["tag"], "new", "something that this release does not know"),
        (["classify"], "none", "no model 'none'"),
        (["classify", "embed"], None, "2 models of the server"),
    ):
        with pytest.raises(InputError, match=match):
            choose(both, verbs, name, None)
    with pytest.raises(InputError, match="no model of the server"):
        choose(models(model("empty", schemes=0)), ["classify"], None, None)
