"""The example for Kubernetes asks the server for what it has, and gives it the time that it needs."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from data_schemas.config.serving import METRICS_TOKEN_ENV, TOKEN_ENV, ServeConfig
from flows.cli.serve import build_serve_config
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device import slots
from tests.support.served import app_of
from tests.support.serving import tiny_checkpoint

pytestmark = pytest.mark.full

FILE = Path(__file__).resolve().parents[2] / "examples" / "kubernetes" / "serve.yaml"


@pytest.fixture(scope="module")
def parts() -> dict[str, dict[str, Any]]:
    """The file's documents by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all(FILE.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def config(parts: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> ServeConfig:
    """The server's configuration as the pod's command reads it."""
    written = tmp_path_factory.mktemp("pod") / "server.yaml"
    written.write_text(parts["ConfigMap"]["data"]["server.yaml"], encoding="utf-8")
    (container,) = parts["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["serve", "--config", "/etc/kame/server.yaml"]
    return build_serve_config(written, {})


def test_the_pod_has_the_time_and_names_of_the_server(parts: dict[str, dict[str, Any]], config: ServeConfig) -> None:
    pod = parts["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    program, waited_s = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    assert pod["terminationGracePeriodSeconds"] >= int(waited_s) + config.limits.drain_s + 30
    probes = container["readinessProbe"]
    assert int(waited_s) > probes["periodSeconds"] * probes["failureThreshold"] + probes["timeoutSeconds"]
    assert {each["name"] for each in container["env"]} == {TOKEN_ENV, METRICS_TOKEN_ENV}
    assert [each["containerPort"] for each in container["ports"]] == [config.port]
    assert int(container["resources"]["limits"]["nvidia.com/gpu"]) == config.processes
    labels = parts["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert labels == parts["Service"]["spec"]["selector"]
    assert labels == parts["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    assert parts["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "kame-serve"
    assert config.host == "0.0.0.0"


async def test_what_probes_and_prometheus_ask_for_is_there(
    parts: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> dict[int, float]:
        return {}

    monkeypatch.setattr(slots, "measure_idle_device", nothing)  # how busy this machine is must not decide
    checkpoint: Checkpoint = tiny_checkpoint(tmp_path)
    template = parts["Deployment"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    kinds = ("startupProbe", "livenessProbe", "readinessProbe")
    asked = [container[kind]["httpGet"]["path"] for kind in kinds]
    monkeypatch.setenv(TOKEN_ENV, "callers")
    monkeypatch.setenv(METRICS_TOKEN_ENV, "metrics")
    async with app_of(checkpoint) as (_, app):
        # The kubelet asks by the pod's address and without a token.
        transport = httpx.ASGITransport(app, client=("10.1.2.3", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://10.1.2.4:8998") as client:
            assert [(await client.get(path)).status_code for path in asked] == [200, 200, 200]
            path = template["metadata"]["annotations"]["prometheus.io/path"]
            assert (await client.get(path)).status_code == 401
            figures = await client.get(path, headers={"authorization": "Bearer metrics"})
            text = FILE.read_text(encoding="utf-8")
            for name in ("kame_sessions", "kame_slots"):
                assert f"({name}{{" in text  # in the rule that the autoscaler's metric is made by
                assert f"# TYPE {name} gauge" in figures.text
