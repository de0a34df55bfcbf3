"""`pilotis deploy`, `deployments`, `promote` and `rollback`: a site's deployments, over HTTP."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from pilotis.apps.keys import SECRET_PREFIX, app_of
from pilotis.cli import project_settings
from pilotis.cli.project_settings import FILE_NAME
from pilotis.cli.remote import DEFAULT_URL, RejectedError, Remote, secret_key, send
from pilotis.hosting.paths import check_file_path, is_hidden, is_junk
from pilotis.serve.errors import CommandError

_CONCURRENT_UPLOADS = 8
_ATTEMPTS = 4


class Site(Remote):
    """A web storage on a server, reached with a public and a secret key; `directory` is deployed by default."""

    def __init__(self, url: str, public_key: str, secret_key: str, storage: str, directory: str) -> None:
        self.directory = directory
        self.public_key = public_key
        self._storage = storage
        self._branches = (f"{url.rstrip('/')}/v1/apps", secret_key)
        base = f"{url.rstrip('/')}/v1/public/storages/webs"
        headers = {"X-Public-Key": public_key, "Authorization": f"Bearer {secret_key}"}
        super().__init__(f"{base}/{storage}", headers)
        self._all = Remote(base, headers)

    def branch_key(self, name: str) -> str:
        """Return the public key of a branch of the app."""
        base, key = self._branches
        app_id = app_of(key, SECRET_PREFIX)
        if app_id is None:
            raise CommandError("This is no secret key of an app.")
        for one in Remote(base, {"Authorization": f"Bearer {key}"}).ask("GET", f"/{app_id}/branches?limit=100")["data"]:
            if one["name"] == name and one["state"] == "ready":
                found: str = one["public_key"]
                return found
        raise CommandError(f"The app has no branch {name}. `pilotis branch create {name}` creates it.")

    def storage(self) -> dict[str, Any]:
        """Return the storage."""
        offset = 0
        while True:
            page = self._all.ask("GET", f"?limit=1000&offset={offset}")
            for one in page["storages"]:
                if one["id"] == self._storage:
                    found: dict[str, Any] = one
                    return found
            offset += len(page["storages"])
            if not page["storages"]:
                raise CommandError("The app of this key has no such web storage.")


class _File(NamedTuple):
    path: Path
    hash: str
    size: int


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that identify the storage to a command, which receives a `Site`."""

    @click.option("--storage", metavar="ID", help="The web storage's id.")
    @click.option("--url", envvar="PILOTIS_URL", help="The server's address. Default: http://127.0.0.1:8090.")
    @click.option("--public-key", envvar="PILOTIS_PUBLIC_KEY", metavar="KEY", help="The app's public key.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(function)
    def invoke(storage: str | None, url: str | None, public_key: str | None, as_json: bool, **given: Any) -> None:
        known = project_settings.read(Path())
        storage = storage or known.storage
        public_key = public_key or known.public_key
        if not storage or not public_key:
            missing = "--storage" if not storage else "--public-key"
            raise click.UsageError(f"Name it by {missing}, or in {FILE_NAME}.")
        address = url or known.url or DEFAULT_URL
        remote = Site(address, public_key, secret_key(), storage, known.directory or ".")
        text, fields = function(remote, **given)
        click.echo(json.dumps(fields, indent=2) if as_json else text)

    return invoke


@click.command()
@click.argument(
    "directory",
    required=False,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory with the built site; by default that of .pilotis.toml.",
)
@click.option("--qa", is_flag=True, help="Deploy to QA, whatever the storage's mode.")
@click.option("--branch", metavar="NAME", help="Deploy a preview to QA that uses a branch of the app.")
@click.option("--promote", "promoted", is_flag=True, help="Promote it to production afterwards.")
@click.option("--message", help="A description of the deployment.")
@_options
def deploy(
    remote: Site,
    directory: Path | None,
    qa: bool,
    branch: str | None,
    promoted: bool,
    message: str | None,
) -> tuple[str, Any]:
    """Deploy the files of a directory: only changed files are uploaded.

    With --branch, each place where a file has the app's public key gets that of the branch; the directory stays as it
    is. Such a preview is never promoted.

    The secret key is read from PILOTIS_SECRET_KEY, or asked for; never from a file.
    """
    if branch is not None and promoted:
        raise click.UsageError("A preview that uses a branch is not promoted: it ends with the branch.")
    place = directory or Path(remote.directory)
    files = dict(_files(place))
    if not files:
        raise CommandError(f"{place} has no files to deploy.")
    if branch is None:
        result = _deployed(remote, files, qa=qa, message=message)
    else:
        with TemporaryDirectory() as folder:
            preview = _using(remote.branch_key(branch), remote.public_key, files, Path(folder))
            message = message or f"Preview of the branch {branch}"
            result = _deployed(remote, preview, qa=True, message=message, branch=branch)
    deployment = result["deployment"]
    if promoted:
        deployment = remote.ask("POST", "/promote", {"deployment_id": deployment["id"]})["deployment"]
    storage = remote.storage()
    url = deployment["url"]
    if storage["production_deployment_id"] == deployment["id"]:
        url = storage["url"]
    elif storage["qa_deployment_id"] == deployment["id"]:
        url = storage["qa_url"]
    state = "unchanged" if result["unchanged"] else "deployed"
    return f"Version {deployment['version']} {state}: {url}", {**deployment, "site_url": url}


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="Maximum number of deployments. Default: 20.")
@_options
def deployments(remote: Site, limit: int) -> tuple[str, Any]:
    """List deployments, newest first."""
    found = remote.ask("GET", f"/deployments?limit={limit}")
    lines = []
    for one in found["deployments"]:
        marks = [name for name, is_it in (("production", one["is_production"]), ("qa", one["is_qa"])) if is_it]
        about = f"  {one['message']}" if one["message"] else ""
        version = f"v{one['version']}" if one["version"] else "-"
        lines.append(f"{version}  {one['id']}  {one['status']}  {one['created_at']}  {' '.join(marks)}{about}".rstrip())
    return "\n".join(lines) or "Nothing has been deployed yet.", found


@click.command()
@click.argument(
    "deployment_id", required=False, type=click.UUID, help="The deployment; by default the newest ready one."
)
@_options
def promote(remote: Site, deployment_id: Any) -> tuple[str, Any]:
    """Promote a deployment to production: by default the newest ready one."""
    return _promoted(remote, str(deployment_id) if deployment_id else None)


@click.command()
@_options
def rollback(remote: Site) -> tuple[str, Any]:
    """Return production to the newest ready deployment before the current one."""
    current: int | None = None
    offset = 0
    while page := remote.ask("GET", f"/deployments?status=ready&limit=1000&offset={offset}")["deployments"]:
        for one in page:
            if current is not None and one["version"] < current and "branch" not in one:
                return _promoted(remote, one["id"])
            if one["is_production"]:
                current = one["version"]
        offset += len(page)
    raise CommandError("There is no earlier deployment to go back to.")


def _promoted(remote: Site, deployment_id: str | None) -> tuple[str, Any]:
    done = remote.ask("POST", "/promote", {"deployment_id": deployment_id} if deployment_id else {})
    return f"Version {done['deployment']['version']} is production: {remote.storage()['url']}", done


def _deployed(
    remote: Site, files: dict[str, _File], *, qa: bool, message: str | None, branch: str | None = None
) -> Any:
    """Upload what differs from the base deployment; after someone else's deploy, what differs from that."""
    by_hash = {file.hash: file for file in files.values()}
    path = "/deploy/incremental" + (f"?branch={quote(branch, safe='')}" if branch else "")
    for _ in range(_ATTEMPTS):
        base = remote.ask("GET", f"/deploy/manifest{'?channel=qa' if qa else ''}")
        if base["deployment_id"] is None:
            base = remote.ask("GET", "/deploy/manifest?channel=latest")
        known = {one["path"]: one["hash"] for one in base["files"]}
        changed = {path: file for path, file in files.items() if known.get(path) != file.hash}
        request: dict[str, Any] = {
            "base_deployment_id": base["deployment_id"],
            "upserts": [{"path": path, "hash": file.hash, "size": file.size} for path, file in changed.items()],
            "deletes": sorted(known.keys() - files.keys()),
            "message": message,
            **({"target": "qa"} if qa else {}),
        }
        try:
            while (result := remote.ask("POST", path, request))["deployment"] is None:
                _upload(result["missing"], by_hash)
        except RejectedError as error:
            if error.code != "BASE_DEPLOYMENT_CHANGED":
                raise
            continue
        return result
    raise CommandError("Others keep deploying to this storage. Try again later.")


def _upload(missing: list[dict[str, Any]], by_hash: dict[str, _File]) -> None:
    def upload(one: dict[str, Any]) -> int:
        send(one["method"], one["upload_url"], one["headers"], by_hash[one["hash"]].path)
        size: int = one["size"]
        return size

    total = sum(one["size"] for one in missing)
    label = f"Uploading {len(missing)} file{'s' if len(missing) > 1 else ''}"
    with (
        ThreadPoolExecutor(_CONCURRENT_UPLOADS) as threads,
        click.progressbar(length=max(total, 1), label=label, file=sys.stderr) as bar,
    ):
        for size in threads.map(upload, missing):
            bar.update(size)


def _using(branch_key: str, public_key: str, files: dict[str, _File], folder: Path) -> dict[str, _File]:
    """Return the files with the key of a branch in place of the app's; those with it are written to a folder."""
    changed = {}
    has_key = False
    for number, (path, file) in enumerate(files.items()):
        data = file.path.read_bytes()
        has_key = has_key or branch_key.encode() in data
        if public_key.encode() in data:
            data = data.replace(public_key.encode(), branch_key.encode())
            (folder / str(number)).write_bytes(data)
            changed[path] = _File(folder / str(number), hashlib.sha256(data).hexdigest(), len(data))
    if not changed and not has_key:
        raise CommandError(
            f"No file has the app's public key, so that none can be given that of the branch: build with {branch_key}."
        )
    return {**files, **changed}


def _files(directory: Path) -> Iterator[tuple[str, _File]]:
    """Yield the files of a site by path, except hidden files and those that operating systems create."""
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if not path.is_file() or is_hidden(name) or is_junk(name):
            continue
        try:
            checked = check_file_path(name)
        except ValueError as error:
            raise CommandError(f"{path}: {error}") from None
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield checked, _File(path, digest, path.stat().st_size)
