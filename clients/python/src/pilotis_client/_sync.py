"""The synchronous client, written from `_async.py` by `generate.py`: change that one."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, overload

import httpx

from pilotis_client import _shared
from pilotis_client._shared import (
    ApiError,
    Change,
    ChannelEvent,
    Data,
    Operations,
    Page,
    Row,
    Storage,
    filled,
    page_of,
    path,
    row_of,
)

_MEMBERS = "/v1/public/app-members"
_REALTIME = "/v1/public/realtime"
_MAX_DEVICES = 5
_SILENCE = 50.0  # Seconds without a line, after which a stream is dead: the server says something every 20.


class Http:
    """Sends requests: with credentials, repeated where that is safe, within a time."""

    def __init__(
        self,
        url: str,
        public_key: str,
        secret_key: str | None,
        storage: Storage | None,
        timeout: float,
        retries: int,
        transport: httpx.BaseTransport | None,
        parse_float: Callable[[str], Any] | None,
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout, self.retries = timeout, retries
        self.server_version: str | None = None
        self.clock = _shared.Clock()
        self._public_key, self._secret_key = public_key, secret_key
        self._parse_float = parse_float
        self._client = httpx.Client(transport=transport)
        self.sessions = Sessions(self, public_key, storage or _shared.MemoryStorage())

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def json(self, method: str, place: str, **sent: Any) -> Any:
        """Return the JSON of an answer, None if it is empty; see `send`."""
        response = self.send(method, place, **sent)
        if not response.content:
            return None
        try:
            return json.loads(response.content, parse_float=self._parse_float)
        except ValueError as error:
            raise ApiError(response.status_code, "BAD_ANSWER", "The answer is not JSON.") from error

    def send(
        self,
        method: str,
        place: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        token: str | None = None,
        auth: bool = True,
        reads: bool = False,
        once: bool = False,
        stream: bool = False,
        is_callers: bool = False,
        timeout: float | None = None,
        hears: Callable[[httpx.Response], object] | None = None,
    ) -> httpx.Response:
        """Return an answer with a status below 400; raises `ApiError`.

        `token` is the credential in place of the member's, `auth` says whether there is any; `reads` that a POST only
        reads, `once` that the caller repeats the request, `stream` that the caller reads and closes the answer, and
        `is_callers` that the caller has chosen the path, which may be wrong. `hears` is given each answer, or error.
        """
        elsewhere = place.startswith(("http://", "https://"))
        lines = dict(headers or {}) if elsewhere else {"X-Public-Key": self._public_key, **(headers or {})}
        writes = method in {"POST", "PATCH"} and not reads and content is None
        if writes:
            lines.setdefault("Idempotency-Key", str(uuid.uuid4()))
        if body is not None:
            lines["Content-Type"] = "application/json"
            content = json.dumps(body, default=_encoded).encode()
        given = {name: _parameter(value) for name, value in (query or {}).items() if value is not None}
        seconds = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        retries = 0 if once or (method in {"POST", "PATCH"} and not (writes or reads)) else self.retries
        number, renewed, lost = 0, False, False
        # Such as the token of a member who has called this program.
        is_given = "Authorization" in lines
        while True:
            used = self._authorize(lines, token, auth) if not is_given else None
            try:
                request = self._client.build_request(
                    method,
                    place if elsewhere else self.url + place,
                    params=given or None,
                    headers=lines,
                    content=content,
                    timeout=_SILENCE if stream else max(0.001, deadline - time.monotonic()),
                )
                response = self._client.send(request, stream=stream)
                self._notice(response)
                if hears is not None:
                    hears(response)
                if response.status_code < 400:
                    return response
                response.read()
                own_route = None if elsewhere or is_callers else f"{method} {place}"
                failed = _shared.error_of(response, own_route)
            except httpx.TimeoutException as error:
                raise ApiError(0, "TIMEOUT", f"No answer within {seconds} s.") from error
            except httpx.TransportError as error:
                failed = ApiError(0, "NETWORK", f"No answer from {self.url}.")
                failed.__cause__ = error
            is_own = auth and token is None and self._secret_key is None
            if failed.status == 401 and failed.code == "INVALID_TOKEN" and used and is_own and not renewed:
                self.sessions.reject(used)
                renewed = True
                continue
            # What was deleted by a request without an answer is not there for the next one.
            if method == "DELETE" and lost and failed.status == 404:
                return httpx.Response(204)
            lost = lost or failed.status == 0 or failed.status >= 502
            left = deadline - time.monotonic()
            if number >= retries or not failed.passes or left <= 0:
                raise failed
            time.sleep(_shared.pause(number, failed.retry_after, left))
            number += 1

    def _authorize(self, lines: dict[str, str], token: str | None, auth: bool) -> str | None:
        """Add the credential, in place of that of an earlier attempt, and return it."""
        lines.pop("Authorization", None)
        used = token
        if auth and token is None:
            used = self._secret_key or self.sessions.token()
        if used is not None:
            lines["Authorization"] = f"Bearer {used}"
        return used

    def events(self, body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the events of a stream and their data, and go on after a lost connection; raises `ApiError`."""
        last: str | None = None
        stream: str | None = None
        number = 0
        while True:
            wait: float | None = None
            try:
                # Where the one before was present, this one is in its place.
                asked = {**body, **filled(after=last, stream=stream)}
                response = self.send("POST", _REALTIME, body=asked, reads=True, once=True, stream=True)
            except ApiError as error:
                if not error.passes:
                    raise
                wait = error.retry_after
            else:
                fields: dict[str, str] = {}
                try:
                    for line in response.iter_lines():
                        if line:
                            name, _, fields[name] = line.partition(": ")
                            continue
                        if "data" in fields:
                            number = 0
                            told = json.loads(fields["data"], parse_float=self._parse_float)
                            yield fields["event"], told
                            stream = told["stream"] if fields["event"] == "ready" else stream
                            wait = told["retry_ms"] / 1000 if fields["event"] == "bye" else None
                        last = fields.get("id", last)
                        fields = {}
                except httpx.TransportError:
                    pass
                finally:
                    response.close()
            time.sleep(_shared.pause(number, wait, self.timeout))
            number += 1

    def _notice(self, response: httpx.Response) -> None:
        self.server_version = response.headers.get("X-Pilotis-Version", self.server_version)
        self.clock.notice(response)


class Sessions:
    """The session of a member: stored, and renewed before it expires."""

    def __init__(self, http: Http, public_key: str, storage: Storage) -> None:
        self._http, self._storage = http, storage
        self._name = f"pilotis:{public_key}"
        self._rejected: str | None = None
        self._lock = threading.Lock()

    def get(self) -> dict[str, str] | None:
        """Return the session that is stored, or None."""
        try:
            found: dict[str, str] | None = json.loads(self._storage.get(self._name) or "null")
        except ValueError:
            return None
        return found

    def set(self, session: Mapping[str, Any]) -> None:
        """Store a session."""
        kept = {name: session[name] for name in ("member_id", "access_token", "refresh_token")}
        self._storage.set(self._name, json.dumps(kept))

    def clear(self) -> None:
        """Forget the session."""
        self._storage.remove(self._name)

    def devices(self) -> str:
        """Return the tokens by which the server knows this device of members, as a header has them."""
        return ",".join(self._known().values())

    def add_device(self, member: str, token: str) -> None:
        """Keep the token of a member, "" for one who has not signed in yet, with those of the last others."""
        others = {name: value for name, value in self._known().items() if name != member}
        kept = [*others.items(), (member, token)][-_MAX_DEVICES:]
        self._storage.set(f"{self._name}:devices", json.dumps(dict(kept)))

    def _known(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads(self._storage.get(f"{self._name}:devices") or "{}")
        except ValueError:
            return {}
        return found

    def reject(self, token: str) -> None:
        """Take note that the server rejected an access token."""
        self._rejected = token

    def token(self) -> str | None:
        """Return an access token that is valid for a while, or None without a session."""
        session = self.get()
        if session is None or self._is_fresh(session):
            return None if session is None else session["access_token"]
        with self._lock:
            # A pair that was lost for long has an access token that has expired.
            for _ in range(3):
                session = self.get()
                if session is None or self._is_fresh(session):
                    break
                self._renew(session)
        return None if session is None else session["access_token"]

    def _is_fresh(self, session: Mapping[str, str]) -> bool:
        return session["access_token"] != self._rejected and self._http.clock.is_fresh(session["access_token"])

    def _renew(self, session: Mapping[str, str]) -> None:
        number = 0
        while True:
            try:
                pair = self._http.json("POST", "/v1/auth/re-issue", token=session["refresh_token"], once=True)
                break
            except ApiError as error:
                stored = self.get()
                if stored is not None and stored["refresh_token"] != session["refresh_token"]:
                    return  # Another process was faster.
                if error.status in {401, 403}:
                    self.clear()
                    raise ApiError(
                        error.status, "SESSION_ENDED", f"Sign in again: {error.message}", error.body
                    ) from error
                if number >= self._http.retries or not error.passes:
                    raise
            time.sleep(_shared.pause(number, None, self._http.timeout))
            number += 1
        stored = self.get()
        # Signed out, or renewed by another process, while the request was on its way.
        if stored is not None and stored["refresh_token"] == session["refresh_token"]:
            self.set({**session, **pair})


class Members:
    """The member who is signed in."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def sign_up(self, **account: Any) -> dict[str, Any]:
        """Create a member: `login_id`, `password`, and what else the route takes."""
        return self._begin("/signup", account, auth=False)

    def sign_in(self, *, login_id: str, password: str) -> dict[str, Any]:
        """Sign a member in."""
        sessions, place = self._http.sessions, _MEMBERS + "/signin"
        # By it the server knows a device of the member, while others guess the password.
        devices, tokens = sessions.devices(), list[str | None]()
        headers = {"X-Device-Token": devices} if devices else {}

        def hears(response: httpx.Response) -> None:
            tokens.append(response.headers.get("X-Device-Token"))

        member = ""
        try:
            body = {"login_id": login_id, "password": password}
            session: dict[str, Any] = self._http.json(
                "POST", place, body=body, auth=False, headers=headers, hears=hears
            )
            sessions.set(session)
            member = session["member_id"]
            return session
        finally:
            # Also of who is asked for a second factor.
            if tokens and tokens[-1]:
                sessions.add_device(member, tokens[-1])

    def guest(self) -> dict[str, Any]:
        """Sign in as a new guest."""
        return self._begin("", None, auth=False)

    def promote(self, **account: Any) -> dict[str, Any]:
        """Make the guest who is signed in a member, who keeps its rows."""
        return self._begin("/signup", account, auth=True)

    def sign_out(self) -> None:
        """End the session."""
        try:
            if self._http.sessions.get() is not None:
                self._http.json("POST", f"{_MEMBERS}/signout")
        except ApiError as error:
            # Whose session has ended already, is signed out.
            if error.status != 401:
                raise
        self._http.sessions.clear()

    def session(self) -> dict[str, str] | None:
        """Return the session that is stored, or None."""
        return self._http.sessions.get()

    def set_session(self, session: Mapping[str, Any]) -> None:
        """Store a session from elsewhere."""
        self._http.sessions.set(session)

    def me(self) -> dict[str, Any]:
        """Return the member."""
        return self._me("GET")

    def account(self) -> dict[str, Any]:
        """Return all that the member may know of its account."""
        return self._me("GET", "/account")

    def update(self, *, nickname: str | None) -> dict[str, Any]:
        """Change the nickname."""
        return self._me("PATCH", "", {"nickname": nickname})

    def set_custom_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Merge into the member's own data; None deletes a key."""
        found: dict[str, Any] = (self._me("PATCH", "/custom-data", {"custom_data": data}))["custom_data"]
        return found

    def set_password(self, current_password: str, new_password: str) -> None:
        """Change the password."""
        self._me("PATCH", "/password", {"current_password": current_password, "new_password": new_password})

    def delete_account(self, password: str | None = None) -> str | None:
        """Delete the member, and return until when it may come back; None if it is gone. A guest has no password."""
        deletes_at: str | None = (self._me("DELETE", "", filled(password=password))).get("deletes_at")
        self._http.sessions.clear()
        return deletes_at

    def restore(self) -> dict[str, Any]:
        """Keep the account of a member that has deleted it, and has signed in again before it is gone."""
        return self._me("POST", "/restore")

    def set_email(self, email: str) -> dict[str, Any]:
        """Mail a code and a link to a new address; return the ticket for `confirm_email`."""
        return self._me("POST", "/email", {"email": email})

    def confirm_email(self, **proof: str) -> dict[str, Any]:
        """Prove the address by `code` and `ticket`, or by `token`."""
        return self._me("POST", "/email/confirm", proof)

    def request_password_reset(self, **who: str) -> None:
        """Mail a link to the member with this `login_id` or `email`."""
        self._http.json("POST", f"{_MEMBERS}/password-reset", body=who, auth=False)

    def reset_password(self, token: str, password: str) -> None:
        """Set the password by the token of a mailed link."""
        body = {"token": token, "password": password}
        self._http.json("POST", f"{_MEMBERS}/password-reset/confirm", body=body, auth=False)

    def _me(self, method: str, place: str = "", body: Any = None) -> dict[str, Any]:
        found: dict[str, Any] = self._http.json(method, f"{_MEMBERS}/me{place}", body=body)
        return found

    def _begin(self, place: str, body: Any, *, auth: bool) -> dict[str, Any]:
        session: dict[str, Any] = self._http.json("POST", _MEMBERS + place, body=body, auth=auth)
        self._http.sessions.set(session)
        return session


class Query(Generic[Data]):
    """An immutable question to a table: `run` reads a page, and iterating reads all rows, page by page."""

    def __init__(self, http: Http, table: str, asked: Mapping[str, Any]) -> None:
        self._http, self._table, self._asked = http, table, asked
        self._data = f"/v1/public/tables{path(table)}/data"

    def where(self, condition: Mapping[str, Any] | None = None, **columns: Any) -> Query[Data]:
        """Add conditions: rows satisfy all that were added."""
        added = {**(condition or {}), **columns}
        before = self._asked.get("where")
        return self._with(where={"$and": [before, added]} if before else added)

    def order_by(self, column: str, direction: str = "asc", *, ignore_case: bool | None = None) -> Query[Data]:
        """Sort by a column; a second call sorts those that are equal by the first."""
        key = {"column": column, "direction": direction, **filled(ignore_case=ignore_case)}
        return self._with(order_by=[*self._asked.get("order_by", ()), key])

    def limit(self, rows: int) -> Query[Data]:
        """Read so many rows at most."""
        return self._with(limit=rows)

    def offset(self, rows: int) -> Query[Data]:
        """Leave out the first rows."""
        return self._with(offset=rows)

    def fields(self, *columns: str) -> Query[Data]:
        """Read these columns only."""
        return self._with(fields=list(columns))

    def expand(self, *related: str, **options: Mapping[str, Any]) -> Query[Data]:
        """Show related rows in `row.more["expanded"]`."""
        return self._with(expand={**{name: {} for name in related}, **options} if options else list(related))

    def counts(self, **counts: Mapping[str, Any]) -> Query[Data]:
        """Count the rows that refer to a row, in `row.more["counts"]`."""
        return self._with(counts=counts)

    def run(self) -> Page[Data]:
        """Read the rows, 20 unless `limit` says otherwise, and their number."""
        return self._page()

    def page(self, *, cursor: str | None = None) -> Page[Data]:
        """Read a page by cursor, the first without one."""
        return self._page(cursor=cursor or "first")

    def first(self) -> Row[Data] | None:
        """Return the first row, or None."""
        rows = (self._page(limit=1, count=False)).rows
        return rows[0] if rows else None

    def count(self) -> int:
        """Return how many rows there are."""
        body = {**filled(where=self._asked.get("where")), "limit": 0}
        found: int = (self._http.json("POST", f"{self._data}/query", body=body, reads=True))["total_count"]
        return found

    def update(self, changes: Mapping[str, Any], *, max_rows: int | None = None) -> int:
        """Change all rows that satisfy the condition, or none, and return how many."""
        where = self._asked.get("where")
        body = {"data": changes, **({"where": where} if where else {"all": True}), **filled(max_rows=max_rows)}
        found: int = (self._http.json("POST", f"{self._data}/update-where", body=body))["updated_count"]
        return found

    def delete(self) -> int:
        """Delete all rows that satisfy the condition, and return how many."""
        body = {"where": self._asked.get("where", {})}
        found: int = (self._http.json("POST", f"{self._data}/delete-where", body=body))["deleted_count"]
        return found

    def live(self) -> Iterator[Change[Data]]:
        """Yield the changes of the rows as they happen.

        The first is a `reset`: read the rows, and apply what follows, unless a row of yours has a later `updated_at`.
        After a lost connection it goes on where it was, or with another `reset`. `limit` and the order have no effect.
        """
        asked = filled(where=self._asked.get("where"), fields=self._asked.get("fields"))
        body = {"subscriptions": [{"id": "rows", "table_id": self._table, **asked}]}
        for event, told in self._http.events(body):
            if event == "reset" and "code" in told:
                raise ApiError(0, told["code"], "The rows are not told any more.", told)
            if event == "reset" or (event == "ready" and not told["resumed"]):
                yield Change("reset")
            elif event == "change":
                yield _shared.change_of(told)

    def live_rows(self) -> Iterator[Page[Data]]:
        """Yield the rows, and again each time that they change: `limit` of them, 1,000 by default, and their number.

        A change is applied where it tells all that the list shows, and otherwise the list is read again.
        """
        limit = self._asked.get("limit", _shared.LIVE_ROWS)
        listed = _shared.LiveRows[Data](self._asked, limit)
        for change in self.live():
            if change.type == "reset" or not listed.apply(change):
                listed.take(self._page(limit=limit))
            yield listed.page()

    def __iter__(self) -> Iterator[Row[Data]]:
        left = self._asked.get("limit")
        cursor: str | None = "first"
        while cursor and left != 0:
            page = self._page(cursor=cursor, limit=min(left or _shared.MAX_PAGE, _shared.MAX_PAGE))
            for row in page.rows:
                yield row
            left = None if left is None else left - len(page.rows)
            cursor = page.cursor

    def _with(self, **more: Any) -> Query[Data]:
        return Query(self._http, self._table, {**self._asked, **more})

    def _page(self, **more: Any) -> Page[Data]:
        return page_of(self._http.json("POST", f"{self._data}/query", body={**self._asked, **more}, reads=True))


class RowByKey(Generic[Data]):
    """The row with values in a unique key."""

    def __init__(self, http: Http, place: str) -> None:
        self._http, self._place = http, place

    def get(self, *, fields: Iterable[str] | None = None, expand: Iterable[str] | None = None) -> Row[Data]:
        """Return the row."""
        query = {"fields": _shared.listed(fields), "expand": _shared.listed(expand)}
        return row_of(self._http.json("GET", self._place, query=query))

    def update(self, changes: Mapping[str, Any]) -> Row[Data]:
        """Change the given columns."""
        return row_of(self._http.json("PATCH", self._place, body={"data": changes}))

    def delete(self) -> None:
        """Delete the row."""
        self._http.json("DELETE", self._place)


class Rows(Generic[Data]):
    """The rows of a table."""

    def __init__(self, http: Http, table: str) -> None:
        self._http, self._table = http, table
        self._data = f"/v1/public/tables{path(table)}/data"

    def all(self) -> Query[Data]:
        """Return the question for all rows."""
        return Query(self._http, self._table, {})

    def where(self, condition: Mapping[str, Any] | None = None, **columns: Any) -> Query[Data]:
        """Return the question for the rows that satisfy a condition."""
        return self.all().where(condition, **columns)

    def live_row(self, row_id: str) -> Iterator[Row[Data] | None]:
        """Yield a row, and again each time it changes: None while there is none, or none that the caller may see."""
        for page in self.where(id=row_id).limit(1).live_rows():
            yield page.rows[0] if page.rows else None

    def get(
        self, row_id: str, *, fields: Iterable[str] | None = None, expand: Iterable[str] | None = None
    ) -> Row[Data]:
        """Return a row."""
        return RowByKey[Data](self._http, self._data + path(row_id)).get(fields=fields, expand=expand)

    def create(self, data: Mapping[str, Any]) -> Row[Data]:
        """Create a row."""
        return row_of(self._http.json("POST", self._data, body={"data": data}))

    def create_many(self, data: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Create rows; return those that were, `created`, and why others were not, `failed`."""
        found = self._http.json("POST", f"{self._data}/bulk", body={"data": list(data)})
        return {"created": [row_of(one) for one in found["created"]], "failed": found.get("failed", [])}

    def update(self, row: Row[Any] | str, changes: Mapping[str, Any]) -> Row[Data]:
        """Change the given columns; of a row that was read, only if nobody has changed it since."""
        expected = row.updated_at if isinstance(row, Row) else None
        body = {"data": changes, **filled(expected_updated_at=expected)}
        return row_of(self._http.json("PATCH", self._place(row), body=body))

    def upsert(self, key: str, data: Mapping[str, Any], *, mode: str | None = None) -> Row[Data]:
        """Create the row, or change the one with the same values in a unique key; `more["created"]` says which."""
        body = {"key": key, "data": data, **filled(mode=mode)}
        return row_of(self._http.json("POST", f"{self._data}/upsert", body=body))

    def delete(self, row: Row[Any] | str) -> None:
        """Delete a row."""
        self._http.json("DELETE", self._place(row))

    def by(self, key: str, *values: object) -> RowByKey[Data]:
        """Return the row with these values in a unique key, to be read, changed or deleted."""
        return RowByKey(self._http, f"{self._data}/by" + path(key, *map(_parameter, values)))

    def aggregate(self, pipeline: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the documents of a pipeline."""
        found: list[dict[str, Any]] = (self._ask("aggregate", {"pipeline": list(pipeline)}))["data"]
        return found

    def search(self, text: str, **options: Any) -> Page[Data]:
        """Find rows by words; `options` are those of the route, such as `fields` and `limit`."""
        return page_of(self._ask("search", {"query": text, **options}))

    def autocomplete(self, text: str, field: str, **options: Any) -> list[str]:
        """Return the values of a column that begin so."""
        found: list[str] = (self._ask("autocomplete", {"query": text, "field": field, **options}))["suggestions"]
        return found

    def geo(self, field: str, **place: Any) -> Page[Data]:
        """Find rows by the place in a column: by `near`, `within` or `polygon`."""
        return page_of(self._ask("geo", {"field": field, **place}))

    def _place(self, row: Row[Any] | str) -> str:
        return self._data + path(row.id if isinstance(row, Row) else row)

    def _ask(self, route: str, body: Mapping[str, Any]) -> Any:
        return self._http.json("POST", f"/v1/public/{route}", body={"table_id": self._table, **body}, reads=True)


class Files:
    """The files of a storage."""

    def __init__(self, http: Http, storage: str) -> None:
        self._http = http
        self._base = f"/v1/public/storages/files{path(storage)}"

    def upload(
        self,
        content: bytes | str | Path | BinaryIO,
        *,
        name: str | None = None,
        type: str = "application/octet-stream",  # noqa: A002 - as the other client calls it
        parent: str | None = None,
        path: str | None = None,
        overwrite: bool | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Send a file, above 8 MiB in parts, and return it; `on_progress` takes the bytes sent and their number."""
        opened = _shared.content_of(content)
        called = name or opened.name or (path or "file").rpartition("/")[2]
        report = on_progress or (lambda _sent, _total: None)
        try:
            if opened.size > _shared.PART:
                given = _shared.metadata(
                    filename=called, filetype=type, parent_id=parent, path=path, overwrite=_flag(path, overwrite)
                )
                file_id = self._in_parts(opened, given, report)
            else:
                told = {"file_name": called, "file_size": opened.size, "mime_type": type}
                if path is None:
                    begun = self._json("POST", "/presigned-url", {**told, **filled(parent_id=parent)})
                else:
                    place = f"/presigned-url/path{_shared.file_path(path)}"
                    begun = self._json("POST", place, {**told, **filled(overwrite=overwrite)})
                self._put(begun, opened.file.read(), begun["headers"])
                report(opened.size, opened.size)
                file_id = begun["file_id"]
        finally:
            if isinstance(content, Path):
                opened.file.close()
        found: dict[str, Any] = self._http.json(
            "POST", f"{self._base}/complete-upload", body={"file_id": file_id}, timeout=max(120.0, self._http.timeout)
        )
        return found

    def list(self, **query: Any) -> dict[str, Any]:
        """Return files and folders; `query` is that of the route, such as `parent_id`, `search` and `limit`."""
        found = self._http.json("GET", f"{self._base}/items", query=query)
        return {"files": found["files"], "total": found["total_count"]}

    def get(self, place: str) -> dict[str, Any]:
        """Return the file or the folder at a path."""
        found: dict[str, Any] = self._json("GET", f"/path{_shared.file_path(place)}")
        return found

    def read(self, place: str) -> bytes:
        """Return the bytes of the file at a path."""
        signed = self.signed_url((self.get(place))["id"])
        return (self._http.send("GET", signed["url"], auth=False)).content

    def create_folder(self, name: str, parent: str | None = None) -> dict[str, Any]:
        """Create a folder."""
        found: dict[str, Any] = self._json("POST", "/folders", {"name": name, **filled(parent_id=parent)})
        return found

    def delete(self, file_id: str, *, recursive: bool | None = None) -> None:
        """Delete a file or a folder."""
        self._http.json("DELETE", f"{self._base}/items{path(file_id)}", query={"recursive": recursive})

    def signed_url(self, file_id: str, seconds: int | None = None) -> dict[str, Any]:
        """Return an address that reads a file without a key, for some time."""
        body = filled(expires_seconds=seconds)
        found: dict[str, Any] = self._json("POST", f"/items{path(file_id)}/signed-url", body)
        return found

    def _in_parts(self, opened: _shared.Content, given: str, report: Callable[[int, int], None]) -> str:
        """Send a file by tus 1.0.0: after a failure the server is asked how far it has come."""
        headers = {**_shared.TUS, "Upload-Length": str(opened.size), "Upload-Metadata": given}
        begun = self._http.json("POST", f"{self._base}/tus", headers=headers, reads=True)
        sent, failures = 0, 0
        while sent < opened.size:
            try:
                opened.file.seek(sent)
                part = opened.file.read(_shared.PART)
                self._put(begun, part, {**begun["headers"], "Upload-Offset": str(sent)})
                sent, failures = sent + len(part), 0
            except ApiError as error:
                failures += 1
                if failures > 5 or not (error.passes or error.status in {409, 500}):
                    raise
                time.sleep(_shared.pause(failures, error.retry_after, self._http.timeout))
                told = self._http.json("GET", begun["upload_url"], headers=_shared.TUS, auth=False)
                sent = told["offset"]
            report(sent, opened.size)
        found: str = begun["file_id"]
        return found

    def _put(self, begun: Mapping[str, Any], part: bytes, headers: Mapping[str, str]) -> None:
        # As long as it takes: what stalls is ended by the server.
        place, method = begun["upload_url"], begun["method"]
        self._http.send(method, place, content=part, headers=headers, auth=False, timeout=3600.0)

    def _json(self, method: str, place: str, body: Any = None) -> Any:
        return self._http.json(method, self._base + place, body=body)


class Functions:
    """The functions of the app."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def invoke(self, name: str, payload: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Any:
        """Return what a function returned; raises `ApiError` with `FUNCTION_ERROR` if it failed."""
        place = f"/v1/public/functions{path(name)}/invoke"
        done = self._http.json("POST", place, body={"payload": payload or {}}, timeout=timeout)
        if not done["success"]:
            raise ApiError(200, "FUNCTION_ERROR", done.get("error") or f"It ended with {done['status']}.", done)
        return done["result"]


class Channel:
    """A channel that the app has declared."""

    def __init__(self, http: Http, name: str) -> None:
        self._http, self._name = http, name
        self._place = f"{_REALTIME}/channels{path(name)}/messages"

    def send(self, event: str, payload: Any = None) -> str:
        """Send a message to those who listen, at most once, and return its id."""
        body = {"event": event, "payload": payload}
        found: str = (self._http.json("POST", self._place, body=body, once=True))["ids"][0]
        return found

    def listen(self, state: Mapping[str, Any] | None = None) -> Iterator[ChannelEvent]:
        """Yield messages, and who is present; with a `state` the others see this program, until the iteration ends.

        Where messages may have been lost, as after a lost connection, it yields `missed`.
        """
        presence = {} if state is None else {"presence": {"state": state}}
        present: dict[str, Any] = {}
        was_ready = False
        for event, told in self._http.events({"channels": [{"name": self._name, **presence}]}):
            if "code" in told:
                raise ApiError(0, told["code"], "The channel is not told any more.", told)
            if event == "message":
                yield _shared.message_of(told)
            elif event == "presence":
                present = _shared.present_after(present, told)
                yield ChannelEvent("presence", present=list(present.values()), count=told["count"])
            elif event == "ready":
                if was_ready:
                    yield ChannelEvent("missed")
                was_ready = True
            elif event == "reset" and told.get("reason") != "gap":
                yield ChannelEvent("missed")


class Client:
    """The client of an app. It has one member: make one for each of several.

    `timeout` is in seconds, repeats included; `retries` is how often a request is repeated at most; `secret_key` is for
    programs that act as the app; `storage` keeps the session, in memory by default; `parse_float=Decimal` reads numbers
    exactly.
    """

    def __init__(
        self,
        url: str,
        *,
        public_key: str,
        secret_key: str | None = None,
        storage: Storage | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
        parse_float: Callable[[str], Any] | None = None,
    ) -> None:
        self._http = Http(url, public_key, secret_key, storage, timeout, retries, transport, parse_float)
        self.members = Members(self._http)
        self.functions = Functions(self._http)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def server_version(self) -> str | None:
        """The version of the server that answered last; None before the first answer."""
        return self._http.server_version

    @overload
    def rows(self, table: str) -> Rows[dict[str, Any]]: ...
    @overload
    def rows(self, table: str, kind: type[Data]) -> Rows[Data]: ...
    def rows(self, table: str, kind: type[Any] | None = None) -> Rows[Any]:  # noqa: ARG002 - for type checkers
        """Return the rows of a table, by its title or id; `kind` is a `TypedDict` that `pilotis types` has written."""
        return Rows(self._http, table)

    def channel(self, name: str) -> Channel:
        """Return a channel by its name."""
        return Channel(self._http, name)

    def files(self, storage: str) -> Files:
        """Return the files of a storage, by its name or id."""
        return Files(self._http, storage)

    def table(self, table: str) -> dict[str, Any]:
        """Return the definition of a table."""
        found: dict[str, Any] = self._http.json("GET", f"/v1/public/tables{path(table)}")
        return found

    def tables(self) -> list[dict[str, Any]]:
        """Return the definitions of all tables."""
        found: list[dict[str, Any]] = (self._http.json("GET", "/v1/public/tables"))["tables"]
        return found

    def transaction(self, collect: Callable[[Operations], object]) -> list[dict[str, Any]]:
        """Run the operations that `collect` adds, which all succeed or all fail."""
        return self._write("transactions", collect)

    def batch(self, collect: Callable[[Operations], object]) -> list[dict[str, Any]]:
        """Run the operations that `collect` adds one by one: some may fail."""
        return self._write("batch", collect)

    def view(self, name: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the documents of a saved view."""
        place = f"/v1/public/views{path(name)}"
        found: list[dict[str, Any]] = (self._http.json("POST", place, body={"params": params or {}}, reads=True))[
            "data"
        ]
        return found

    def auth_settings(self) -> dict[str, Any]:
        """Return how members may sign in."""
        found: dict[str, Any] = self._http.json("GET", "/v1/public/auth-settings")
        return found

    def stats(self) -> dict[str, Any]:
        """Return the usage statistics of the app."""
        found: dict[str, Any] = self._http.json("GET", "/v1/public/stats")
        return found

    def request(
        self,
        method: str,
        place: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        reads: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Send any request with the client's credentials, and return the JSON of the answer."""
        return self._http.json(
            method, place, body=body, query=query, headers=headers, reads=reads, timeout=timeout, is_callers=True
        )

    def _write(self, route: str, collect: Callable[[Operations], object]) -> list[dict[str, Any]]:
        operations = Operations()
        collect(operations)
        body = {"operations": _shared.operations_of(operations)}
        found: list[dict[str, Any]] = (self._http.json("POST", f"/v1/public/{route}", body=body))["results"]
        return found


def _parameter(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flag(place: str | None, overwrite: bool | None) -> str | None:
    return None if place is None else _parameter(bool(overwrite))


def _encoded(value: object) -> Any:
    """Return what JSON can express of a value: a `Decimal` as a number, dates as texts."""
    import datetime
    import decimal

    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON.")
