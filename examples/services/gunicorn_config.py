"""gunicorn's hooks for orders_django: a worker closes its pool when it ends. The pool waits for open transactions, or aborts them."""

from __future__ import annotations

from typing import Any

graceful_timeout = 30  # more than the pool's close_timeout_ms


def worker_exit(server: Any, worker: Any) -> None:
    from orders_django import pool

    pool.close()
