"""A FastAPI service: each request writes an order and an invoice in a transaction of its own.

pip install ../.. fastapi uvicorn        # in this directory of a checkout
KAFKA=localhost:9092 uvicorn orders_fastapi:app        # also with --workers 4, or --reload
curl -X POST localhost:8000/orders/1
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from http_status import status_of

from fencepost import AsyncTransactionalPool, CommitOutcomeUnknown, FencepostError


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncTransactionalPool(
        bootstrap_servers=os.environ.get("KAFKA", "localhost:9092"),
        transactional_id_prefix="orders-api",
        size=int(os.environ.get("POOL_SIZE", "4")),
        acquire_timeout_ms=10_000,
        close_timeout_ms=20_000,  # less than the time that the service gets for its end
    ) as app.state.pool:
        yield


async def pool_of(request: Request) -> AsyncTransactionalPool:
    pool: AsyncTransactionalPool = request.app.state.pool
    return pool


Pool = Annotated[AsyncTransactionalPool, Depends(pool_of)]
app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}")
async def place(number: int, pool: Pool, seconds: float = 0.0) -> dict[str, int]:
    # The block ends before the response is made: a client that gets 200 has a committed order.
    async with pool.transaction() as tx:
        await tx.send("orders", b"order %d" % number)
        await asyncio.sleep(seconds)  # stands for work of yours, such as a query
        await tx.send("invoices", b"invoice %d" % number)
    return {"committed": number}


@app.get("/ready")
async def ready(pool: Pool) -> dict[str, object]:
    stats = await pool.check(2.0)
    return {"instance": pool.instance, "in_use": stats.in_use, "waiting": stats.waiting, "committed": stats.committed}


@app.exception_handler(FencepostError)
async def failed(request: Request, error: FencepostError) -> JSONResponse:
    if isinstance(error, CommitOutcomeUnknown):
        try:
            await error.resolve(5.0)
            return JSONResponse({"committed": True})
        except FencepostError as known:  # it was not committed, or nothing is known yet
            error = known
    return JSONResponse({"error": str(error)}, status_of(error), headers={"Retry-After": "1"})
