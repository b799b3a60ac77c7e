"""A real Prefect server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prefect_server import real_server


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """The API of a real Prefect server."""
    with real_server() as url:
        yield url
