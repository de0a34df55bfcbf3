"""The chart for Kubernetes: what it sets exists, and with helm what it makes."""

import json
import re
import shutil
import stat
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from pilotis.server import CLOSE_SECONDS
from pilotis.settings import Settings, known_names, variable_of
from tests.deploy.test_deploy import DEPLOY, UID
from tests.support import Server

CHART = DEPLOY / "helm"
HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(not HELM, reason="it needs helm")
KUBERNETES = "1.30.0"
BASE = ["--set", "baseUrl=https://api.example.com"]
EXTERNAL = [*BASE, "--set", "database=external,replicas=3,metrics.serviceMonitor=true,userNamespace=true"]


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return found


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return found


def variables_of(pod: str) -> set[str]:
    return set(re.findall(r"- name: (PILOTIS_\w+)", pod))


def template(*words: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    # One that was built from its source takes a cluster of its oldest version for granted.
    command = [HELM, "template", "shop", str(CHART), "--kube-version", KUBERNETES, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def made(*words: str) -> dict[str, dict[str, Any]]:
    """What the chart makes, by kind."""
    done = template(*words)
    assert done.returncode == 0, done.stderr
    return {f"{one['kind']} {one['metadata']['name']}": one for one in yaml.safe_load_all(done.stdout) if one}


def test_the_chart_sets_what_there_is():
    variables = {variable_of(name) for name in known_names()}
    pod = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    named = variables_of(pod)
    assert {"PILOTIS_MASTER_KEY", "PILOTIS_DATABASE_URL", "PILOTIS_BLOB_STORE"} <= named <= variables
    assert f"runAsUser: {UID}" in pod


def test_each_value_is_in_the_schema_and_each_used_value_is_there():
    """A value that nobody describes, or that a template asks for and nobody gives, is a silent mistake."""

    def compare(given: dict[str, Any], wanted: dict[str, Any], path: str) -> None:
        if wanted.get("additionalProperties") is not False:
            return
        assert given.keys() <= wanted["properties"].keys(), path
        for name, value in given.items():
            if isinstance(value, dict):
                compare(value, wanted["properties"][name], f"{path}.{name}")

    compare(values(), schema(), "values")
    for file in sorted((CHART / "templates").iterdir()):
        for used in re.findall(r"\.Values\.([\w.]+)", file.read_text("utf-8")):
            found: Any = values()
            for name in used.split("."):
                assert name in found, f"{file.name}: {used}"
                found = found[name]


def test_no_value_is_secret():
    assert not re.search(r"kind: Secret\b", "".join(f.read_text("utf-8") for f in (CHART / "templates").iterdir()))
    forbidden = schema()["properties"]["settings"]["propertyNames"]["not"]["enum"]
    assert {"PILOTIS_MASTER_KEY", "PILOTIS_DATABASE_URL"} <= set(forbidden)
    # What the chart sets itself, nobody sets a second time; nor the port and the folder that it expects.
    pod = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    assert set(forbidden) == variables_of(pod) | {"PILOTIS_HOST", "PILOTIS_PORT", "PILOTIS_DATA_DIR"}


CASES = {
    "embedded": BASE,
    "bare": [*BASE, "--set", "metrics.enabled=false,networkPolicy.enabled=false,persistence.storageClass=fast"],
    "external": [*EXTERNAL, "--set", "ingress.enabled=true,ingress.hosts={api.example.com},ingress.className=nginx"],
    "one node": [*BASE, "--set", "database=external"],
    "all": [
        *EXTERNAL,
        *(
            "--set",
            "ingress.enabled=true,ingress.tlsSecret=api,imagePullSecrets[0].name=registry,nodeSelector.disk=ssd",
        ),
        *("--set", "ingress.hosts={api.example.com,*.sites.example.com},tolerations[0].operator=Exists"),
        *("--set", "networkPolicy.metricsFrom[0].team=ops,settings.PILOTIS_TRUSTED_PROXIES=10.0.0.0/8"),
        *("--set", "podAnnotations.note=x,image.tag=v9,metrics.port=9999,service.port=8080"),
    ],
}


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_what_the_chart_makes_fits_together(case: str):
    """Each name leads to something that is there: selectors, ports, volumes, services and secrets."""
    found = made(*CASES[case])
    (workload,) = [one for one in found.values() if one["kind"] in {"Deployment", "StatefulSet"}]
    template_, pod = workload["spec"]["template"], workload["spec"]["template"]["spec"]
    labels = template_["metadata"]["labels"]
    (container,) = pod["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    services = {one["metadata"]["name"]: one for one in found.values() if one["kind"] == "Service"}

    def chosen(selector: dict[str, str]) -> bool:
        return selector.items() <= labels.items()

    assert chosen(workload["spec"]["selector"]["matchLabels"])
    for service in services.values():
        assert chosen(service["spec"]["selector"])
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
    for kind, path in (("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")):
        for one in found.values():
            assert one["kind"] != kind or chosen(one["spec"][path]["matchLabels"])
    for one in found.values():
        if one["kind"] == "NetworkPolicy":
            assert {port["port"] for rule in one["spec"]["ingress"] for port in rule["ports"]} <= ports.keys()
        if one["kind"] == "ServiceMonitor":
            (watched,) = [
                service
                for service in services.values()
                if one["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
            ]
            assert one["spec"]["endpoints"][0]["port"] in {port["name"] for port in watched["spec"]["ports"]}
        if one["kind"] == "Ingress":
            for rule in one["spec"]["rules"]:
                backend = rule["http"]["paths"][0]["backend"]["service"]
                served = {port["name"] for port in services[backend["name"]]["spec"]["ports"]}
                assert backend["port"]["name"] in served
            assert {host for tls in one["spec"].get("tls", []) for host in tls["hosts"]} <= {
                rule["host"] for rule in one["spec"]["rules"]
            }
    if workload["kind"] == "StatefulSet":
        assert workload["spec"]["serviceName"] in services
    volumes = {one["name"] for one in pod["volumes"]}
    claimed = {one["metadata"]["name"] for one in workload["spec"].get("volumeClaimTemplates", [])}
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert set(mounts.values()) == volumes | claimed
    assert not volumes & claimed
    # What the image writes to: nothing else is writable.
    assert {"/data", "/tmp"} <= mounts.keys()
    variables = [one["name"] for one in container["env"]]
    assert len(variables) == len(set(variables))
    assert {variable_of(name) for name in known_names()} >= set(variables)
    assert {one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"] if "valueFrom" in one} == {"pilotis"}
    probes = {container[f"{name}Probe"]["httpGet"]["port"] for name in ("startup", "liveness", "readiness")}
    assert probes == {"http"}
    assert {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness")} == {"/healthz"}
    assert ports["http"] == Settings().port
    exposed = next((one["value"] for one in container["env"] if one["name"] == "PILOTIS_METRICS_PORT"), None)
    assert exposed == (str(ports["metrics"]) if "metrics" in ports else None)
    # It is let go before it is killed.
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > waits + Settings().stop_seconds + CLOSE_SECONDS


@needs_helm
@pytest.mark.skipif(not find_spec("kubernetes_validate"), reason="it needs kubernetes-validate")
@pytest.mark.parametrize("version", ["1.25", "1.30", "1.37"])
@pytest.mark.parametrize("case", CASES)
def test_what_the_chart_makes_is_valid(case: str, version: str):
    kubernetes_validate = import_module("kubernetes_validate")
    for one in made(*CASES[case], "--kube-version", f"{version}.0").values():
        if one["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(one, version, strict=True)


def test_a_volume_stays_as_a_group_may_write_it(tmp_path: Path):
    """The root of a volume with an `fsGroup` is its group's to write, and only as long as that stays is the rest left.

    What Kubernetes does to the rest otherwise, PostgreSQL refuses: that is why the chart says `OnRootMismatch`.
    """
    assert "fsGroupChangePolicy: OnRootMismatch" in (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    place = tmp_path / "data"
    server = Server(place).start()
    server.stop()
    place.chmod(0o2770)
    server.start()
    server.stop()
    assert stat.S_IMODE(place.stat().st_mode) == 0o2770
    (place / "postgres").chmod(0o2770)
    with pytest.raises(AssertionError, match=r"(?i)permission"):
        server.start()


@needs_helm
def test_the_embedded_database_is_one_pod_with_a_volume():
    found = made(*BASE)
    pod = found["StatefulSet shop"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert found["StatefulSet shop"]["spec"]["replicas"] == 1
    assert found["StatefulSet shop"]["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert "PodDisruptionBudget shop" not in found
    done = template(*BASE, "--set", "replicas=2")
    assert done.returncode != 0
    assert "the embedded database is that of one pod" in done.stderr


@needs_helm
def test_several_nodes_have_all_state_elsewhere():
    found = made(*EXTERNAL, "--set", "ingress.enabled=true,ingress.hosts={api.example.com},ingress.tlsSecret=api")
    deployment = found["Deployment shop"]["spec"]
    pod = deployment["template"]["spec"]
    variables = {one["name"]: one for one in pod["containers"][0]["env"]}
    assert deployment["replicas"] == 3
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert "secretKeyRef" in variables["PILOTIS_DATABASE_URL"]["valueFrom"]
    assert pod["hostUsers"] is False
    assert pod["terminationGracePeriodSeconds"] > 30
    assert found["PodDisruptionBudget shop"]["spec"]["maxUnavailable"] == 1
    annotations = found["Ingress shop"]["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    rules = found["NetworkPolicy shop"]["spec"]["ingress"]
    assert next(rule for rule in rules if rule["ports"][0]["port"] == "metrics")["from"]
    assert "ServiceMonitor shop" in found


@needs_helm
@pytest.mark.parametrize(
    "wrong", ["baseUrl=", "database=mysql", "settings.PILOTIS_MASTER_KEY=x", "settings.PILOTIS_PORT=80", "replica=2"]
)
def test_a_value_that_is_wrong_is_refused(wrong: str):
    done = template(*BASE, "--set", wrong)
    assert done.returncode != 0, done.stdout
