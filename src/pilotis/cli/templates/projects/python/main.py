"""A program beside Pilotis: it answers members who are signed in there, and reads and writes rows in their name."""

import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException
from fastapi.responses import FileResponse
from pilotis_client import ApiError, AsyncClient

URL, KEY = os.environ["PILOTIS_URL"], os.environ["PILOTIS_PUBLIC_KEY"]


@asynccontextmanager
async def lifespan(_: FastAPI):
    async with AsyncClient(URL, public_key=KEY) as client:
        app.state.pilotis = client
        yield


app = FastAPI(lifespan=lifespan)


async def member(authorization: Annotated[str, Header()] = "") -> dict[str, Any]:
    """The member whose access token the request has."""
    try:
        return await app.state.pilotis.request(
            "GET", "/v1/public/app-members/me", headers={"Authorization": authorization}
        )
    except ApiError as error:
        raise HTTPException(error.status or 503, error.message) from None


@app.get("/api/summary")
async def summary(member: Annotated[dict[str, Any], Depends(member)]) -> dict[str, Any]:
    """How many notes there are, for those who are signed in."""
    notes = app.state.pilotis.rows("notes")
    return {
        "member": member["member_id"],
        "notes": await notes.all().count(),
        "open": await notes.where(done=False).count(),
    }


@app.get("/pilotis.json")
async def config() -> dict[str, str]:
    """Which server the page uses."""
    return {"url": URL, "publicKey": KEY}


@app.get("/")
async def page() -> FileResponse:
    return FileResponse(Path(__file__).parent / "index.html")
