"""Servers that misbehave, stopped after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from misbehaving import Servers


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.close()
