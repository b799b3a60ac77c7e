"""A real Prefect server for tests, the one that local runs start: used by the fixtures of several folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from geocairn.flows import local_server


@contextmanager
def real_server() -> Iterator[str]:
    """Yield the URL of a healthy server's API, with this process's Prefect and its children set to use it."""
    server, _ = local_server.launch()
    local_server.wait_until_healthy(server, 180)
    before = os.environ.get("PREFECT_API_URL")
    os.environ["PREFECT_API_URL"] = server.url
    from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_LEVEL, temporary_settings

    try:
        with temporary_settings({PREFECT_API_URL: server.url, PREFECT_LOGGING_LEVEL: "INFO"}):
            yield server.url
    finally:
        if before is None:
            os.environ.pop("PREFECT_API_URL", None)
        else:
            os.environ["PREFECT_API_URL"] = before
        local_server.stop()
