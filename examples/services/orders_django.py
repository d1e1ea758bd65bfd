"""A Django service in one file: each request writes an order and an invoice in a transaction of its own.

pip install ../.. django gunicorn        # in this directory of a checkout
KAFKA=localhost:9092 gunicorn --workers 2 --threads 8 --config gunicorn_config.py orders_django:application      # also with --preload
curl -X POST localhost:8000/orders/1
"""

from __future__ import annotations

import os
import secrets
import time

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from http_status import status_of

from fencepost import CommitOutcomeUnknown, FencepostError, TransactionalPool

# Made when the module is imported, connected with the first request. Without `instance`, each worker process gets ids of its own.
pool = TransactionalPool(
    bootstrap_servers=os.environ.get("KAFKA", "localhost:9092"),
    transactional_id_prefix="orders-site",
    size=int(os.environ.get("POOL_SIZE", "4")),
    acquire_timeout_ms=10_000,
    close_timeout_ms=20_000,
)


def place(request: HttpRequest, number: int) -> JsonResponse:
    try:
        with pool.transaction() as tx:
            tx.send("orders", b"order %d" % number)
            time.sleep(float(request.GET.get("seconds", "0")))  # stands for work of yours, such as a query
            tx.send("invoices", b"invoice %d" % number)
    except CommitOutcomeUnknown as unknown:
        unknown.resolve(5.0)  # returns if it was committed, and raises if not
    return JsonResponse({"committed": number})


def ready(request: HttpRequest) -> JsonResponse:
    stats = pool.check(2.0)
    return JsonResponse({"instance": pool.instance, "in_use": stats.in_use, "waiting": stats.waiting, "committed": stats.committed})


class Failed:
    """Middleware that tells a client what an error of a transaction means."""

    def __init__(self, get_response: object) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> object:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> JsonResponse | None:
        if isinstance(error, FencepostError):
            return JsonResponse({"error": str(error)}, status=status_of(error), headers={"Retry-After": "1"})
        return None


urlpatterns = [path("orders/<int:number>", place), path("ready", ready)]
settings.configure(
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[f"{__name__}.Failed"],
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    SECRET_KEY=os.environ.get("SECRET_KEY", secrets.token_hex()),
)
application = get_wsgi_application()
