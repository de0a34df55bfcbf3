"""HTTPS with the operator's own certificate."""

import os
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pilotis.cli import doctor
from pilotis.cli.findings import Check, Level
from pilotis.settings import Settings
from tests.acceptance.test_files import storage
from tests.certificates import Authority
from tests.commands import run
from tests.conftest import first_console_user, new_app
from tests.hosting.sites import new_site
from tests.https.servers import NAME, HttpsServer, handshake, https_server
from tests.support import App
from tests.waiting import children, until

SITES = "sites.example.com"


@dataclass
class Own:
    """A server with a certificate of the test's own authority, and an app on it."""

    server: HttpsServer
    authority: Authority
    app: App


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    folder = tmp_path_factory.mktemp("own")
    authority = Authority(folder)
    certificate = authority.certificate(NAME, f"*.{SITES}")
    environment = {
        "PILOTIS_BASE_URL": f"https://{NAME}",
        "PILOTIS_SITES_BASE_URL": f"https://{SITES}",
        "PILOTIS_HTTPS_CERTIFICATE": str(certificate),
        "PILOTIS_HTTPS_HSTS_SECONDS": "31536000",
        "PILOTIS_UPLOAD_RESERVE_BYTES": "0",
    }
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    environment["OAUTH_RSA_PRIVATE_KEY_PEM"] = pem.decode()
    with https_server(folder / "data", **environment) as server:
        yield Own(server, authority, new_app(server, first_console_user(server)))


async def test_the_api_a_site_and_a_file_are_served_by_tls(own: Own):
    table = await own.app.table({"text": {"type": "string"}})
    made = await own.app.row(table, {"text": "x"})
    async with own.app.client() as client:
        read = await client.get(f"/v1/public/tables/{table}/data/{made['id']}")
    assert read.json()["data"] == {"text": "x"}
    assert read.headers["strict-transport-security"] == "max-age=31536000"

    site = await new_site(own.app)
    large = os.urandom(3_000_000)
    await site.deploy({"index.html": b"home", "large.bin": large})
    name = f"{site.slug}.{SITES}"
    assert own.server.get("/", name, own.authority.ca_file).text == "home"
    assert own.server.get("/large.bin", name).content == large
    part = own.server.get("/large.bin", name, Range="bytes=1000000-2499999")
    assert (part.status_code, part.content) == (206, large[1_000_000:2_500_000])

    files = await storage(own.app)
    content = os.urandom(2_000_000)
    async with own.app.client() as client:
        wanted = {"file_name": "a.bin", "file_size": len(content), "mime_type": "application/octet-stream"}
        ticket = (await client.post(f"{files}/presigned-url", json=wanted)).json()
        assert ticket["upload_url"].startswith(f"https://{NAME}/")
        path = ticket["upload_url"].removeprefix(f"https://{NAME}")
        assert (await client.put(path, content=content, headers=ticket["headers"])).status_code == 200
        done = await client.post(f"{files}/complete-upload", json={"file_id": ticket["file_id"]})
        found = await client.get(done.json()["url"].removeprefix(f"https://{NAME}"))
    assert found.content == content


def test_the_provider_of_oauth_sees_that_it_was_reached_by_https(own: Own):
    form = {"grant_type": "authorization_code", "client_id": "cl_x", "code": "x"}
    answer = httpx.post(f"{own.server.url}/oauth/token", data=form, verify=False)
    assert answer.json()["error"] == "invalid_client"


@pytest.mark.parametrize(
    ("host", "path", "to"),
    [
        (NAME, "/v1/apps?x=1&y=%20", f"https://{NAME}/v1/apps?x=1&y=%20"),
        (f"cafe.{SITES}", "/menu", f"https://cafe.{SITES}/menu"),
        (f"{NAME}:80", "/", f"https://{NAME}/"),
        ("evil.example.org", "/a", f"https://{NAME}/a"),
        ("evil.example.org", "//evil.example.org/", f"https://{NAME}//evil.example.org/"),
    ],
)
def test_the_port_without_tls_redirects(own: Own, host: str, path: str, to: str):
    for method in ("GET", "POST"):
        answer = own.server.plain(path, host, method)
        assert (answer.status_code, answer.headers["location"]) == (308, to)
        assert "strict-transport-security" not in answer.headers  # RFC 6797, section 7.2


def test_the_port_without_tls_says_that_the_process_is_alive(own: Own):
    assert own.server.plain("/healthz", "10.0.0.1").json()["status"] == "ok"
    assert own.server.plain("/.well-known/acme-challenge/abcdefghijklmnop").status_code == 404


@pytest.mark.parametrize(
    "name", ["evil.example.org", "a.b.sites.example.com", "example.com", "localhost", "xn--n3h.example"]
)
def test_a_handshake_for_a_name_of_others_fails(own: Own, name: str):
    # uvloop closes the connection without the alert.
    with pytest.raises(ssl.SSLError, match=r"EOF|UNRECOGNIZED_NAME"):
        own.server.certificate(name)
    assert own.server.get("/healthz", ca_file=own.authority.ca_file).status_code == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken(own: Own, version: ssl.TLSVersion):
    _, spoken, protocol = handshake(own.server.https, NAME, version)
    assert (spoken, protocol) == (version.name.replace("v1_", "v1."), "http/1.1")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_1_1_is_not_spoken(own: Own):
    with pytest.raises(ssl.SSLError):
        handshake(own.server.https, NAME, ssl.TLSVersion.TLSv1_1)


def test_doctor_names_a_certificate_that_ends_soon(own: Own):
    settings = {name: value for name, value in own.server.environment.items() if name.startswith("PILOTIS_HTTPS")}
    settings["PILOTIS_BASE_URL"] = f"https://{NAME}"
    found = run("doctor", *own.server.place, **settings)
    ends = own.server.certificate().not_valid_after_utc
    assert f"{settings['PILOTIS_HTTPS_CERTIFICATE']} ends on {ends:%Y-%m-%d %H:%M} UTC." in found.stdout
    assert found.returncode == 1
    settings["PILOTIS_HTTPS_CERTIFICATE"] = str(own.authority.certificate(NAME, days=60))
    assert (
        "The certificates for HTTPS are valid for long enough." in run("doctor", *own.server.place, **settings).stdout
    )
    settings |= {"PILOTIS_HTTPS_NAMES": f"{NAME},www.example.com"}
    assert "There is no certificate for www.example.com yet." in run("doctor", *own.server.place, **settings).stdout


def test_doctor_misses_no_proxy_in_front_of_a_server_that_needs_none(own: Own, monkeypatch: pytest.MonkeyPatch):
    address = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", own.server.https))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [address])
    monkeypatch.setenv("SSL_CERT_FILE", str(own.authority.ca_file))
    settings = Settings(base_url=f"https://{NAME}", https_certificate="x.pem", sites_base_url=f"https://{SITES}")
    found = doctor.examine_url(settings, f"https://{NAME}")
    assert [one.level for one in found if one.id is Check.PROXY] == [Level.OK]
    proxied = msgspec.structs.replace(settings, trusted_proxies=["10.0.0.1"])
    assert any("X-Forwarded-For" in one.sentence for one in doctor.examine_url(proxied, f"https://{NAME}"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"PILOTIS_HTTPS_NAMES": NAME, "PILOTIS_BASE_URL": "https://other.example.com"}, f"its name is none of {NAME}"),
        ({"PILOTIS_HTTPS_NAMES": NAME, "PILOTIS_BASE_URL": f"http://{NAME}"}, "it begins with https://"),
        ({"PILOTIS_HTTPS_NAMES": NAME, "PILOTIS_PORT": "8090"}, "the ports are https_port and http_port"),
        ({"PILOTIS_HTTPS_NAMES": "*.example.com"}, "*.example.com is not a host name"),
        ({"PILOTIS_HTTPS_NAMES": "10.0.0.1"}, "10.0.0.1 is not a host name"),
        ({"PILOTIS_HTTPS_KEY": "x.pem"}, "it needs https_certificate"),
        ({"PILOTIS_HTTPS_CERTIFICATE": "x.pem"}, "it needs base_url"),
        ({"PILOTIS_HTTPS_NAMES": NAME, "PILOTIS_HTTPS_DIRECTORY": "http://ca.example/"}, "PILOTIS_HTTPS_DIRECTORY"),
    ],
)
def test_settings_that_contradict_each_other_are_named(tmp_path: Path, settings: dict[str, str], said: str):
    found = run("serve", "--data-dir", str(tmp_path / "data"), **settings)
    assert (found.returncode, said in found.stderr) == (2, True), found.stderr
    assert not (tmp_path / "data").exists()


def test_files_that_do_not_belong_together_prevent_the_start(tmp_path: Path):
    authority = Authority(tmp_path)
    first, second = authority.certificate(NAME), authority.certificate(NAME)
    key = second.read_text().partition("-----BEGIN CERTIFICATE")[0]
    (tmp_path / "chain.pem").write_text(first.read_text().partition("PRIVATE KEY-----\n")[2].partition("KEY-----\n")[2])
    (tmp_path / "key.pem").write_text(key)
    settings = {
        "PILOTIS_BASE_URL": f"https://{NAME}",
        "PILOTIS_HTTPS_CERTIFICATE": str(tmp_path / "chain.pem"),
        "PILOTIS_HTTPS_KEY": str(tmp_path / "key.pem"),
    }
    server = HttpsServer(tmp_path / "data", 0, 0, **settings)
    with pytest.raises(AssertionError, match="do not belong together"):
        server.start()


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_new_certificate_is_read_at_a_hangup(tmp_path: Path, workers: str):
    authority = Authority(tmp_path)
    files = {"PILOTIS_HTTPS_CERTIFICATE": str(tmp_path / "own.pem"), "PILOTIS_WORKERS": workers}
    shutil.copy(authority.certificate(NAME), tmp_path / "own.pem")
    with https_server(tmp_path / "data", PILOTIS_BASE_URL=f"https://{NAME}", **files) as server:
        first = server.certificate().serial_number
        # Both workers answer: what they read from now on they read again.
        await until(lambda: server.logs().count("serving by HTTPS") == int(workers))
        (tmp_path / "own.pem").write_text("half of a fi")
        os.kill(server.process.pid, signal.SIGHUP)
        await until(lambda: server.logs().count("certificate not read") == int(workers))
        assert server.certificate().serial_number == first
        shutil.copy(authority.certificate(NAME), tmp_path / "own.pem")
        os.kill(server.process.pid, signal.SIGHUP)
        await until(lambda: {server.certificate().serial_number for _ in range(8)}.isdisjoint({first}))
        assert len(children(server.process.pid)) >= int(workers) - 1
