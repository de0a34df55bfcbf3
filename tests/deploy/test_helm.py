"""The chart for Kubernetes: what it sets exists, and with helm what it makes."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from pilotis.settings import known_names, variable_of
from tests.deploy.test_deploy import DEPLOY, UID

CHART = DEPLOY / "helm"
HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(not HELM, reason="it needs helm")
BASE = ["--set", "baseUrl=https://api.example.com"]
EXTERNAL = [*BASE, "--set", "database=external,replicas=3,metrics.serviceMonitor=true,userNamespace=true"]


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return found


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return found


def template(*words: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, "template", "shop", str(CHART), *words], capture_output=True, text=True, check=False)


def made(*words: str) -> dict[str, dict[str, Any]]:
    """What the chart makes, by kind."""
    done = template(*words)
    assert done.returncode == 0, done.stderr
    return {f"{one['kind']} {one['metadata']['name']}": one for one in yaml.safe_load_all(done.stdout) if one}


def test_the_chart_sets_what_there_is():
    variables = {variable_of(name) for name in known_names()}
    pod = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    named = set(re.findall(r"- name: (PILOTIS_\w+)", pod))
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
@pytest.mark.parametrize("wrong", ["baseUrl=", "database=mysql", "settings.PILOTIS_MASTER_KEY=x", "replica=2"])
def test_a_value_that_is_wrong_is_refused(wrong: str):
    done = template(*BASE, "--set", wrong)
    assert done.returncode != 0, done.stdout
