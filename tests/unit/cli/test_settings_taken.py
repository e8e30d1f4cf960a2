"""Which settings each command takes, and that none is passed over that means something to it: a key that a
command does not take has no effect there, and nobody is told."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_cli import SMALL, run

from tacita.cli import demo, estimate, plan, recheck
from tacita.cli.ask import accuracy, choose, generate, remote, tasks
from tacita.cli.options import plan_request, read_settings
from tacita.cli.service import gateway, https, serve
from tacita.client import connected
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError
from tacita.generation import generate as generation
from tacita.plans.commitment import LinkSpeed
from tacita.settings import PlanOptions, ServiceOptions, TwoPartyOptions

DECODERS = {"begin", "reveal", "gap", "cache"}
SEARCHED = {"documents", "nearest", "titles"}
OF_SEVERAL = {"inputs", "objective"}  # which shape a batch, or decide between schemes
# Keys of [plan] that mean nothing to a command.
PASSED_OVER: dict[str, tuple[Callable[..., None], set[str]]] = {
    "plan": (plan.run, set()),
    "publish": (plan.publish, set()),
    "estimate": (estimate.estimate, set()),
    "recheck": (recheck.run, set()),  # whose --record plans as `publish`
    "classify": (tasks.classify, {*DECODERS, "inputs", "documents", "titles"}),  # as many as it has texts
    "search": (tasks.search, {*DECODERS, "inputs", "titles"}),
    "accuracy": (accuracy.run, {*DECODERS, *SEARCHED}),
    "generate": (generate.run, {*SEARCHED, "pooling", "inputs", "objective"}),
    "choose": (choose.choose, {*SEARCHED, "scheme", "packing", "objective", "begin", "cache"}),
    "serve": (serve.run, {"objective", "link"}),  # its schemes are named, and [two_party] has the link
    "gateway": (
        gateway.run,  # of its own server, which is one of two parties
        {*SEARCHED, *OF_SEVERAL, "packing", "preset", "functions", "prices", "reveal", "gap", "cache"},
    ),
    "demo": (
        demo.demo,
        {*DECODERS, *SEARCHED, *OF_SEVERAL, "link"},
    ),
}


@pytest.mark.parametrize("name", PASSED_OVER)
def test_a_command_takes_every_key_of_a_plan_that_means_something_to_it(name: str) -> None:
    command, others = PASSED_OVER[name]
    taken: dict[str, Any] = command.taken  # type: ignore[attr-defined]
    assert set(PlanOptions.model_fields) - set(taken["plan"]) == others


def test_a_server_takes_every_key_that_is_for_it() -> None:
    taken: dict[str, Any] = serve.run.taken  # type: ignore[attr-defined]
    assert set(taken["service"]) == set(ServiceOptions.model_fields)
    assert set(taken["two_party"]) == set(TwoPartyOptions.model_fields)


class Seen(InputError):
    """Ends a command at what the test looks at."""


def end(*given: Any, **more: Any) -> Any:
    raise Seen("seen", hint="")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes the file of settings of the current folder."""
    monkeypatch.chdir(tmp_path)
    yield lambda text: (tmp_path / "tacita.toml").write_text(text) and None


def test_accuracy_measures_the_plan_that_the_settings_describe(
    settings: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.tsv").write_text("sentence\tlabel\na fine film\t1\n")
    settings("[plan]\nfunctions = 'thor'\nprices = 'shipped'\n[run]\nmemory = 3.0\n")
    seen: list[Any] = []
    monkeypatch.setattr(accuracy, "planned", lambda model, request: seen.append(request) or end())
    status, _, err = run("accuracy", "--data", "data.tsv", *SMALL)
    assert status == 2 and "error: seen" in err, err
    assert (seen[0].functions, seen[0].prices is None) == ("thor", False)
    status, _, err = run("accuracy", "--data", "data.tsv", "--backend", "ckks", *SMALL)
    assert status == 2 and "128 are required" in " ".join(err.split()) and len(seen) == 1, err


def test_a_gap_in_a_file_counts_where_a_token_is_revealed() -> None:
    """Between logits that the client gets it is refused; a file is of several commands."""
    assert plan_request(PlanOptions.model_validate({"gap": 0.2})).gap == 0.1
    assert plan_request(PlanOptions.model_validate({"gap": 0.2, "reveal": "token"})).gap == 0.2


def test_the_demos_steps_get_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.toml").write_text("[plan]\nfunctions = 'thor'\n[run]\nallow_insecure = true\n")
    seen: list[Any] = []
    monkeypatch.setattr(demo.subprocess, "run", lambda *_, **how: seen.append(how["env"]) or end())
    status, _, err = run("demo", "--config", str(tmp_path / "s.toml"), "--tokens", "16", "--threads", "2")
    assert status == 2 and "error: seen" in err, err
    wanted = {
        "PLAN__FUNCTIONS": "thor",
        "PLAN__TOKENS": "16",
        "RUN__THREADS": "2",
        "RUN__ALLOW_INSECURE": "True",
    }
    assert {name: seen[0][f"TACITA_{name}"] for name in wanted} == wanted


CKKS = ["--scheme", "thor", "--backend", "ckks"]


def test_generate_plans_and_evaluates_by_the_settings(
    settings: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(
        "[plan]\nfunctions = 'thor'\npacking = 'rows'\nprices = 'shipped'\ngap = 0.2\n"
        "[run]\nthreads = 1\nmemory = 3.0\nallow_insecure = true\n"
    )
    seen: list[Any] = []
    stub = SimpleNamespace(batch=1, kept=())

    def planned(model: Any, request: Any, progress: Any) -> Any:
        seen.append(request)
        return SimpleNamespace(plan=stub)

    @contextmanager
    def asking(*given: Any, **options: Any) -> Iterator[Any]:
        seen.append(options)
        yield end()

    monkeypatch.setattr(generation, "choose_plan", planned)
    monkeypatch.setattr(generation, "Plan", SimpleNamespace)
    monkeypatch.setattr(generation, "cost_of", lambda plan, requests: SimpleNamespace(stage=""))
    monkeypatch.setattr(generation, "asking", asking)
    status, _, err = run("generate", "Emma", "--max-tokens", "2", *CKKS, *SMALL)
    assert status == 2 and "error: seen" in err, err
    request, place = seen
    assert (request.functions, request.packing, request.prices is None) == ("thor", "rows", False)
    assert (place["threads"], place["memory"], place["allow_insecure"]) == (1, 3.0, True)


def test_a_gateways_own_server_reads_vectors_as_the_settings_say(
    settings: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings("[plan]\npooling = 'mean'\n")
    seen: list[Any] = []
    monkeypatch.setattr(gateway, "load_model", lambda plan: seen.append(plan.pooling) or end())
    status, _, err = run("gateway", "--listen", "127.0.0.1:0")
    assert status == 2 and "error: seen" in err and seen == ["mean"], err


CONNECTED = ["--connect", "https://127.0.0.1:1"]
PORT = ["--connect", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["classify", "fine", *CONNECTED, "--tokens", "64"], "--tokens with --connect: the server decides"),
        (["embed", "fine", *PORT, "--preset", "n15"], "--preset with --connect"),
        (["classify", "fine", *PORT, "--backend", "sim"], "--backend with --connect"),
        (["classify", "fine", *PORT, "--texts", "none.txt"], "--texts with --connect"),
        (["classify", "fine", *PORT, "--model", "sst2-tiny"], "--model with --connect HOST:PORT"),
        (["classify", "fine", *PORT, "--scheme", "thor"], "--scheme with --connect HOST:PORT"),
        (["generate", "once", *CONNECTED, "--tokens", "64"], "--tokens with --connect"),
        (["generate", "once", *CONNECTED, "--reveal", "token", "--begin", "a"], "--begin, --reveal with"),
        (["generate", "once", *PORT, "--model", "a", "--cache"], "--model, --cache with --connect HOST:PORT"),
        (["gateway", *CONNECTED, "--model", "austen-tiny"], "--model with --connect: the server has its own"),
        (["estimate", "--plan", "p.json", "--tokens", "64"], "--tokens with --plan"),
        (["publish", "--planned", "--scheme", "leaf"], "--scheme with --planned"),
        (["recheck", "folder", "--tokens", "16"], "--tokens without --record"),
    ],
)
@pytest.mark.usefixtures("settings")
def test_an_option_that_a_command_has_no_use_for_is_refused(words: list[str], message: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "") and message in " ".join(err.split()), err


@pytest.mark.parametrize(
    "words",
    [["classify", "fine", *PORT], ["generate", "once", *PORT], ["gateway", "--listen", "127.0.0.1:0"]],
)
def test_a_scheme_of_a_file_is_not_passed_over_by_a_port(
    words: list[str], settings: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port has two parties alone, whose threats are others than those of ciphertexts; so has a gateway's
    own server, of which no plan is made then."""
    settings("[plan]\nscheme = 'thor'\n[network]\ninsecure_plain_tcp = true\n")
    monkeypatch.setattr(gateway, "load_model", end)
    status, _, err = run(*words)
    assert status == 2 and "[plan] scheme thor at a port (it has bumblebee alone)" in err, err


def test_keys_of_a_file_that_a_server_decides_are_for_other_commands(
    settings: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings("[plan]\ntexts = 'none.txt'\nreveal = 'token'\nbegin = 'a'\n[run]\nbackend = 'sim'\n")
    monkeypatch.setattr(generate, "_over_a_port", end)
    status, _, err = run("generate", "once", *PORT)
    assert status == 2 and "error: seen" in err, err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[service]\ninsecure_plain_tcp = true\nclient_ca = 'ca.pem'\n", "admits everybody"),
        ("[service]\nschemes = 'thor'\n", "[service] schemes is for --https"),
        ("[ray]\naddress = 'local'\n", "--ray without --https"),
        ("[service]\nhttps = '127.0.0.1:0'\ndata = 'd'\nport = 7\n", "[service] port is not for --https"),
        (
            "[service]\nhttps = '127.0.0.1:0'\ndata = 'd'\nclients_per_address = 1\n",
            "[service] clients_per_address is not for --https",
        ),
        (
            "[service]\nhttps = '127.0.0.1:0'\ndata = 'd'\n[two_party]\nmax_texts_per_key = 0\n",
            "[two_party] max_texts_per_key is not for --https",
        ),
        (
            "[service]\nhttps = '127.0.0.1:0'\ndata = 'd'\n[models.a]\ndocuments = 'd.txt'\n",
            "[models.a] documents is not for --https",
        ),
        ("[service]\nhttps = '127.0.0.1:0'\ndata = 'd'\nschemes = []\n", "serve: no schemes"),
        (
            "[service]\nhttps = '127.0.0.1:0'\ndata = 'd'\nschemes = 'bumblebee'\n[ray]\naddress = 'local'\n",
            "--ray: bumblebee answers over a connection",
        ),
    ],
)
def test_a_server_refuses_what_it_would_pass_over(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        https.require_serving(read_settings(tmp_path / "s.toml"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("plan_", "schemes", "wanted"),
    [
        ({"packing": "coefficients"}, ("leaf",), {"leaf": ("coefficients", False)}),
        (
            {"packing": "rows"},
            ("bumblebee", "thor"),
            {"bumblebee": (None, False), "thor": ("rows", False)},
        ),
        (
            {"cache": True},
            ("bumblebee", "thor"),
            {"bumblebee": (None, False), "thor": (None, True)},
        ),
    ],
)
def test_a_scheme_of_a_service_gets_what_it_has_of_a_plan(
    plan_: dict[str, Any], schemes: tuple[str, ...], wanted: dict[str, Any]
) -> None:
    from tacita.server.core.offers import request_under

    line = {"plan": {**plan_, "functions": "either"}, "two_party": {"bandwidth": 50.0}}
    settings = read_settings(line=line)
    request = https.request_for(settings, settings.plan, schemes)
    under = {scheme: request_under(request, scheme) for scheme in schemes}
    assert {name: (each.packing, each.cache) for name, each in under.items()} == wanted
    assert [(each.scheme, each.functions) for each in under.values()] == [(s, "either") for s in schemes]
    links = {name: each.link and each.link.bits_per_second for name, each in under.items()}
    assert links == {name: 5e7 if name == "bumblebee" else None for name in schemes}


@pytest.mark.parametrize(
    ("plan_", "schemes"),
    [({"packing": "coefficients"}, ("thor",)), ({"cache": True}, ("leaf",)), ({}, ("thorn",))],
)
def test_a_plan_that_no_scheme_of_a_service_has_is_refused(
    plan_: dict[str, Any], schemes: tuple[str, ...]
) -> None:
    settings = read_settings(line={"plan": plan_})
    with pytest.raises(InputError):
        https.request_for(settings, settings.plan, schemes)


def test_a_check_admits_a_service_that_keeps_rows_by_one_of_its_schemes(
    settings: Callable[[str], None],
) -> None:
    settings(
        "[service]\nhttps = '127.0.0.1:0'\ndata = 'served'\nnew_certificate = 'tls'\n"
        f"[plan]\ncache = true\nmodel = '{DEFAULT_DECODER.name}'\npreset = 'insecure_toy_n11'\n"
    )
    status, out, _ = run("serve", "--check")
    assert status == 0 and "thor is to be planned, bumblebee is to be planned" in out.replace("\n", " "), out


def test_documents_are_embedded_where_a_server_can_listen(
    settings: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d.txt").write_text("a fine film\n")
    monkeypatch.setattr(https, "load_model", end)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        at = f"127.0.0.1:{busy.getsockname()[1]}"
        settings(f"[service]\nhttps = '{at}'\ndata = 'd'\nschemes = 'bumblebee'\ninsecure_plain_tcp = true\n")
        status, _, err = run("serve", "--documents", "d.txt")
    assert status == 2 and f"cannot listen on {at}" in err, err


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("option", ["--output", "--index"])
def test_vectors_have_a_place_before_they_are_made(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.npy").mkdir()
    monkeypatch.setattr(tasks, "ask", end)
    status, _, err = run("embed", "fine", option, "v.npy")
    assert status == 2 and "v.npy: cannot be written (it is a folder)" in err, err


def test_a_service_is_told_the_link_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = read_settings(line={"plan": {"link": "100,20"}, "network": {"connect": CONNECTED[1]}})
    how, links = remote.how_of(options), list[LinkSpeed | None]()
    assert how["link"] == LinkSpeed(1e8, 0.02) and remote.how_of(read_settings())["link"] is None

    class Stub:
        def __init__(self, party: Any, cache: Any) -> None:
            self.plan = SimpleNamespace(hash="a" * 64)
            self.part = SimpleNamespace(plan=self.plan, front=None)

        def adapt(self, link: LinkSpeed | None) -> None:
            links.append(link)

    monkeypatch.setattr(connected, "TwoPartyClient", Stub)
    offer: Any = SimpleNamespace(plan="a" * 64)
    connected.Connected(lambda: cast(Any, None), offer, tmp_path, link=how["link"])
    assert links == [how["link"]]
