"""The event types that features declare: complete, with valid examples, each with a unique name."""

import msgspec
import pytest

from pilotis.events.types import Catalogue, EventType
from pilotis.http.api.principals import SYSTEM
from pilotis.kit import json
from tests.services import Node

NAMES = [
    *("file.created", "file.deleted", "file.replaced", "folder.created", "folder.deleted"),
    *("function.deployed", "function.failed"),
    *("member.activated", "member.created", "member.deactivated", "member.deleted", "member.promoted"),
    *("member.signed_in", "member.signed_out", "member.updated"),
    *("oauth.connection.created", "oauth.connection.revoked"),
    *("row.created", "row.deleted", "row.updated", "rows.changed"),
    *("table.created", "table.deleted", "table.imported", "table.restored", "table.updated"),
    *("team.created", "team.updated", "team.deleted"),
    *("team.member.added", "team.member.updated", "team.member.removed"),
]


class Nothing(msgspec.Struct):
    """Data of an event that says nothing."""


async def test_every_type_is_offered(node: Node):
    assert {type_.name for type_ in node.floor.events.catalogue.offered()} >= set(NAMES)


SCOPES = {f"{of}:read" for of in ("rows", "tables", "members", "files", "sites", "webhooks", "workflows", "functions")}


async def test_examples_fit_the_structs_of_their_types(node: Node):
    for type_ in node.floor.events.catalogue.offered():
        assert type_.description.endswith(".")
        # What an app has used is no business of OAuth clients.
        assert type_.scope in SCOPES or type_.name.startswith("quota.")
        text = json.encode(type_.example)
        assert json.encode(msgspec.json.decode(text, type=type_.data)) == text, type_.name


def test_a_name_is_declared_once():
    catalogue = Catalogue()
    type_ = EventType(name="x.y", data=Nothing, description="Nothing.", example=Nothing())
    catalogue.register(type_)
    with pytest.raises(ValueError, match=r"x\.y"):
        catalogue.register(msgspec.structs.replace(type_, internal=True))


def test_an_internal_type_is_never_offered():
    catalogue = Catalogue()
    catalogue.register(EventType(name="x.y", data=Nothing, description="Nothing.", example=Nothing(), internal=True))
    assert catalogue.get("x.y").event(Nothing(), SYSTEM).type == "x.y"
    assert catalogue.offered() == []
