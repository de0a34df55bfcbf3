"""What `pilotis views` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from pilotis.cli.definitions import Definition
from pilotis.cli.session import Session
from pilotis.data.views.feature import ViewsFeature
from pilotis.data.views.parameters import from_query
from pilotis.data.views.types import NewView, View, ViewChange
from pilotis.http.api.principals import OPERATOR, AppInfo, AppItself
from pilotis.kit import json
from pilotis.kit.errors import PilotisError
from pilotis.kit.ids import uuid7
from pilotis.serve.errors import CommandError


async def all_of(on: Session, app: AppInfo) -> list[View]:
    """Return an app's views."""
    return (await on.features.get(ViewsFeature).views.all(app)).views


async def named(on: Session, app: AppInfo, name: str) -> View:
    """Return the view with a name; raises `CommandError`."""
    for view in await all_of(on, app):
        if view.name == name:
            return view
    raise CommandError(f"The app has no view {name}.")


def definition(view: View) -> dict[str, Any]:
    """Return a view as a file has it: with its table's title, so that it fits another app with such a table."""
    found: dict[str, Any] = msgspec.to_builtins(view)
    shown = {field: found[field] for field in NewView.__struct_fields__} | {"table_id": view.table}
    return {name: value for name, value in shown.items() if value is not None or name == "read"}


async def save(on: Session, app: AppInfo, given: Definition) -> list[str]:
    """Create or replace the views of a file, and return their names; raises `CommandError` with the line of a fault."""
    views = on.features.get(ViewsFeature).views
    several = given.value.get("views")
    wanted = several if isinstance(several, list) and set(given.value) == {"views"} else [given.value]
    known = {view.name: view for view in await all_of(on, app)}
    saved = []
    for at, value in enumerate(wanted):
        place = f"views[{at}]" if wanted is several else ""
        try:
            new = msgspec.convert(value, NewView)
            if old := known.get(new.name):
                fields = {field: getattr(new, field) for field in NewView.__struct_fields__}
                if new.read is msgspec.UNSET and new.run_as == "caller":
                    fields["read"] = True
                await views.change(app, OPERATOR, old.id, ViewChange(**fields))
            else:
                await views.create(app, OPERATOR, uuid7(), new)
        except msgspec.ValidationError as error:
            raise CommandError(f"{given.place(place)}: {error}.") from None
        except PilotisError as error:
            field = error.details[0].field if error.details else ""
            where = given.place(f"{place}.{field}" if place and field else place or field)
            raise CommandError(f"{where}: {error.text}") from None
        saved.append(new.name)
    return saved


async def called(on: Session, app: AppInfo, name: str, params: Sequence[str]) -> dict[str, Any]:
    """Call a view as the app, with parameters such as `since=2026-01-01`; raises `CommandError`."""
    pairs = [pair.partition("=") for pair in params]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        raise CommandError(f"A parameter is NAME=VALUE, not {wrong[0]}.")
    query = urlencode([(name, value) for name, _, value in pairs]).encode()
    calls = on.features.get(ViewsFeature).calls
    try:
        answer = await calls.call(AppItself(app), name, lambda known: from_query(known, query))
    except PilotisError as error:
        raise CommandError(error.text) from None
    found: dict[str, Any] = json.decode(answer.body)
    return found


async def delete(on: Session, app: AppInfo, name: str) -> None:
    """Delete the view with a name; raises `CommandError`."""
    await on.features.get(ViewsFeature).views.delete(app, OPERATOR, (await named(on, app, name)).id)
