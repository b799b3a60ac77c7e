"""A connection to DuckDB with its spatial extension: in memory, within a memory limit, spilling to a folder.

What always holds: nothing is downloaded where the extension is installed as a package; once it is loaded, SQL can
reach neither files nor the network and no setting can be changed; DuckDB's errors leave as failures with a class and
a remedy. The limit is for the process: all threads share one database, each with its own connection and its own
tables.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geocairn.failure import CapabilityFailure, Failure, FatalFailure, InputFailure

MEMORY_VARIABLE = "GEOCAIRN_DUCKDB_MEMORY"
"""How much memory DuckDB may take in this process, such as `2GB`; beyond it, it spills to disk. DuckDB's own default
(80 % of the machine's) where it is not set. What GEOS takes for single geometries is not counted."""
SPILL_VARIABLE = "GEOCAIRN_DUCKDB_SPILL"
"""The folder in which a folder to spill to is made; the system's for temporary files where it is not set."""
THREADS = 2
REMEDY_INSTALL = "install geocairn[duckdb] (packages duckdb, duckdb-extensions and duckdb-extension-spatial)"


@contextmanager
def connection(where: str = "duckdb") -> Iterator[Any]:
    """Open a connection whose tables nobody else sees, and close it at the end.

    Parameters
    ----------
    where : what the failures are about: the operation.

    Raises
    ------
    CapabilityFailure : when DuckDB or its extension is not installed, when its memory did not suffice, and for errors
        of the engine.
    InputFailure : when GEOS gives up on a geometry, as it does in the reference.
    FatalFailure : when the disk is full, or a setting is wrong.
    """
    try:
        database = _database(os.getpid(), os.environ.get(MEMORY_VARIABLE), os.environ.get(SPILL_VARIABLE))
    except Failure as failure:
        raise failure.at(where) from failure.__cause__
    opened = database.cursor()
    try:
        with _failures(where):
            yield opened
    finally:
        opened.close()


def installed() -> bool:
    """Return whether the package duckdb is installed; loads nothing."""
    from importlib.util import find_spec

    return find_spec("duckdb") is not None


@functools.lru_cache(maxsize=4)
def _database(process: int, memory: str | None, spill: str | None) -> Any:
    """Return this process's database: one for each process, since a forked child cannot use its parent's."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise CapabilityFailure("backend duckdb is not installed", remedy=REMEDY_INSTALL) from None
    except ImportError as error:
        raise CapabilityFailure(f"backend duckdb cannot be loaded ({error})", remedy=REMEDY_INSTALL) from error
    try:
        folder = tempfile.mkdtemp(prefix="geocairn-duckdb-", dir=spill)
    except OSError as error:
        raise FatalFailure(
            f"DuckDB has no folder to spill to ({error})", remedy=f"correct the setting {SPILL_VARIABLE}"
        ) from error
    atexit.register(_remove, folder, process)
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": THREADS,
        "temp_directory": folder,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        **({} if memory is None else {"memory_limit": memory}),
    }
    try:
        database = duckdb.connect(":memory:", config=settings)
    except duckdb.Error as error:
        raise FatalFailure(
            f"DuckDB does not take {MEMORY_VARIABLE}={memory!r} ({str(error).splitlines()[0]})",
            remedy="write it as a number and a unit, such as 2GB",
        ) from error
    _load_spatial(database)
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


def _load_spatial(database: Any) -> None:
    """Load the extension: from its package, else where DuckDB has it installed, else from DuckDB's server."""
    import duckdb

    packaged = _packaged_extension()
    attempts = [f"LOAD '{packaged}'"] if packaged is not None else ["LOAD spatial", "INSTALL spatial; LOAD spatial"]
    for number, statement in enumerate(attempts):
        try:
            database.execute(statement)
            return
        except duckdb.Error as error:
            if "Out of Memory" in str(error):
                raise CapabilityFailure(
                    f"DuckDB's memory did not suffice to load its spatial extension ({_first_line(error)})",
                    remedy="give the process more memory",
                ) from error
            if number + 1 == len(attempts):
                raise CapabilityFailure(
                    f"DuckDB's spatial extension cannot be loaded ({str(error).splitlines()[0]})", remedy=REMEDY_INSTALL
                ) from error


def _packaged_extension() -> Path | None:
    """Return the extension's file in the package duckdb-extension-spatial, if that has one for this DuckDB."""
    from importlib.util import find_spec

    import duckdb

    spec = find_spec("duckdb_extension_spatial")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        file = Path(place, "extensions", f"v{duckdb.__version__}", "spatial.duckdb_extension")
        if file.is_file() and "'" not in str(file):
            return file
    return None


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child must not take its parent's folder away
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _failures(where: str) -> Iterator[None]:
    """Turn DuckDB's errors into failures with a class."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise CapabilityFailure(
            f"DuckDB's memory did not suffice ({_first_line(error)})",
            where=where,
            remedy=f"allow it more ({MEMORY_VARIABLE}), or more room to spill ({SPILL_VARIABLE})",
        ) from error
    except duckdb.Error as error:
        text = _first_line(error)
        if "No space left on device" in str(error):
            raise FatalFailure(
                f"the disk is full ({text})", where=where, remedy=f"make room, or set {SPILL_VARIABLE} to another disk"
            ) from error
        if "TopologyException" in text:
            raise InputFailure(
                f"the geometry engine gave up: {text}", where=where, remedy="make_valid before this step"
            ) from error
        raise CapabilityFailure(
            f"DuckDB gave up: {text}", where=where, remedy="use backend geopandas for this step"
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
