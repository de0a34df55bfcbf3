from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilotis import Context


async def handler(payload: dict[str, Any], ctx: Context) -> str:
    ctx.log.info("called by", ctx.caller["type"])
    return f"Hello, {payload.get('name', 'world')}!"
