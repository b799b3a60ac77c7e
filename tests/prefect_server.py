"""A real Prefect server for tests, the one that local runs start: used by the fixtures of several folders."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from geocairn.flows import local_server


@contextmanager
def real_server() -> Iterator[str]:
    """Yield the URL of a healthy server's API, with this process's Prefect and its children set to use it."""
    server, _ = local_server.launch()
    local_server.wait_until_healthy(server, 180)
    from prefect.events.worker import EventsWorker
    from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PREFECT_API_URL", server.url)
            patch.setenv("PREFECT_LOGGING_TO_API_ENABLED", "false")
            with temporary_settings({PREFECT_API_URL: server.url, PREFECT_LOGGING_TO_API_ENABLED: False}):
                yield server.url
                EventsWorker.drain_all(timeout=20)
    finally:
        local_server.stop()


def posted(url: str, json: Any) -> Any:
    """Return the answer to a request; asked again while the server's database is busy, as Prefect's own client does."""
    for _ in range(30):
        answer = httpx.post(url, json=json, timeout=60)
        if answer.status_code != 503:
            break
        time.sleep(1)
    return answer.raise_for_status().json()
