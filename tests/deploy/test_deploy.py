"""The image, the compose file and the unit, as far as they can be tried without an engine."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from pilotis.settings import SettingsError, known_names, load, variable_of
from tests.waiting import reserved_port, wait_until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UID = 10001


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with what follows it."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def last(word: str) -> str:
    return [rest for name, rest in instructions() if name == word][-1]


def test_the_image_has_what_it_copies_and_nothing_else():
    shown = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    copied = [part for word, rest in instructions() if word == "COPY" for part in rest.split()[:-1]]
    from_tree = {part for part in copied if not part.startswith(("--from", "/"))}
    assert from_tree == set(shown)
    assert all((ROOT / part).exists() for part in from_tree)
    text = (DEPLOY / "Dockerfile").read_text("utf-8").lower()
    assert not re.search(r"(password|secret|token|master_key|backup_key)\s*=", text)
    assert "--require-hashes" in text


def test_the_image_is_that_of_a_user_without_privileges():
    assert last("USER") == str(UID)
    assert f"--uid {UID}" in " ".join(rest for word, rest in instructions() if word == "RUN")
    assert last("VOLUME") == "/data"
    assert last("STOPSIGNAL") == "SIGINT"
    assert "PILOTIS_DATA_DIR=/data" in last("ENV")
    # The modules that the image installs are those of the lock file, from which `make serve` runs too.
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    assert re.search(r"^flit-core==", lock, re.MULTILINE), "the build backend is installed from the lock file"


def in_image(folder: Path, port: int) -> list[str]:
    """A command that runs another as the image would: its user, its variables, and only /data and /tmp writable."""
    data, passwd = folder / "data", folder / "passwd"
    data.mkdir(mode=0o700)
    passwd.write_text(f"pilotis:x:{UID}:{UID}::/data:/usr/sbin/nologin\n")
    shebang = Path((Path(sys.prefix) / "bin" / "pilotis").read_text("utf-8").splitlines()[0].removeprefix("#!"))
    kept = {Path("/usr"), Path("/etc/ssl"), Path(sys.executable).resolve().parents[1], Path(sys.prefix), ROOT / "src"}
    kept |= {shebang.parents[1], shebang.parents[1].resolve()}
    links = [path for path in map(Path, ("/bin", "/lib", "/lib64")) if path.is_symlink()]
    command = ["bwrap", "--unshare-user", "--uid", str(UID), "--gid", str(UID), "--unshare-pid", "--die-with-parent"]
    # First, since the project itself may be below it.
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    command += [part for path in sorted(kept) if path.exists() for part in ("--ro-bind", str(path), str(path))]
    command += [part for path in links for part in ("--symlink", str(path.readlink()), str(path))]
    command += ["--bind", str(data), "/data"]
    command += ["--ro-bind", str(passwd), "/etc/passwd", "--remount-ro", "/", "--chdir", "/data", "--clearenv"]
    variables = dict(item.split("=", 1) for item in shlex.split(last("ENV")))
    # What is under test is not installed below /opt.
    variables |= {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")}
    variables |= {"PILOTIS_PORT": str(port), "PILOTIS_METRICS_PORT": "0"}
    return [*command, *(part for item in variables.items() for part in ("--setenv", *item))]


@pytest.mark.skipif(not shutil.which("bwrap") or sys.platform != "linux", reason="it needs bubblewrap")
def test_the_image_serves_as_its_user_with_a_read_only_root(tmp_path: Path):
    with reserved_port() as port:
        words = [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]
        check = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
        check[-1] = check[-1].replace(":8090", f":{port}")
        command = [*in_image(tmp_path, port), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert process.stdout is not None
            output = ""
            while "Ctrl-C" not in output:
                line = process.stdout.readline()
                assert line, output
                output += line
            assert httpx.get(f"http://127.0.0.1:{port}/healthz").json()["status"] == "ok"
            assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
            assert subprocess.run([sys.executable, *check[1:]]).returncode == 0
            os.kill(innermost(process.pid), getattr(signal, last("STOPSIGNAL")))
            stopped, _ = process.communicate(timeout=60)
            assert "Traceback" not in stopped
            assert not (tmp_path / "data" / "postgres" / "postmaster.pid").exists()
            assert subprocess.run([sys.executable, *check[1:]], stderr=subprocess.DEVNULL).returncode
        finally:
            process.kill()
            process.wait()


def innermost(pid: int) -> int:
    """The process that bubblewrap runs: the first in its own namespace of processes is another bubblewrap."""

    def child(of: int) -> int:
        return int(wait_until(lambda: Path(f"/proc/{of}/task/{of}/children").read_text().split())[0])

    return child(child(pid))


def services() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def test_the_compose_file_names_what_there_is():
    compose = services()
    variables = {variable_of(name) for name in known_names()}
    for name, service in compose["services"].items():
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
            assert service["read_only"]
            assert service["cap_drop"] == ["ALL"]
            assert service["security_opt"] == ["no-new-privileges:true"]
            assert set(service["environment"]) <= variables, name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).is_file(), volume
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nothing is published to every network"
        for network in service.get("networks", ()):
            assert network in compose["networks"]
        assert set(service.get("depends_on", ())) <= compose["services"].keys()
    assert [name for name, service in compose["services"].items() if "profiles" not in service] == ["pilotis"]
    # No password is written down: without one the cluster does not start.
    assert "POSTGRES_PASSWORD:-}" in (DEPLOY / "compose.yaml").read_text("utf-8")
    proxy = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    assert set(re.findall(r"server \w+ (\w+):8090", proxy)) == {"node1", "node2"}
    trusted = compose["services"]["node1"]["environment"]["PILOTIS_TRUSTED_PROXIES"]
    assert trusted == compose["services"]["proxy"]["networks"]["cluster"]["ipv4_address"]


@pytest.mark.skipif(not shutil.which("haproxy"), reason="it needs HAProxy")
def test_the_proxy_accepts_its_configuration(tmp_path: Path):
    text = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    for node in ("node1", "node2"):
        text = text.replace(f"{node}:8090", "127.0.0.1:8090")
    path = tmp_path / "haproxy.cfg"
    path.write_text(text)
    done = subprocess.run(["haproxy", "-c", "-f", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str
    parsed.read(DEPLOY / "pilotis.service")
    return parsed


def test_the_unit_sets_what_there_is():
    text = (DEPLOY / "pilotis.service").read_text("utf-8")
    variables = {variable_of(name) for name in known_names()}
    assert set(re.findall(r"^Environment=(\w+)=", text, re.MULTILINE)) <= variables
    service = unit()["Service"]
    assert service["KillSignal"] == "SIGINT"
    assert service["LoadCredential"].split(":")[0] == "master.key"
    assert "RestrictNamespaces" not in service, "bubblewrap makes namespaces"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="it needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path):
    path = tmp_path / "pilotis.service"
    text = (DEPLOY / "pilotis.service").read_text("utf-8")
    path.write_text(text.replace("/opt/pilotis/bin/pilotis", f"{sys.prefix}/bin/pilotis"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True)
    about = [line for line in done.stderr.splitlines() if "pilotis" in line]
    assert about == [], done.stderr
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=45", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_the_master_key_comes_from_a_file(tmp_path: Path):
    path = tmp_path / "master.key"
    path.write_text("ab" * 32 + "\n")
    assert load({}, {"PILOTIS_MASTER_KEY_FILE": str(path)}).master_key == "ab" * 32
    both = {"PILOTIS_MASTER_KEY_FILE": str(path), "PILOTIS_MASTER_KEY": "cd" * 32}
    path.with_name("short").write_text("ab")
    wrong = {"PILOTIS_MASTER_KEY_FILE": str(path.with_name("short"))}
    for given, sentence in (
        (both, "master_key is set as well"),
        (wrong, "64 hexadecimal digits"),
        ({"PILOTIS_MASTER_KEY_FILE": str(tmp_path / "none")}, "cannot be read"),
    ):
        with pytest.raises(SettingsError, match=sentence):
            load({}, given)
