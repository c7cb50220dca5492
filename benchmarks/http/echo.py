"""A bare FastAPI route for comparison, which returns the model that it receives."""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel


class EchoBody(BaseModel):
    """The body of ``POST /calibrate``."""

    map: str
    predictions: list[float]


app = FastAPI()


@app.post("/echo")
async def echo(body: EchoBody) -> EchoBody:
    return body


@app.post("/echo-bytes")
async def echo_bytes(request: Request) -> Response:
    """What no JSON was parsed for: the floor under every route."""
    return Response(await request.body(), media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), http="httptools", loop="uvloop", access_log=False, log_config=None
    )
