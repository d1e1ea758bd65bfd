"""A Celery worker: each task writes an order and an invoice in a transaction of its own.

pip install ../.. celery        # in this directory of a checkout
KAFKA=localhost:9092 BROKER=redis://localhost celery -A orders_celery worker --concurrency 4
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import worker_process_shutdown, worker_shutdown

from fencepost import CommitOutcomeUnknown, MustAbort, Retriable, TransactionalPool

app = Celery("orders", broker=os.environ.get("BROKER", "redis://localhost"))
app.conf.task_acks_late = True  # a task whose worker was killed is given to another one
app.conf.task_reject_on_worker_lost = True

# One transaction at a time in each process of a prefork worker; raise `size` with --pool threads.
pool = TransactionalPool(
    bootstrap_servers=os.environ.get("KAFKA", "localhost:9092"),
    transactional_id_prefix="orders-worker",
    size=int(os.environ.get("POOL_SIZE", "1")),
)


@app.task(autoretry_for=(Retriable, MustAbort), retry_backoff=True, max_retries=5)
def place(number: int) -> int:
    # A task may run twice, if its worker is killed between the commit and the acknowledgement: consumers tell orders apart by their number.
    try:
        with pool.transaction() as tx:
            tx.send("orders", b"order %d" % number)
            tx.send("invoices", b"invoice %d" % number)
    except CommitOutcomeUnknown as unknown:
        unknown.resolve(30.0)  # returns if it was committed, and raises if not
    return number


@worker_process_shutdown.connect
@worker_shutdown.connect
def end(**_: Any) -> None:
    pool.close()
