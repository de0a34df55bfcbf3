"""`pilotis deploy` and its companions, as a person or a build runs them."""

import json
from pathlib import Path

from tests.branches.previews import branch_of
from tests.commands import run_beside
from tests.hosting.sites import PAGES, Site, new_site, zipped
from tests.support import App, assert_error


async def run(site: Site, place: Path, *arguments: str, status: int = 0, secret: str | None = None) -> str:
    """Run a command in a directory and return what it printed."""
    secret = site.app.secret_key if secret is None else secret
    done = await run_beside(*arguments, folder=place, PILOTIS_SECRET_KEY=secret)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def written(place: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(data)


async def test_a_directory_is_deployed_promoted_and_rolled_back(app: App, tmp_path: Path):
    site = await new_site(app)
    written(tmp_path / "dist", {**PAGES, ".env": b"secret", ".well-known/security.txt": b"Contact: x"})
    (tmp_path / ".pilotis.toml").write_text(
        f'url = "{app.server.url}"\npublic_key = "{app.public_key}"\nstorage = "{site.id}"\ndirectory = "dist"\n'
    )
    first = await run(site, tmp_path, "deploy", "--message", "the first")
    assert first == f"Version 1 deployed: {site.storage['url']}\n"
    assert (await site.get("/")).content == PAGES["index.html"]
    assert (await site.get("/.well-known/security.txt")).content == b"Contact: x"
    assert b"secret" not in (await site.get("/.env")).content
    assert "unchanged" in await run(site, tmp_path, "deploy")

    written(tmp_path / "dist", {"index.html": b"second"})
    (tmp_path / "dist" / "about.html").unlink()
    qa = json.loads(await run(site, tmp_path, "deploy", "--qa", "--json"))
    assert (qa["version"], qa["site_url"]) == (2, site.storage["qa_url"])
    assert qa["changes"] == {"added": 0, "changed": 1, "removed": 1}
    assert (await site.get("/")).content == PAGES["index.html"]
    assert (await run(site, tmp_path, "promote")).startswith("Version 2 is production")
    assert (await site.get("/")).content == b"second"
    assert (await run(site, tmp_path, "rollback")).startswith("Version 1 is production")
    assert (await site.get("/")).content == PAGES["index.html"]
    listed = await run(site, tmp_path, "deployments")
    assert [line.split()[0] for line in listed.splitlines()] == ["v2", "v1"]
    assert "production" in listed.splitlines()[1]
    assert "the first" in listed.splitlines()[1]
    assert "no earlier deployment" in await run(site, tmp_path, "rollback", status=1)


async def test_only_changed_files_are_sent_whatever_their_size(app: App, tmp_path: Path):
    site = await new_site(app)
    video = bytes(range(256)) * 40_000
    files = {"index.html": b"", "video.mp4": video, "copy/video.mp4": video} | {f"{n}.js": b"%d" % n for n in range(20)}
    written(tmp_path, files)
    options = ["--storage", site.id, "--url", app.server.url, "--public-key", app.public_key, "--json"]
    first = json.loads(await run(site, tmp_path, "deploy", ".", *options))
    assert first["uploaded_size"] == len(video) + sum(len(f"{n}") for n in range(20))
    assert (await site.get("/copy/video.mp4")).content == video
    assert (await site.get("/")).content == b""
    written(tmp_path, {"7.js": b"changed"})
    second = json.loads(await run(site, tmp_path, "deploy", ".", *options))
    assert second["changes"] == {"added": 0, "changed": 1, "removed": 0}
    assert second["uploaded_size"] == len(b"changed")


async def test_a_preview_uses_a_branch_of_the_app(app: App, tmp_path: Path):
    site = await new_site(app)
    branch = await branch_of(app)
    page = f"<script>start('{app.public_key}'); again('{app.public_key}')</script>".encode()
    written(tmp_path / "dist", {"index.html": page, "plain.txt": b"no key"})
    options = ["--storage", site.id, "--url", app.server.url, "--public-key", app.public_key]
    await run(site, tmp_path, "deploy", "dist", *options)
    preview = json.loads(await run(site, tmp_path, "deploy", "dist", *options, "--branch", "pr-17", "--json"))
    assert (preview["site_url"], preview["message"]) == (site.storage["qa_url"], "Preview of the branch pr-17")
    assert preview["changes"] == {"added": 0, "changed": 1, "removed": 0}
    assert (await site.get("/")).content == page
    assert (tmp_path / "dist" / "index.html").read_bytes() == page
    of_branch = page.replace(app.public_key.encode(), branch.public_key.encode())
    assert (await site.get("/", suffix="--qa")).content == of_branch
    # One that was built with the branch's key stays as it is; one with neither would use the app.
    written(tmp_path / "dist", {"index.html": of_branch + b" built with it"})
    await run(site, tmp_path, "deploy", "dist", *options, "--branch", "pr-17")
    assert (await site.get("/", suffix="--qa")).content == of_branch + b" built with it"
    written(tmp_path / "dist", {"index.html": b"neither"})
    said = await run(site, tmp_path, "deploy", "dist", *options, "--branch", "pr-17", status=1)
    assert branch.public_key in said
    assert "no branch pr-18" in await run(site, tmp_path, "deploy", "dist", *options, "--branch", "pr-18", status=1)
    for path, body in (
        ("/deploy", {"files": {"file": ("site.zip", zipped(PAGES))}}),
        ("/deploy/incremental", {"json": {}}),
    ):
        answer = await site.send("POST", f"{path}?branch=pr-18", **body)
        assert [one["field"] for one in assert_error(answer, 400, "VALIDATION_FAILED")["details"]] == ["branch"]
    # It is not promoted by its id, nor as the newest one.
    listed = (await site.send("GET", "/deployments")).json()["deployments"]
    assert [one.get("branch") for one in listed] == ["pr-17", "pr-17", None]
    assert "ends with it" in await run(site, tmp_path, "promote", listed[0]["id"], *options, status=1)
    await run(site, tmp_path, "promote", *options)
    assert (await site.get("/")).content == page
    both = ["--branch", "pr-17", "--promote"]
    assert "is not promoted" in await run(site, tmp_path, "deploy", "dist", *options, *both, status=2)


async def test_what_is_wrong_is_said(app: App, tmp_path: Path):
    site = await new_site(app)
    written(tmp_path, {"index.html": b"x"})
    options = ["--storage", site.id, "--url", app.server.url, "--public-key", app.public_key]
    assert "INVALID_SECRET_KEY" in await run(site, tmp_path, "deploy", ".", *options, status=1, secret="sk_wrong")
    assert "--storage" in await run(site, tmp_path, "deploy", ".", status=2)
    assert "PILOTIS_SECRET_KEY" in await run(site, tmp_path, "deploy", ".", *options, status=2, secret="")
    (tmp_path / ".pilotis.toml").write_text('secret_key = "sk_x"\n')
    assert "PILOTIS_SECRET_KEY" in await run(site, tmp_path, "deploy", ".", *options, status=1)
