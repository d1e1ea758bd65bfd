"""A FastAPI service without transactions: each request sends one record. One producer serves all requests of a process.

pip install ../.. fastapi uvicorn        # in this directory of a checkout
KAFKA=localhost:9092 uvicorn events_fastapi:app        # also with --workers 4, or --reload
curl -X POST localhost:8000/orders/1
curl -X POST localhost:8000/clicks/1
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from fencepost import AsyncProducer, DeliveryError, FencepostError, Persisted, RecordRefused, RecordTooLarge, Retriable


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncProducer(
        bootstrap_servers=os.environ.get("KAFKA", "localhost:9092"),
        max_block_ms=5_000,  # how long a request waits for its topic, or for room in the buffer
        request_timeout_ms=4_000,
        delivery_timeout_ms=10_000,  # how long it waits for its acknowledgement, with all retries
    ) as app.state.producer:
        yield  # The block's end delivers what is in the buffer.


async def producer_of(request: Request) -> AsyncProducer:
    producer: AsyncProducer = request.app.state.producer
    return producer


Sender = Annotated[AsyncProducer, Depends(producer_of)]
app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}")
async def place(number: int, producer: Sender) -> dict[str, int]:
    """Answers when the order is in the log."""
    acknowledged = await producer.send("orders", b"order %d" % number, key=b"%d" % number)
    metadata = await acknowledged
    return {"partition": metadata.partition, "offset": metadata.offset}


@app.post("/clicks/{number}", status_code=202)
async def click(number: int, producer: Sender) -> dict[str, int]:
    """Answers when the click is in the buffer. If it fails later, the log says so."""
    await producer.send("clicks", b"click %d" % number)
    return {"accepted": number}


@app.get("/ready")
async def ready(producer: Sender) -> dict[str, object]:
    partitions = await producer.partitions_for("orders", 2.0)
    return {"partitions": len(partitions), "failed": producer.stats().record_error_total}


@app.exception_handler(FencepostError)
async def failed(request: Request, error: FencepostError) -> JSONResponse:
    if isinstance(error, RecordTooLarge) or (isinstance(error, RecordRefused) and error.permanent):
        status = 422  # the record itself: the same request fails again
    elif isinstance(error, DeliveryError) and error.persisted is not Persisted.NO:
        status = 500  # it may be in the log: a second request may double it
    elif isinstance(error, Retriable | DeliveryError):
        status = 503  # it is not in the log
    else:
        status = 500
    return JSONResponse({"error": str(error)}, status, headers={"Retry-After": "1"})
