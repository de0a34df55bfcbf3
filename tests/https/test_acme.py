"""Certificates by ACME: ordered, renewed, postponed and refused."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.certificates import Authority
from tests.conftest import first_console_user, new_app
from tests.database import connect
from tests.hosting.sites import Site, new_site
from tests.https.authority import AcmeServer, acme_server
from tests.https.servers import NAME, HttpsServer
from tests.waiting import reserved_port, until

OTHER = "www.example.com"
SITES = "sites.example.com"


@contextmanager
def certified(folder: Path, names: str = NAME, **environment: str) -> Iterator[tuple[HttpsServer, AcmeServer]]:
    """A server that is not started yet, and the authority that it asks."""
    with ExitStack() as opened:
        https, http = opened.enter_context(reserved_port()), opened.enter_context(reserved_port())
        acme = opened.enter_context(acme_server(folder, http))
        own = {
            "PILOTIS_HTTPS_DIRECTORY": acme.directory,
            "PILOTIS_OUTGOING_CA_FILE": str(acme.authority.ca_file),
        }
        arguments = ("--https", names, "--https-email", "ops@example.com")
        yield HttpsServer(folder / "data", https, http, *arguments, **own, **environment), acme


@contextmanager
def running(server: HttpsServer) -> Iterator[HttpsServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()
    server.assert_no_failure()


def serial(server: HttpsServer, name: str | None = NAME) -> int | None:
    """The serial number of the certificate for a name; None while there is none."""
    with suppress(ssl.SSLError, ConnectionResetError):
        return server.certificate(name).serial_number
    return None


async def stored(connection: asyncpg.Connection, name: str) -> asyncpg.Record | None:
    return await connection.fetchrow("select * from pilotis.https_certificates where name = $1", name)


async def test_the_servers_own_names_get_certificates_that_outlive_a_restart(tmp_path: Path):
    with certified(tmp_path, f"{NAME},{OTHER}") as (server, acme):
        acme.spoilt_nonces = 3
        with running(server):
            assert f"Pilotis is at https://{NAME}:{server.https}" in server.output
            first = await until(lambda: serial(server) and serial(server, OTHER) and serial(server))
            assert server.get("/healthz", ca_file=acme.authority.ca_file).json()["status"] == "ok"
            assert server.get("/healthz", OTHER, acme.authority.ca_file).status_code == 200
            assert isinstance(server.certificate().public_key().curve, ec.SECP256R1)
            assert serial(server, None) == first
            assert acme.problems == ["badNonce"] * 3
            assert acme.contacts == [["mailto:ops@example.com"]]
            connection = await connect(server)
            row, account = await stored(connection, NAME), await connection.fetchrow("table pilotis.https_accounts")
            assert b"PRIVATE" not in row["private_key"] + account["private_key"]
            life = row["not_after"] - row["not_before"]
            # Once the authority has been asked, it wants that earlier.
            times = [row["not_before"] + life * 2 / 3, *acme.suggested]
            assert min(abs(row["renew_at"] - one) for one in times) < timedelta(seconds=1)
            assert await connection.fetchval("select count(*) from pilotis.https_challenges") == 0
            await connection.close()
        with running(server):
            assert await until(lambda: serial(server)) == first
            await asyncio.sleep(0.5)
        assert len(acme.orders) == 2
        assert len(acme.accounts) == 1


@dataclass
class World:
    """A server with two workers that has its own certificate, and a site on it."""

    server: HttpsServer
    acme: AcmeServer
    site: Site
    connection: asyncpg.Connection

    async def domain(self, name: str, *, verified: bool) -> None:
        """Add a domain to the site."""
        await self.connection.execute(
            """
            insert into pilotis.web_domains (app_id, storage_id, hostname, token, verified_at)
            values ($1, $2, $3, 'x', case when $4 then now() end)
            """,
            self.site.app.app_id,
            self.site.id,
            name,
            verified,
        )
        await self.connection.execute("select pg_notify('pilotis', 'site:domains')")

    async def certificate(self, name: str) -> asyncpg.Record | None:
        return await stored(self.connection, name)


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("acme")
    settings = {
        "PILOTIS_WORKERS": "2",
        "PILOTIS_LIMITS_CERTIFICATES_PER_HOUR": "4",
        "PILOTIS_SITES_BASE_URL": f"https://{SITES}",
    }
    with certified(folder, **settings) as (server, acme), running(server):
        # Both workers have it.
        await until(lambda: all(serial(server) for _ in range(8)))
        site = await new_site(new_app(server, first_console_user(server)))
        await site.deploy({"index.html": b"home"})
        connection = await connect(server)
        yield World(server, acme, site, connection)
        await connection.close()


async def test_a_verified_domain_gets_a_certificate_at_its_first_handshake(world: World):
    await world.domain("cafe.example", verified=True)
    await asyncio.sleep(0.3)
    assert world.acme.ordered("cafe.example") == []
    await until(lambda: serial(world.server, "cafe.example"))
    # Both workers have it.
    await until(lambda: all(serial(world.server, "cafe.example") for _ in range(8)))
    assert world.server.get("/", "cafe.example", world.acme.authority.ca_file).text == "home"
    assert world.server.plain("/menu", "cafe.example").headers["location"].startswith("https://cafe.example")
    assert len(world.acme.ordered("cafe.example")) == 1


async def test_a_site_below_the_servers_domain_gets_a_certificate_for_each_of_its_channels(world: World):
    await world.connection.execute("delete from pilotis.https_orders")
    name = f"{world.site.slug}.{SITES}"
    await until(lambda: serial(world.server, name))
    await until(lambda: all(serial(world.server, name) for _ in range(8)))
    assert world.server.get("/", name, world.acme.authority.ca_file).text == "home"
    assert world.server.plain("/menu", name).headers["location"] == f"https://{name}:{world.server.https}/menu"
    # What is there, and no more: nothing is in QA, a version has no certificate, and there is no such site.
    empty = await new_site(world.site.app, name="empty")
    others = [f"{world.site.slug}--qa", f"{world.site.slug}--v1", "none", "none--qa", empty.slug, "a.b", "-", "*"]
    before = len(world.acme.orders)
    for other in others:
        assert serial(world.server, f"{other}.{SITES}") is None
    await world.site.deploy({"index.html": b"draft"}, target="qa")
    qa = f"{world.site.slug}--qa.{SITES}"
    await until(lambda: all(serial(world.server, qa) for _ in range(8)))
    assert world.server.get("/", qa, world.acme.authority.ca_file).text == "draft"
    assert [one.name for one in world.acme.orders[before:]] == [qa]
    # It is renewed, by whichever process has the job.
    await world.connection.execute("update pilotis.https_certificates set renew_at = now() where name = $1", name)
    old = serial(world.server, name)
    await world.connection.execute("delete from pilotis.https_orders")
    await order(world, name)
    await until(lambda: old not in [serial(world.server, name) for _ in range(8)])


async def test_names_of_sites_leave_domains_half_of_the_orders(world: World):
    await world.connection.execute("delete from pilotis.https_orders")
    made = [await new_site(world.site.app, name=f"many-{number}") for number in range(4)]
    for site in made:
        await site.deploy({"index.html": b"home"})
    names = [f"{site.slug}.{SITES}" for site in made]
    before = len(world.acme.orders)

    async def all_asked() -> bool:
        for name in names:
            serial(world.server, name)
        waiting = (
            "select count(*) from pilotis.jobs where kind = 'certificates.order' and run_at > now() + '50 minutes'"
            " and subject = any($1)"
        )
        return await world.connection.fetchval(waiting, names) == 2

    await until(all_asked)
    assert len(world.acme.orders) - before == 2
    await world.domain("beside.example", verified=True)
    await until(lambda: serial(world.server, "beside.example"))
    await world.connection.execute("delete from pilotis.jobs where subject = any($1)", names)
    await world.connection.execute("delete from pilotis.https_orders")


async def test_the_certificate_of_a_site_that_is_gone_is_deleted_once_it_has_ended(world: World):
    site = await new_site(world.site.app, name="gone")
    await site.deploy({"index.html": b"home"})
    name = f"{site.slug}.{SITES}"
    await world.connection.execute("delete from pilotis.https_orders")
    await until(lambda: serial(world.server, name))
    await world.connection.execute("delete from pilotis.web_storages where storage_id = $1", site.id)
    statement = "update pilotis.https_certificates set renew_at = now(), not_after = now() + $2 where name = $1"
    await world.connection.execute(statement, name, timedelta(days=1))
    orders = len(world.acme.orders)
    await order(world, name)
    assert await world.certificate(name) is not None
    await world.connection.execute(statement, name, -timedelta(seconds=1))
    await until(lambda: is_deleted(world, name))
    assert len(world.acme.orders) == orders


async def is_deleted(world: World, name: str) -> bool:
    await run_periodic(world.connection)
    return await world.certificate(name) is None


async def test_strangers_names_are_never_ordered(world: World):
    await world.domain("unverified.example", verified=False)
    orders = len(world.acme.orders)
    names = ["unverified.example", "evil.example", f"x.{NAME}", "cafe.example.evil.example", "a" * 63 + ".example"]
    for name in names:
        assert serial(world.server, name) is None
    for name in names:
        assert world.server.plain("/", name).headers["location"].startswith(f"https://{NAME}")
    # What is ordered after them is ordered: the handshakes before would have been, too.
    await world.domain("later.example", verified=True)
    await until(lambda: serial(world.server, "later.example"))
    assert [one.name for one in world.acme.orders[orders:]] == ["later.example"]
    known = await world.connection.fetch("select name from pilotis.https_certificates where name = any($1)", names)
    assert known == []


async def test_challenges_are_answered_for_their_name_alone(world: World):
    await world.connection.execute(
        "insert into pilotis.https_challenges (token, name, answer) values ('token-of-a-test-1', $1, 'the answer'),"
        " ('token-of-a-test-2', 'evil.example', 'the answer'), ('token-of-a-test-3', $1, 'old')",
        NAME,
    )
    await world.connection.execute(
        "update pilotis.https_challenges set created_at = now() - interval '2 hours' where token = 'token-of-a-test-3'"
    )
    path = "/.well-known/acme-challenge"
    for _ in range(4):
        found = world.server.plain(f"{path}/token-of-a-test-1")
        assert (found.status_code, found.text) == (200, "the answer")
    assert world.server.plain(f"{path}/token-of-a-test-1", "cafe.example").status_code == 404
    assert world.server.plain(f"{path}/token-of-a-test-2", "evil.example").status_code == 404
    assert world.server.plain(f"{path}/token-of-a-test-3").status_code == 404
    for odd in ("token-of-a-test-1/", "%74oken-of-a-test-1", "' or true--", "", "x" * 5000, "a b", "..%2fhealthz"):
        assert world.server.plain(f"{path}/{odd}").status_code == 404
    await world.connection.execute("delete from pilotis.https_challenges")


async def test_a_refused_name_waits_and_is_told_of(world: World):
    world.acme.refused.add("moved.example")
    await world.domain("moved.example", verified=True)
    await until(lambda: serial(world.server, "moved.example") or len(world.acme.ordered("moved.example")) or None)
    row = await until(lambda: world.certificate("moved.example"))
    assert (row["failures"], row["chain"]) == (1, None)
    assert "does not lead here" in row["error"]
    assert timedelta(seconds=50) < row["next_try_at"] - datetime.now(UTC) < timedelta(seconds=61)
    # Neither handshakes nor jobs ask again before that.
    assert serial(world.server, "moved.example") is None
    await order(world, "moved.example")
    assert len(world.acme.ordered("moved.example")) == 1
    for failures, seconds in ((1, 180), (2, 540), (8, 86400)):
        await world.connection.execute(
            "update pilotis.https_certificates set next_try_at = now(), failures = $2 where name = $1",
            "moved.example",
            failures,
        )
        # A domain may be asked for only so often: see the next test.
        await world.connection.execute("delete from pilotis.https_orders")
        await order(world, "moved.example")
        row = await world.certificate("moved.example")
        assert row["failures"] == failures + 1
        assert seconds - 20 < (row["next_try_at"] - datetime.now(UTC)).total_seconds() < seconds + 1


async def test_so_many_domains_are_ordered_in_an_hour_and_the_servers_own_names_always(world: World):
    await world.connection.execute("delete from pilotis.https_orders")
    names = [f"shop{number}.example" for number in range(6)]
    for name in names:
        await world.domain(name, verified=True)
    before = len(world.acme.orders)

    async def all_asked() -> bool:
        for name in names:
            serial(world.server, name)
        waiting = (
            "select count(*) from pilotis.jobs where kind = 'certificates.order' and run_at > now() + '50 minutes'"
        )
        return await world.connection.fetchval(waiting) == 2

    await until(all_asked)
    assert len(world.acme.orders) - before == 4
    await world.connection.execute("update pilotis.https_certificates set renew_at = now() where name = $1", NAME)
    await order(world, NAME)
    assert len(world.acme.orders) - before == 5


async def test_a_renewal_that_fails_leaves_the_old_certificate(world: World):
    await world.connection.execute("delete from pilotis.https_orders")
    # Neither worker still has the one before it.
    old = x509.load_pem_x509_certificate((await world.certificate(NAME))["chain"].encode()).serial_number
    await until(lambda: {serial(world.server) for _ in range(8)} == {old})
    world.acme.refused.add(NAME)
    await world.connection.execute("update pilotis.https_certificates set renew_at = now() where name = $1", NAME)
    await order(world, NAME)
    assert (await world.certificate(NAME))["failures"] == 1
    assert serial(world.server) == old
    world.acme.refused.clear()
    await world.connection.execute("update pilotis.https_certificates set next_try_at = now() where name = $1", NAME)
    await order(world, NAME)
    await until(lambda: old not in [serial(world.server) for _ in range(8)])
    row = await world.certificate(NAME)
    assert (row["failures"], row["error"], row["next_try_at"]) == (0, None, None)


async def test_an_account_that_the_authority_has_lost_is_created_again(world: World):
    world.acme.accounts.clear()
    await world.connection.execute("update pilotis.https_certificates set renew_at = now() where name = $1", NAME)
    await order(world, NAME)
    assert "no such account" in (await world.certificate(NAME))["error"]
    await world.connection.execute("update pilotis.https_certificates set next_try_at = now() where name = $1", NAME)
    await order(world, NAME)
    assert (await world.certificate(NAME))["error"] is None
    assert len(world.acme.accounts) == 1


async def test_a_domain_that_is_removed_is_served_no_more(world: World):
    assert serial(world.server, "cafe.example")
    await world.connection.execute("delete from pilotis.web_domains where hostname = 'cafe.example'")
    await world.connection.execute("select pg_notify('pilotis', 'site:domains')")
    await until(lambda: all(serial(world.server, "cafe.example") is None for _ in range(8)))


async def test_a_dead_authority_delays_nobody_and_ari_is_followed(tmp_path: Path):
    with certified(tmp_path) as (server, acme):
        begin = datetime.now(UTC) + timedelta(days=30)
        acme.renewal_window = (begin, begin + timedelta(hours=1))
        with running(server):
            old = await until(lambda: serial(server))
            connection = await connect(server)
            await insert_certificate_of_another_authority(connection, tmp_path, OTHER)
            await until(lambda: periodic_has_run(connection, server, acme))
            row = await stored(connection, OTHER)
            assert timedelta(minutes=59) < row["ask_at"] - datetime.now(UTC) < timedelta(minutes=61)
            assert timedelta(minutes=59) < row["renew_at"] - datetime.now(UTC) < timedelta(minutes=61)
            row = await stored(connection, NAME)
            assert begin <= row["renew_at"] <= begin + timedelta(hours=1)
            assert timedelta(hours=5) < row["ask_at"] - datetime.now(UTC) < timedelta(hours=7)
            # An order that the end of the server interrupts fails too.
            acme.is_dead = True
            await connection.execute("update pilotis.https_certificates set renew_at = now()")
            await connection.close()
        with running(server):
            assert await until(lambda: serial(server)) == old
            connection = await connect(server)
            row = await until(lambda: failed(connection))
            assert "cannot be reached" in row["error"]
            assert serial(server) == old
            acme.is_dead = False
            await connection.execute("update pilotis.https_certificates set next_try_at = now()")
            acme.asked_for_renewal = 0
            await until(lambda: periodic_has_run(connection, server, acme))
            await until(lambda: serial(server) not in {None, old})
            await connection.close()


async def insert_certificate_of_another_authority(connection: asyncpg.Connection, folder: Path, name: str) -> None:
    """Store a certificate that the authority does not know, and that is asked for first."""
    (other := folder / "other").mkdir()
    leaf = Authority(other).signed(ec.generate_private_key(ec.SECP256R1()).public_key(), name, days=60)
    await connection.execute(
        """
        insert into pilotis.https_certificates
            (name, chain, private_key, not_before, not_after, issued_at, renew_at, ask_at)
        values ($1, $2, '', $3, $4, now(), now() + interval '1 hour', now() - interval '1 day')
        """,
        name,
        leaf.public_bytes(Encoding.PEM).decode(),
        leaf.not_valid_before_utc,
        leaf.not_valid_after_utc,
    )


async def failed(connection: asyncpg.Connection) -> asyncpg.Record | None:
    row = await stored(connection, NAME)
    return row if row["failures"] else None


async def periodic_has_run(connection: asyncpg.Connection, server: HttpsServer, acme: AcmeServer) -> bool:
    """Have the periodic task run, unless it has asked when to renew."""
    await run_periodic(connection)
    row = await stored(connection, NAME)
    return acme.asked_for_renewal > 0 and row["ask_at"] > datetime.now(UTC)


async def run_periodic(connection: asyncpg.Connection) -> None:
    """Have the periodic task run soon."""
    await connection.execute(
        """
        insert into pilotis.jobs (app_id, job_id, queue, kind, key, payload, run_at)
        values ('00000000-0000-0000-0000-000000000000', gen_random_uuid(), 'light', 'certificates.due',
            'certificates.due', '{}', now())
        on conflict do nothing
        """
    )
    await connection.execute("select pg_notify('pilotis', 'work:light')")


async def order(world: World, name: str) -> None:
    """Run the job of a name, and wait until it has ended."""
    values = (name, f'{{"name": "{name}"}}')
    await world.connection.execute(
        """
        insert into pilotis.jobs (app_id, job_id, queue, kind, key, subject, payload, run_at)
        values ('00000000-0000-0000-0000-000000000000', gen_random_uuid(), 'certificates', 'certificates.order',
            $1, $1, $2::jsonb, now())
        on conflict do nothing
        """,
        *values,
    )
    await world.connection.execute("select pg_notify('pilotis', 'work:certificates')")

    async def ended() -> bool:
        query = "select count(*) from pilotis.jobs where kind = 'certificates.order' and key = $1"
        return not await world.connection.fetchval(query, name)

    await until(ended)
