"""Examples of rules for the reference."""

import msgspec

from pilotis.data.rules.presets import PRESETS
from pilotis.http.api.example import Example

_RULES = {
    "read": {"$or": [{"rating": {"$gte": 4}}, {"$creator": {"$member": "id"}}]},
    "create": {"$member": {}},
    "update": {"$creator": {"$member": "id"}},
    "delete": {"$member": {"roles": {"$arrayContains": "editor"}}},
}
_ANSWER = {
    "rules": _RULES,
    "level_rules": {"list": True, "read": True, "create": True, "update": True, "delete": True},
    "presets": msgspec.to_builtins(PRESETS),
    "warnings": [],
    "updated_at": "2026-01-31T12:00:00.000Z",
}
_UNRULED = _ANSWER | {"rules": None, "updated_at": None}

EXAMPLES = [
    Example(route="GET /v1/apps/:app_id/tables/:table_id/rules", operation="getTableRules", answer=_UNRULED),
    Example(
        route="PUT /v1/apps/:app_id/tables/:table_id/rules",
        operation="replaceTableRules",
        body={"rules": _RULES},
        answer=_ANSWER,
    ),
]
