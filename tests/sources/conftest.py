"""Fixtures of the sources' tests."""

from postgis_server import database, postgis

__all__ = ["database", "postgis"]
