"""Where a plan runs: its store, scope, the folder of relative paths, S3 settings and this machine's memory.

One object that everything which resolves, decides or runs takes, so that none of it is looked up twice or differently.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from geocairn.memory import Memory
from geocairn.s3 import S3Settings
from geocairn.stores.opening import open_store

if TYPE_CHECKING:
    from geocairn.stores.checkpoints import CheckpointStore

STORE_VARIABLE = "GEOCAIRN_STORE"
DEFAULT_STORE = ".geocairn"
DEFAULT_SCOPE = "default"


@dataclass(frozen=True)
class Workspace:
    """Where a plan runs."""

    store: CheckpointStore
    scope: str = DEFAULT_SCOPE
    """Whoever runs the plan: decides which private sources' results are shared with whom."""
    base: Path = field(default_factory=Path.cwd)
    """The folder from which relative paths in plans are taken."""
    s3: S3Settings | None = None
    """How sources and outputs on S3 are reached; by the environment when None."""
    memory: Memory = field(default_factory=Memory)


def default_store(base: Path | None = None) -> str:
    """Return the address of the store where none is stated: `$GEOCAIRN_STORE`, else the folder `.geocairn`."""
    return os.environ.get(STORE_VARIABLE) or str((base or Path.cwd()) / DEFAULT_STORE)


def open_workspace(
    store: str | None = None, *, scope: str | None = None, base: Path | None = None, s3: S3Settings | None = None
) -> Workspace:
    """Return the workspace at `store`: a folder, `s3://bucket/prefix`, or by default `$GEOCAIRN_STORE` or `.geocairn`.

    Raises
    ------
    InputFailure : for a store address of another form.
    """
    chosen_scope = scope or DEFAULT_SCOPE
    where = base or Path.cwd()
    url = store or default_store(where)
    return Workspace(open_store(url, settings=s3, scope=chosen_scope), chosen_scope, where, s3)
