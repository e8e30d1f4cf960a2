"""What `deploy/` promises: no root, nothing writable but the data, pinned images, a command line that exists,
a board of metrics that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from tacita.cli.app import app
from tacita.cli.options import read_settings
from tacita.server.metrics import Metrics

DEPLOY = Path(__file__).parents[3] / "deploy"
sys.path.insert(0, str(DEPLOY))

from clean_root import dockerfile  # noqa: E402

BUILD, LAST = dockerfile.stages((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
LINTERS = {  # whatever of them is installed: npm's dockerfile-utils and dclint, Prometheus's own
    "dockerfile-utils": ["lint", str(DEPLOY / "Dockerfile")],
    "dclint": [str(DEPLOY / "compose.yaml")],
    "promtool check": ["config", "--syntax-only", str(DEPLOY / "prometheus.yml")],
    "promtool check rules": [str(DEPLOY / "alerts.yml")],
    "promtool test rules": [str(DEPLOY / "alerts_test.yml")],
}
PINNED = re.compile(r"[a-z/]+:v?\d+\.\d+\.\d+[a-z0-9.-]*@sha256:[0-9a-f]{64}|tacita:\d+\.\d+\.\d+")
HIDDEN = re.compile(r"[\w.-]*\.(?:token|key|pem)$")


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("program", LINTERS)
def test_a_linter_finds_nothing(program: str) -> None:
    words = program.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    found = subprocess.run([*words, *LINTERS[program]], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_image_is_built_elsewhere_and_runs_without_root() -> None:
    assert PINNED.fullmatch(LAST.base) and BUILD.base == LAST.base
    assert any("apt-get upgrade" in each.rest for each in LAST.instructions)
    words = [each.word for each in LAST.instructions]
    (user,) = (each.rest for each in LAST.instructions if each.word == "USER")
    assert user.isdigit() and int(user) > 0
    assert words.index("USER") < words.index("ENTRYPOINT") and "ADD" not in words
    assert not any("cargo" in each.rest or "build-essential" in each.rest for each in LAST.instructions)


def test_the_image_has_the_page() -> None:
    """It is built before the wheel, which takes it along."""
    runs = [each.rest for each in BUILD.instructions if each.word == "RUN"]
    (page,) = (at for at, each in enumerate(runs) if each == "make web")
    assert any("wasm32-unknown-unknown" in each for each in runs[:page])
    assert any("nodejs npm" in each for each in runs[:page])
    assert any("maturin build" in each for each in runs[page:])
    include = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["tool"]["maturin"]["include"]
    assert {"path": "python/tacita/data/web/*", "format": "wheel"} in include


def test_what_is_installed_is_pinned() -> None:
    text = " ".join(each.rest for each in BUILD.instructions if each.word == "RUN")
    assert "-r requirements/service.txt" in text and "--locked" in text
    assert all("==" in name for name in re.findall(r"pip install --no-cache-dir ([\w=.]+)", text))
    assert "| sh " not in text and text.count("curl ") == text.count("sha256sum --check") + 1  # by apt-get


def test_the_command_of_the_image_exists() -> None:
    last = dockerfile.settings(LAST)
    (program,), (command, *words), (volume,) = last.entrypoint, last.cmd, last.volumes
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    options = {name for parameter in parameters for name in parameter.opts}
    assert program == "tacita" and {word for word in words if word.startswith("--")} <= options
    data = words[words.index("--data") + 1]
    assert data.startswith(f"{volume}/")


def test_the_health_check_compiles_and_asks_what_is_served() -> None:
    words = dockerfile.settings(LAST).health
    compile(words[2], "health", "exec")
    assert "/readyz" in words[2] and words[:2] == ("python", "-c")


def test_an_instruction_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="ADD x y: not an instruction"):
        dockerfile.stages("FROM a\nADD x y\n")


@pytest.mark.parametrize(
    ("path", "out"),
    [
        (".git", True),
        ("target", True),
        ("python/tacita/_native.abi3.so", True),
        ("deploy/prometheus.token", True),
        ("crates/ring/src/lib.rs", False),
        ("python/tacita/data/models", False),
        ("web/node_modules", True),
        ("web/src/page.ts", False),
    ],
)
def test_secrets_and_what_is_built_do_not_get_into_an_image(path: str, out: bool) -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    assert dockerfile.left_out(ignored, PurePosixPath(path)) is out


@pytest.mark.parametrize("name", ["tacita", "prometheus", "grafana"])
def test_a_container_has_no_rights_that_it_does_not_need(name: str) -> None:
    service = compose()["services"][name]
    assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
    assert PINNED.fullmatch(service["image"])
    writable = [each for each in service["volumes"] if not each.endswith(":ro")]
    assert [each.partition(":")[0] for each in writable] == [name] and name in compose()["volumes"]
    assert service.get("read_only") or name == "grafana"
    assert service["pids_limit"] and service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_a_container_that_is_made_anew_has_its_names_and_descriptors() -> None:
    service = compose()["services"]["tacita"]
    assert (
        service["ulimits"]["nofile"] > 2 * 512
        and service["hostname"] in job()["static_configs"][0]["targets"][0]
    )
    command, *words = service["command"]
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    options = {name for parameter in parameters for name in parameter.opts}
    assert {word.partition("=")[0] for word in words} <= options
    names = [word.partition("=")[2] for word in words if word.startswith("--name=")]
    assert names[0] == service["hostname"] and names[1].startswith("${TACITA_NAME:?")


def test_mounted_files_are_there_or_are_secrets() -> None:
    for service in compose()["services"].values():
        for each in (each.split(":")[0] for each in service["volumes"] if each.startswith("./")):
            assert (DEPLOY / each).is_file() != bool(HIDDEN.search(each)), each


def test_commands_of_the_comments_exist() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    for command in re.findall(r"^#   docker compose run --rm -T tacita ([^>\n]*)", text, re.MULTILINE):
        group, name, *words = shlex.split(command)
        found = typer.main.get_command(app).commands[group].commands[name]  # type: ignore[attr-defined]
        options = {each for parameter in found.params for each in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def job() -> dict[str, Any]:
    """The one thing that Prometheus asks."""
    (found,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    return dict(found)


def test_prometheus_asks_as_an_operator_and_knows_whom() -> None:
    service = compose()["services"]["prometheus"]
    (secret,), (config,) = service["secrets"], service["configs"]
    assert job()["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}
    assert job()["scheme"] == "https" and job()["tls_config"] == {"ca_file": config["target"]}
    assert job()["static_configs"] == [{"targets": ["tacita:8443"]}]
    files = [compose()["secrets"][secret]["file"], compose()["configs"][config["source"]]["file"]]
    assert all(HIDDEN.search(each) for each in files), "made by the operator, in no image and no commit"


def there() -> set[str]:
    """Returns the samples that /metrics can have, and the one that Prometheus adds."""
    return {"up"} | {
        sample
        for family in Metrics().registry.collect()
        for sample in (family.name, *(f"{family.name}_{end}" for end in ("total", "sum", "bucket", "count")))
    }


def test_the_board_shows_metrics_that_there_are() -> None:
    board = json.loads((DEPLOY / "grafana" / "board.json").read_text(encoding="utf-8"))
    shown = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"tacita_\w+", target["expr"])
    }
    assert len(shown) > 8 and shown <= there(), shown - there()


def test_alerts_watch_metrics_that_there_are_and_each_is_tried() -> None:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    watched = {name for rule in group["rules"] for name in re.findall(r"\btacita_\w+|\bup\b", rule["expr"])}
    assert len(watched) > 8 and watched <= there(), watched - there()
    assert all(rule["labels"]["severity"] in ("page", "warn") for rule in group["rules"])
    assert all(rule["annotations"]["summary"] for rule in group["rules"])
    cases = yaml.safe_load((DEPLOY / "alerts_test.yml").read_text(encoding="utf-8"))
    tried = {case["alertname"] for test in cases["tests"] for case in test["alert_rule_test"]}
    assert tried == {rule["alert"] for rule in group["rules"]}
    (mounted,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["rule_files"]
    assert f"./alerts.yml:{mounted}:ro" in compose()["services"]["prometheus"]["volumes"]


UNIT = (DEPLOY / "tacita.service").read_text(encoding="utf-8")


def unit(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def options_of(command: str) -> set[str]:
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {name for parameter in parameters for name in parameter.opts}


def test_the_unit_starts_what_there_is_and_confines_it(tmp_path: Path) -> None:
    for line in unit("ExecStartPre") + unit("ExecStart"):
        _, command, *words = shlex.split(line)
        assert {word for word in words if word.startswith("--")} <= options_of(command)
    confined = ("NoNewPrivileges", "ProtectHome", "PrivateDevices", "RestrictNamespaces", "PrivateUsers")
    assert all(unit(name) == ["yes"] for name in confined) and unit("CapabilityBoundingSet") == [""]
    assert unit("User") != ["root"] and unit("ProtectSystem") == ["strict"]
    assert "landlock_restrict_self" in " ".join(unit("SystemCallFilter")), (
        "by which workers confine themselves"
    )
    shown = "\n".join(re.findall(r"^#   (.*)$", UNIT.partition("for example:")[2], re.MULTILINE))
    (tmp_path / "tacita.toml").write_text(shown)
    assert read_settings(tmp_path / "tacita.toml").service.names == ("model.example.org",)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    path = tmp_path / "tacita.service"
    path.write_text(UNIT.replace("/opt/tacita/bin/tacita", "/bin/true"))
    checked = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=15", path]
    exposed = subprocess.run(words, capture_output=True, text=True, check=False)
    assert exposed.returncode == 0, exposed.stdout[-200:]


MANIFESTS = [
    each
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: each["kind"])
def test_kubernetes_takes_a_manifest(manifest: dict[str, Any]) -> None:
    """Uses the schemas of two releases; a PodMonitor is of the Prometheus operator, which has its own."""
    if manifest["kind"] == "PodMonitor":
        (endpoint,) = manifest["spec"]["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == ("https", "/metrics", "https")
        assert manifest["spec"]["selector"] == {"matchLabels": pod()["metadata"]["labels"]}
        return
    for release in ("1.30", "1.37"):
        kubernetes_validate.validate(manifest, release, strict=True)


def pod() -> dict[str, Any]:
    (template,) = (each["spec"]["template"] for each in MANIFESTS if each["kind"] == "StatefulSet")
    return dict(template)


def test_a_pod_runs_what_there_is_without_rights(tmp_path: Path) -> None:
    (check,), (server,) = pod()["spec"]["initContainers"], pod()["spec"]["containers"]
    for container in (check, server):
        command, *words = container["args"]
        assert {word for word in words if word.startswith("--")} <= options_of(command)
        rights = container["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"]} and rights["readOnlyRootFilesystem"]
        assert PINNED.fullmatch(container["image"]) and container["resources"]["limits"]["memory"]
    assert "--check" in check["args"] and pod()["spec"]["securityContext"]["runAsNonRoot"]
    user = next(each.rest for each in LAST.instructions if each.word == "USER")
    assert pod()["spec"]["securityContext"]["runAsUser"] == int(user)
    probes = {server[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert probes == {"/readyz", "/healthz"}


def test_settings_of_a_cluster_are_settings(tmp_path: Path) -> None:
    (text,) = (each["data"]["tacita.toml"] for each in MANIFESTS if each["kind"] == "ConfigMap")
    (tmp_path / "tacita.toml").write_text(text)
    settings = read_settings(tmp_path / "tacita.toml")
    (server,) = pod()["spec"]["containers"]
    mounted = [each["mountPath"] for each in server["volumeMounts"]]
    service = settings.service
    assert all(any(str(path).startswith(f"{each}/") for each in mounted)
               for path in (service.data, service.certificate, service.key))  # fmt: skip
    (port,) = server["ports"]
    assert service.https == f"0.0.0.0:{port['containerPort']}"
    assert pod()["spec"]["terminationGracePeriodSeconds"] > service.drain


def test_commands_of_the_manifests_exist() -> None:
    for path in (DEPLOY / "kubernetes").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        for line in re.findall(
            r"^#   kubectl exec -n tacita tacita-0 -- tacita ([^>\n]*)", text, re.MULTILINE
        ):
            group, name, *words = shlex.split(line)
            found = typer.main.get_command(app).commands[group].commands[name]  # type: ignore[attr-defined]
            options = {each for parameter in found.params for each in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options
