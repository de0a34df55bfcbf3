"""Hides a comment that has a word of a list in it; for a trigger by row.created on the table of comments."""

import re
from typing import Any

WORDS = re.compile(r"\b(spam|casino|lottery)\b", re.IGNORECASE)


async def handler(event: dict[str, Any], ctx: Any) -> dict[str, bool]:
    row = event["data"]["row"]
    found = WORDS.findall(row["data"].get("text", ""))
    if found:
        await ctx.api.rows("comments").update(row["id"], {"hidden": True})
        ctx.log.warn("hidden", row["id"])
    return {"hidden": bool(found)}
