"""Rules to begin with: what people ask for most. Pure."""

from __future__ import annotations

from typing import Any

from pilotis.data.rules.types import Preset, RuleSet

_SIGNED_IN: Any = {"$member": {}}
_OWN: Any = {"$creator": {"$member": "id"}}
_EDITOR: Any = {"$member": {"roles": {"$arrayContains": "editor"}}}

PRESETS = [
    Preset(
        "Everybody reads, members write their own",
        "A blog with comments: rows are public, each belongs to the member that created it.",
        RuleSet(read=True, create=_SIGNED_IN, update=_OWN, delete=_OWN),
    ),
    Preset(
        "Members read, editors write",
        "A club: members with the role editor write what all members read.",
        RuleSet(read=_SIGNED_IN, create=_EDITOR, update=_EDITOR, delete=_EDITOR),
    ),
    Preset("Everybody reads", "A catalogue: only the app itself writes.", RuleSet(read=True)),
    Preset(
        "Own rows",
        "A notebook: a member sees and changes the rows that it created.",
        RuleSet(read=_OWN, create=_SIGNED_IN, update=_OWN, delete=_OWN),
    ),
    Preset("Drop box", "A contact form: everybody sends, only the app itself reads.", RuleSet(create=True)),
    Preset("Closed", "Only the app itself: secret keys, the console and functions.", RuleSet()),
]
