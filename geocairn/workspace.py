"""Where a plan runs: its store, scope, the folder of relative paths, S3 settings, what may be read and written there,
and this machine's memory.

One object that everything which resolves, decides or runs takes, so that none of it is looked up twice or differently.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from geocairn.memory import Memory
from geocairn.s3 import S3Settings
from geocairn.sources.reach import Reach, stated_grants
from geocairn.stores.keys import NAMESPACES
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
    reach: Reach = field(default_factory=Reach)
    """What may be read and written: nothing, unless it is said."""

    def __post_init__(self) -> None:
        """Take the store's own objects out of reach."""
        object.__setattr__(self, "reach", self.reach.keeping(_places_of(self.store)))


def default_store(base: Path | None = None) -> str:
    """Return the address of the store where none is stated: `$GEOCAIRN_STORE`, else the folder `.geocairn`."""
    return os.environ.get(STORE_VARIABLE) or str((base or Path.cwd()) / DEFAULT_STORE)


def open_workspace(
    store: str | None = None,
    *,
    scope: str | None = None,
    base: Path | None = None,
    s3: S3Settings | None = None,
    allowed: Sequence[str] = (),
) -> Workspace:
    """Return the workspace of a local run.

    Parameters
    ----------
    store : a folder or `s3://bucket/prefix`; by default `$GEOCAIRN_STORE` or `.geocairn`.
    allowed : what may be read and written beside the folder `base` and what `$GEOCAIRN_ALLOW` states.

    Raises
    ------
    InputFailure : for a store address, or something to be allowed, of another form.
    """
    chosen_scope = scope or DEFAULT_SCOPE
    where = base or Path.cwd()
    url = store or default_store(where)
    reach = Reach.local(where, [*stated_grants(), *allowed])
    return Workspace(open_store(url, settings=s3, scope=chosen_scope), chosen_scope, where, s3, reach=reach)


def _places_of(store: CheckpointStore) -> list[str]:
    """Return the places of a store's objects, as grants are written."""
    within = store.objects.local("x")
    if within is not None:
        return [os.path.realpath(within.parent / name) for name in (*NAMESPACES, ".tmp", ".locks")]
    root = unquote(store.objects.url.partition("?")[0]).rstrip("/")
    return [f"{root}/{name}".rstrip("/") for name in NAMESPACES]
