"""A web service that lets a loop decide: ``fastapi dev examples/fastapi_app.py``, while ``surefoot serve --demo`` or a loop runs.

A visitor asks for an offer, and a click on it is a reward. The decision is asked for while the visitor waits. The reward is not: it
is sent in the background, in batches, and none is lost when the service stops.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

import surefoot
from surefoot.client import RefusedError, RewardsError, ServiceError


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client for the life of the service. What waits is sent before it ends."""
    url, loop = os.environ.get("SUREFOOT_URL", "http://127.0.0.1:8080"), os.environ.get("SUREFOOT_LOOP", "shop")
    # A visitor does not wait for long: better the usual offer than none.
    async with surefoot.AsyncClient(url, loop, key=os.environ.get("SUREFOOT_KEY"), timeout=0.5, patience=1.0) as client:
        async with client.rewards() as rewards:
            app.state.client, app.state.rewards = client, rewards
            yield


app = FastAPI(title="Offers", lifespan=lifespan)
USUAL = "red"


class Visitor(BaseModel):
    """What is known about a visitor."""

    age: float | None = None
    device: str | None = None


class Offer(BaseModel):
    """The offer, and the id that a click names; without an id, nothing is learned from it."""

    offer: str
    event_id: str | None


@app.post("/offers")
async def offer(visitor: Visitor, request: Request) -> Offer:
    """Decides on an offer for a visitor."""
    try:
        decision = await request.app.state.client.decide(visitor.model_dump(exclude_none=True))
    except RefusedError as error:
        raise HTTPException(422, str(error)) from error
    except ServiceError:
        # The loop cannot be asked. An offer that it did not choose is no record of it.
        return Offer(offer=USUAL, event_id=None)
    return Offer(offer=str(decision.action), event_id=decision.event_id)


@app.post("/clicks/{event_id}", status_code=202)
async def click(event_id: str, request: Request) -> dict[str, str]:
    """A visitor clicked on an offer."""
    try:
        await request.app.state.rewards.send(event_id, 1.0)
    except RewardsError as error:
        raise HTTPException(503, str(error)) from error
    return {"status": "taken"}
