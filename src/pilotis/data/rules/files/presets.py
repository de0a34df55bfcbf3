"""Rules of file storages to begin with. Pure."""

from __future__ import annotations

from typing import Any

from pilotis.data.rules.types import FilePreset, FileRuleSet

_SIGNED_IN: Any = {"$member": {}}
_OWN: Any = {"$creator": {"$member": "id"}}
_IN_OWN_FOLDER: Any = {"segment.0": {"$member": "id"}}

PRESETS = [
    FilePreset(
        "Links without a catalogue",
        "Pictures of a public page: whoever has the link reads, nobody lists, members write their own.",
        FileRuleSet(list=None, read=True, create=_SIGNED_IN, update=_OWN, delete=_OWN),
    ),
    FilePreset(
        "A folder for each member",
        "A member reads and writes what is in the folder with its own id as the name.",
        FileRuleSet(read=_IN_OWN_FOLDER, create=_IN_OWN_FOLDER, update=_IN_OWN_FOLDER, delete=_IN_OWN_FOLDER),
    ),
    FilePreset(
        "Own files",
        "A member sees and changes the files that it uploaded.",
        FileRuleSet(read=_OWN, create=_SIGNED_IN, update=_OWN, delete=_OWN),
    ),
    FilePreset("Drop box", "Everybody sends, only the app itself reads.", FileRuleSet(create=True)),
    FilePreset("Closed", "Only the app itself: secret keys, the console and functions.", FileRuleSet()),
]
