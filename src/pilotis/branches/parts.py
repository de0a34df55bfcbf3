"""The definitions of an app by parts: how each is read, and how one of a branch becomes one of the parent.

A definition is canonical: two that say the same are equal. What a branch shares with its parent is known by its id, and
so may have another name; storages, whose ids stand in addresses, and settings are known by their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from pilotis.branches.inside import AppInside
from pilotis.branches.types import Found, PartName
from pilotis.kit.definition_plan import Step, canonical, named, written

Ids = dict[str, str]
"""The ids in the parent of what was created in the branch."""


class Sides(NamedTuple):
    """A branch and its parent, what each has of a part, and the ids in the parent of what the branch has created."""

    branch: AppInside
    parent: AppInside
    wanted: Found
    found: Found
    ids: Ids


class Part(ABC):
    """Definitions of one kind."""

    name: ClassVar[PartName]

    @abstractmethod
    async def read(self, app: AppInside) -> Found:
        """Return what an app has, by the ids there or by names."""

    @abstractmethod
    async def apply(self, sides: Sides, step: Step) -> None:
        """Create, change or drop one thing in the parent; raises `RejectedError`."""

    async def prepare(self, sides: Sides, steps: Sequence[Step]) -> None:  # noqa: ARG002 - for overrides
        """Do what several steps need before each is applied; most need nothing."""
        return


def title_of(key: str, *sides: Found) -> str:
    """Return the title of a definition, on the first side that has it."""
    return next((str(side[key].get("title", key)) for side in sides if key in side), key)


class Storages(Part):
    """File storages with their rules, but not their files."""

    name = "storages"
    _fields = (
        "upload_access",
        "delete_access",
        "read_access",
        "list_access",
        "allowed_mime_types",
        "max_file_size",
        "quota_bytes",
    )

    async def read(self, app: AppInside) -> Found:
        """See `Part`."""
        found = Found()
        for one in await app.pages("storages/files"):
            rules = None
            if one.get("has_rules"):
                rules = (await app.ask("GET", f"storages/files/{one['id']}/rules"))["rules"]
            found[one["name"]] = {**{field: one.get(field) for field in self._fields}, "rules": rules}
        return found

    async def apply(self, sides: Sides, step: Step) -> None:
        """See `Part`; a storage that has files is not dropped."""
        if step.kind == "create":
            await sides.parent.ask("POST", "storages/files", {"name": step.title, **sides.wanted[step.title]})
            return
        ids = {one["name"]: one["id"] for one in await sides.parent.pages("storages/files")}
        path = f"storages/files/{ids[step.title]}"
        if step.kind == "drop":
            await sides.parent.ask("DELETE", path)
        else:
            await sides.parent.ask("PATCH", path, sides.wanted[step.title])


class Channels(Part):
    """All channels are one thing: their order means something."""

    name = "channels"

    async def read(self, app: AppInside) -> Found:
        """See `Part`."""
        patterns = [
            {key: value for key, value in one.items() if value not in (None, False)}
            for one in (await app.ask("GET", "channels"))["channels"]
        ]
        return {"channels": {"channels": patterns}} if patterns else {}

    async def apply(self, sides: Sides, step: Step) -> None:  # noqa: ARG002 - there is one
        """See `Part`."""
        await sides.parent.ask("PUT", "channels", sides.wanted.get("channels", {"channels": []}))


class Settings(Part):
    """Each setting is one thing, such as `accounts.sign_up`."""

    name = "settings"
    _routes: ClassVar[Mapping[str, tuple[str, str, Sequence[str]]]] = {
        "accounts": (
            "PATCH",
            "account-settings",
            [
                "sign_up",
                "sign_up_methods",
                "login_id_form",
                "email_verification",
                "second_factor",
                "second_factors",
                "methods",
                "passkey_domain",
                "allowed_origins",
                "theme",
                "challenge_on",
                "default_language",
                "password_check",
                "on_member_delete",
                "deletion_grace_days",
                "impersonation",
                "team_second_factor",
                "hooks",
                "on_sign_up",
            ],
        ),
        "oauth": (
            "PUT",
            "oauth/settings",
            [
                "is_provider",
                "access_token_seconds",
                "refresh_idle_days",
                "refresh_absolute_days",
                "consent_url",
                "login_redirect_uris",
                "link_by_verified_email",
                "dynamic_clients",
                "dynamic_scopes",
            ],
        ),
        "teams": ("PUT", "team-settings", ["members_create"]),
        "profiles": ("PUT", "profiles", ["table", "key"]),
        "auth": ("PUT", "auth-settings", ["allow_guest_login"]),
    }

    async def read(self, app: AppInside) -> Found:
        """See `Part`."""
        found = Found()
        for section, (_, route, fields) in self._routes.items():
            current = await app.ask("GET", route)
            found |= {f"{section}.{name}": {"value": current[name]} for name in fields if name in current}
        return found

    async def apply(self, sides: Sides, step: Step) -> None:
        """See `Part`; the parent keeps what the branch has not changed."""
        section, _, field = step.title.partition(".")
        method, route, fields = self._routes[section]
        change = {field: translated(sides.wanted[step.title]["value"], sides.ids)}
        if section == "profiles":
            change = {name: sides.wanted[f"profiles.{name}"]["value"] for name in fields}
        elif section == "auth":
            change = {**await sides.parent.ask("GET", route), **change}
        await sides.parent.ask(method, route, change)


class Functions(Part):
    """Functions: their settings, and the source of the active version. Variables are not among them."""

    name = "functions"
    _fields: ClassVar[Sequence[str]] = [
        "name",
        "description",
        "entrypoint",
        "invoke_access",
        "oauth_scope",
        "scopes",
        "timeout_seconds",
        "memory_mb",
        "egress",
        "runtime",
    ]

    async def read(self, app: AppInside) -> Found:
        """See `Part`."""
        found = Found()
        for one in await app.pages("functions"):
            sha256 = None
            if one["active_version"] is not None:
                version = await app.ask("GET", f"functions/{one['id']}/versions/{one['active_version']}")
                sha256 = version["sha256"]
            settings = {field: one[field] for field in self._fields}
            settings["scopes"] = sorted(settings["scopes"])
            found[one["id"]] = {"title": one["name"], **settings, "sha256": sha256}
        return found

    async def apply(self, sides: Sides, step: Step) -> None:
        """See `Part`; a function that a workflow calls is not dropped."""
        if step.kind == "drop":
            await sides.parent.ask("DELETE", f"functions/{step.title}")
            return
        wanted = sides.wanted[step.title]
        settings = {name: value for name, value in wanted.items() if name not in {"title", "sha256"}}
        found = sides.found.get(step.title)
        if found is None:
            made = await sides.parent.ask("POST", "functions", settings)
            sides.ids[step.title] = made["id"]
        changes = {name: value for name, value in settings.items() if name != "runtime"}
        path = f"functions/{sides.ids.get(step.title, step.title)}"
        if found is not None and any(found[name] != value for name, value in changes.items()):
            await sides.parent.ask("PATCH", path, changes)
        if wanted["sha256"] is not None and (found is None or found["sha256"] != wanted["sha256"]):
            await self._deploy(sides, step.title, path)

    async def _deploy(self, sides: Sides, key: str, path: str) -> None:
        own = next((branch for branch, parent in sides.ids.items() if parent == key), key)
        function = await sides.branch.ask("GET", f"functions/{own}")
        source = await sides.branch.ask("GET", f"functions/{own}/versions/{function['active_version']}/source")
        await sides.parent.ask("POST", f"{path}/versions", {"files": source["files"], "message": "Merged"})


class Workflows(Part):
    """Workflows, which name functions by their names. Whether one is active is each side's own."""

    name = "workflows"
    _fields: ClassVar[Sequence[str]] = [
        "name",
        "description",
        "execution_type",
        "schedule_cron",
        "schedule_timezone",
        "timeout_seconds",
        "max_retries",
        "max_concurrency",
        "on_overlap",
        "initial_input",
        "steps",
    ]

    async def read(self, app: AppInside) -> Found:
        """See `Part`."""
        found = Found()
        listed = await app.pages("workflows")
        names = {one["id"]: one["name"] for one in await app.pages("functions")} if listed else {}
        for one in listed:
            # The steps are not in the list.
            whole = await app.ask("GET", f"workflows/{one['id']}")
            definition = {field: whole.get(field) for field in self._fields}
            definition["steps"] = [named(step, names) for step in whole["steps"]]
            found[one["id"]] = {"title": one["name"], **definition}
        return found

    async def apply(self, sides: Sides, step: Step) -> None:
        """See `Part`; a workflow that is new is inactive in the parent, as it is in the branch."""
        if step.kind == "drop":
            await sides.parent.ask("DELETE", f"workflows/{step.title}")
            return
        wanted = {name: value for name, value in sides.wanted[step.title].items() if name != "title"}
        if step.title not in sides.found:
            made = await sides.parent.ask("POST", "workflows", {**wanted, "is_active": False})
            sides.ids[step.title] = made["id"]
            return
        current = await sides.parent.ask("GET", f"workflows/{step.title}")
        await sides.parent.ask("PUT", f"workflows/{step.title}", {**wanted, "is_active": current["is_active"]})


def table_definition(table: Mapping[str, Any], rules: Any) -> dict[str, Any]:
    """Return the canonical definition of a table of an answer."""
    return canonical({**table, "rules": rules})


def table_body(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that makes a table what a definition says; what is absent would stay."""
    return {"rules": None, "unique": [], **written(definition)}


def translated(value: Any, ids: Ids) -> Any:
    """Return a value with the ids of the parent in the place of those of the branch."""
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, Mapping):
        return {ids.get(name, name): translated(inner, ids) for name, inner in value.items()}
    return [translated(inner, ids) for inner in value] if isinstance(value, list) else value
