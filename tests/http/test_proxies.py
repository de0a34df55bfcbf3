"""The guide's configurations of reverse proxies, run by the real programs, and what `doctor --url` says of others."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pilotis.cli import proxy_check
from tests.acceptance.test_files import storage
from tests.certificates import Authority
from tests.conftest import PASSWORD, first_console_user, new_app
from tests.hosting.sites import new_site
from tests.support import App, Server, plain_client
from tests.waiting import PATIENCE, reserved_port, wait_until

GUIDE = Path(__file__).parents[2] / "docs" / "operating.md"
API, SITES = "https://api.example.com", "https://sites.example.com"
LARGE = 20 << 20
Change = Callable[[str], str]


def configuration(language: str) -> str:
    """The block of the guide in a proxy's language."""
    found = re.search(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found, f"the guide has no configuration for {language}"
    return found[1]


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """The text with what a test must have elsewhere; each of it must be there."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


@dataclass
class Behind:
    """An app on a server that trusts the proxies of loopback."""

    app: App
    folder: Path
    authority: Authority

    @property
    def address(self) -> str:
        return urlsplit(self.app.server.url).netloc


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("proxies")
    environment = {
        "PILOTIS_BASE_URL": API,
        "PILOTIS_SITES_BASE_URL": SITES,
        "PILOTIS_TRUSTED_PROXIES": "127.0.0.1",
    }
    pem = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    environment["OAUTH_RSA_PRIVATE_KEY_PEM"] = pem.decode()
    with reserved_port() as metrics:
        environment["PILOTIS_METRICS_PORT"] = str(metrics)
        server = Server(folder / "data", environment=environment).start()
        yield Behind(new_app(server, first_console_user(server)), folder, Authority(folder))
        server.stop()


@dataclass
class Proxy:
    """A proxy that listens on a port of loopback, and the authority that signed its certificates."""

    port: int
    ca_file: Path

    def curl(self, url: str, *arguments: str) -> list[str]:
        return [
            *("curl", "-sS", "--http2", "--max-time", str(PATIENCE), "--cacert", str(self.ca_file)),
            *("--connect-to", f"::127.0.0.1:{self.port}", *arguments, url),
        ]

    def ask(self, url: str, *arguments: str) -> tuple[int, str, str]:
        """Status, version of HTTP and body of an answer."""
        written = ("-w", "\n%{http_code} %{http_version}", *arguments)
        done = subprocess.run(self.curl(url, *written), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        body, _, last = done.stdout.rpartition("\n")
        status, version = last.split()
        return int(status), version, body

    def begins(self, url: str, *arguments: str) -> bytes:
        """The first line of an answer that does not end."""
        with subprocess.Popen(self.curl(url, "-N", *arguments), stdout=subprocess.PIPE) as following:
            line = following.stdout.readline()
            following.terminate()
        return line


@contextmanager
def running(command: list[str], port: int, log: Path, **environment: str) -> Iterator[None]:
    """Run a program that listens on a port, until the block ends."""

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
    try:
        wait_until(listens)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


@contextmanager
def nginx(behind: Behind, change: Change = lambda text: text) -> Iterator[Proxy]:
    path, folder = program("nginx"), behind.folder / "nginx"
    folder.mkdir(exist_ok=True)
    certificate = str(behind.authority.certificate("api.example.com", "*.sites.example.com"))
    with reserved_port() as port:
        server = replaced(
            configuration("nginx"),
            ("listen 443", f"listen 127.0.0.1:{port}"),
            ("/etc/ssl/pilotis.pem", certificate),
            ("127.0.0.1:8090", behind.address),
        )
        places = "".join(f"{name}_temp_path {folder};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root;" if os.geteuid() == 0 else ""
        text = f"{user} daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
        text += f"http {{ access_log off; {places}\n{change(server)} }}"
        (folder / "nginx.conf").write_text(text)
        with running([path, "-p", str(folder), "-c", str(folder / "nginx.conf")], port, folder / "log"):
            yield Proxy(port, behind.authority.ca_file)


@contextmanager
def caddy(behind: Behind) -> Iterator[Proxy]:
    path, folder = program("caddy"), behind.folder / "caddy"
    folder.mkdir()
    with reserved_port() as port, reserved_port() as unused:
        own = f"admin off\nlocal_certs\nskip_install_trust\nauto_https disable_redirects\nhttps_port {port}\n"
        own += f"http_port {unused}\nstorage file_system {folder}\ndefault_bind 127.0.0.1\n"
        metrics = urlsplit(behind.app.server.metrics_url).netloc
        text = replaced(configuration("caddy"), ("127.0.0.1:8090", behind.address), ("127.0.0.1:8091", metrics))
        (folder / "Caddyfile").write_text(text.replace("{\n", "{\n" + own, 1))
        command = [path, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
        with running(command, port, folder / "log", HOME=str(folder), XDG_DATA_HOME=str(folder)):
            yield Proxy(port, wait_until(lambda: next(folder.glob("pki/authorities/local/root.crt"), None)))


@contextmanager
def haproxy(behind: Behind) -> Iterator[Proxy]:
    path, folder = program("haproxy"), behind.folder / "haproxy"
    certificates = folder / "certificates"
    certificates.mkdir(parents=True)
    for number, name in enumerate(("api.example.com", "*.sites.example.com")):
        shutil.copy(behind.authority.certificate(name), certificates / f"{number}.pem")
    with reserved_port() as port:
        text = replaced(
            configuration("haproxy"),
            ("bind :443", f"bind 127.0.0.1:{port}"),
            ("/etc/haproxy/certificates/", str(certificates)),
            ("10.0.0.11:8090", behind.address),
            ("10.0.0.12:8090", behind.address),
        )
        (folder / "haproxy.cfg").write_text(text)
        with running([path, "-db", "-f", str(folder / "haproxy.cfg")], port, folder / "log"):
            yield Proxy(port, behind.authority.ca_file)


@contextmanager
def traefik(behind: Behind) -> Iterator[Proxy]:
    path, folder = program("traefik"), behind.folder / "traefik"
    folder.mkdir()
    certificate = str(behind.authority.certificate("api.example.com", "*.sites.example.com"))
    static, divider, dynamic = configuration("traefik").partition("# /etc/traefik/pilotis.yaml\n")
    assert divider
    with reserved_port() as port, reserved_port() as unused:
        (folder / "traefik.yaml").write_text(
            "global: {checkNewVersion: false, sendAnonymousUsage: false}\n"
            + replaced(
                static,
                ('":443"', f'"127.0.0.1:{port}"'),
                ('":80"', f'"127.0.0.1:{unused}"'),
                ("/etc/traefik/pilotis.yaml", str(folder / "pilotis.yaml")),
            )
        )
        (folder / "pilotis.yaml").write_text(
            replaced(
                dynamic,
                ("/etc/ssl/pilotis.pem", certificate),
                ("10.0.0.11:8090", behind.address),
                ("10.0.0.12:8090", behind.address),
            )
        )
        with running([path, f"--configFile={folder / 'traefik.yaml'}"], port, folder / "log"):
            proxy = Proxy(port, behind.authority.ca_file)
            # It listens before it has read its certificates and where to send what.
            asking = proxy.curl(f"{API}/healthz", "-f", "-o", os.devnull)
            wait_until(lambda: subprocess.run(asking, stderr=subprocess.DEVNULL, check=False).returncode == 0)
            yield proxy


PROXIES = [nginx, caddy, haproxy, traefik]


@pytest.mark.parametrize("proxy_of", PROXIES, ids=[one.__name__ for one in PROXIES])
async def test_the_configuration_of_the_guide_serves_everything(behind: Behind, proxy_of, monkeypatch):
    app = new_app(behind.app.server, behind.app.console)
    site = await new_site(app)
    await site.deploy({"index.html": b"home"})
    files, table = await storage(app), await app.table({"text": {"type": "string"}})
    large = behind.folder / "large"
    large.write_bytes(os.urandom(LARGE))
    key, console = f"X-Public-Key: {app.public_key}", f"Authorization: Bearer {app.console['access_token']}"

    def sent(value: object) -> tuple[str, ...]:
        return ("-H", key, "-H", "Content-Type: application/json", "-d", json.dumps(value))

    with proxy_of(behind) as proxy:
        rows = f"{API}/v1/public/tables/{table}/data"
        assert proxy.ask(rows, *sent({"data": {"text": "x"}}))[:2] == (201, "2")
        assert json.loads(proxy.ask(rows, "-H", key)[2])["total_count"] == 1

        wanted = {"file_name": "a.bin", "file_size": LARGE, "mime_type": "application/octet-stream"}
        ticket = json.loads(proxy.ask(f"{API}{files}/presigned-url", *sent(wanted))[2])
        headers = [part for name, value in ticket["headers"].items() for part in ("-H", f"{name}: {value}")]
        assert proxy.ask(ticket["upload_url"], "-T", str(large), *headers)[0] == 200
        assert proxy.ask(f"{API}{files}/complete-upload", *sent({"file_id": ticket["file_id"]}))[0] == 200

        assert proxy.begins(f"{API}/v1/apps/{app.app_id}/events/stream", "-H", console)

        credentials, cookies = {"email": "first@example.com", "password": PASSWORD}, str(behind.folder / "cookies")
        browser = ("-H", f"Origin: {API}", "-c", cookies, "-b", cookies)
        assert proxy.ask(f"{API}/v1/auth/session", *sent(credentials), *browser)[0] == 200
        assert proxy.ask(f"{API}/v1/auth/session/refresh", "-X", "POST", *browser)[0] == 200

        form = "grant_type=authorization_code&client_id=cl_x&code=x"
        assert json.loads(proxy.ask(f"{API}/oauth/token", "-d", form)[2])["error"] == "invalid_client"
        assert proxy.ask(f"https://{site.slug}.sites.example.com/")[2] == "home"
        # A name of a file may have any character.
        odd = proxy.ask(f"{API}{files}/path/100%25%20a%3Bb%3F%23%2Fc.bin", "-H", key)
        assert (odd[0], json.loads(odd[2])["code"]) == (404, "FILE_NOT_FOUND")
        assert problems(proxy, monkeypatch) == []


async def test_a_proxy_may_get_a_certificate_for_a_site_alone(behind: Behind):
    site = await new_site(behind.app)
    asked = f"{behind.app.server.metrics_url}/tls/allowed?"
    own = f"{site.slug}.sites.example.com"
    wanted = [
        (f"name={own}", 200),
        (f"domain={own.upper()}.", 200),
        ("name=none.sites.example.com", 404),
        ("name=evil.example.org", 404),
        (f"name={own}&domain=evil.example.org", 404),
        ("name=%00%ff", 404),
        ("", 404),
    ]
    async with plain_client(asked) as client:
        assert [(await client.get(asked + query)).status_code for query, _ in wanted] == [
            status for _, status in wanted
        ]
        assert (await client.get(asked.replace("?", "/?") + f"name={own}")).status_code == 404


def problems(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `doctor --url` finds, where the names lead to the proxy."""
    found = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", proxy.port))
    with monkeypatch.context() as resolved:
        resolved.setattr(socket, "getaddrinfo", lambda *_, **__: [found])
        resolved.setenv("SSL_CERT_FILE", str(proxy.ca_file))
        return [report.sentence for report in proxy_check.problems(API, SITES)]


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("proxy_set_header Host $host;", "does not pass on Host"),
        ("proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;", "does not pass on X-Forwarded-For"),
        ("proxy_set_header X-Forwarded-Proto $scheme;", "does not pass on X-Forwarded-Proto"),
        ("client_max_body_size 0;", "rejects bodies of 2 MB"),
    ],
)
def test_what_a_proxy_lacks_is_named(behind: Behind, monkeypatch: pytest.MonkeyPatch, left_out: str, said: str):
    with nginx(behind, lambda text: replaced(text, (left_out, ""))) as proxy:
        found = problems(proxy, monkeypatch)
        answer = proxy.ask(f"{API}/oauth/token", "-d", "grant_type=authorization_code")
    assert any(said in problem for problem in found), found
    assert ("X-Forwarded-Proto: https" in answer[2]) == ("X-Forwarded-Proto" in left_out), answer
