"""The checkpoint store as a Prefect block: where steps leave their checkpoints, and Prefect's result storage for them.

Prefect asks its result storage for a key before it runs a task; this block answers with the checkpoint of that
fingerprint, in a result record that is made as it is asked for and never stored (a stored one names the serializer
that reads it, and is obeyed). What always holds: nothing but our own records is read through Prefect, and nothing is
written through it: a step commits its checkpoint itself.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import Any, ClassVar

from prefect.context import TaskRunContext
from prefect.filesystems import WritableFileSystem
from prefect.results import ResultRecord, ResultRecordMetadata  # type: ignore[attr-defined]
from pydantic import Field, PrivateAttr, SecretStr, field_validator

from geocairn.blocks.checkpoint_serializer import CheckpointSerializer
from geocairn.blocks.recovery_policy import policy_named
from geocairn.blocks.served_runs import is_served_run
from geocairn.checkpoint import is_fingerprint
from geocairn.failure import InputFailure, TransientFailure
from geocairn.policy import RecoveryPolicy
from geocairn.published import target_stands
from geocairn.s3 import S3Settings
from geocairn.sources.reach import EVERYTHING, Reach, canonical_grant, stated_grants
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.opening import open_store
from geocairn.workspace import DEFAULT_SCOPE, Workspace, default_store


class CheckpointStoreBlock(WritableFileSystem):
    """Where geocairn keeps checkpoints: a folder, or any S3-compatible service.

    Example:
        Save one, and use it as a flow's result storage:
        ```python
        from geocairn.blocks import CheckpointStoreBlock

        CheckpointStoreBlock(url="s3://geo/checkpoints", endpoint="http://127.0.0.1:8333").save("BLOCK_NAME")
        store = CheckpointStoreBlock.load("BLOCK_NAME")
        ```
    """

    _block_type_name: ClassVar[str | None] = "geocairn checkpoint store"
    _block_type_slug: ClassVar[str | None] = "geocairn-checkpoint-store"
    _description: ClassVar[str | None] = (
        "Checkpoints of geoprocessing steps as GeoParquet, in a folder or in S3-compatible storage."
    )
    _documentation_url: ClassVar[Any] = "https://pypi.org/project/geocairn/"

    url: str = Field(
        default="",
        title="Address",
        description="A folder, or s3://bucket/prefix; when empty $GEOCAIRN_STORE, else the folder .geocairn.",
        examples=["s3://geo/checkpoints", "/srv/geocairn"],
    )
    endpoint: str | None = Field(
        default=None, description="URL of the S3 service; AWS when empty.", examples=["http://127.0.0.1:8333"]
    )
    region: str | None = Field(default=None, description="Region of the S3 service.", examples=["eu-central-1"])
    path_style: bool | None = Field(
        default=None, description="Address buckets by path; by default where an endpoint is set."
    )
    profile: str | None = Field(default=None, description="Profile of the AWS configuration files.")
    access_key: str | None = Field(default=None, description="Access key id; by default from environment or profile.")
    secret_key: SecretStr | None = Field(default=None, description="Secret access key.")
    session_token: SecretStr | None = Field(default=None, description="Session token of temporary credentials.")
    scope: str = Field(
        default=DEFAULT_SCOPE,
        min_length=1,
        description="Who runs plans on this store: results from private sources are shared within a scope only.",
    )
    recovery_policy: str = Field(
        default="",
        title="Recovery policy",
        description="Name of a saved recovery policy; the built-in one when empty. It is read at each run's start.",
        examples=["patient"],
    )
    may_read: list[str] = Field(
        default_factory=list,
        title="May be read",
        description="What plans on this store may read: folders (with all in them), files, s3://bucket/prefix, "
        "https://host/path, postgresql://host/database. Where both lists are empty, a deployment may read and write "
        "only what $GEOCAIRN_ALLOW on its worker lists.",
        examples=[["/srv/data", "s3://shared/reference", "https://data.example.org"]],
    )
    may_write: list[str] = Field(
        default_factory=list,
        title="May be written",
        description="Where plans on this store may publish outputs: folders, files, s3://bucket/prefix, "
        "postgresql://host/database.",
        examples=[["/srv/out", "s3://results"]],
    )
    time_to_live_days: float | None = Field(
        default=7.0, gt=0, description="Days for which a checkpoint is kept; empty for ever.", examples=[7]
    )

    _store: CheckpointStore | None = PrivateAttr(default=None)
    _opened: str | None = PrivateAttr(default=None)
    """The address at which `_store` was opened."""

    @field_validator("url")
    @classmethod
    def _known_address(cls, value: str) -> str:
        value = value.strip()
        if value:
            try:
                open_store(value, settings=S3Settings())  # refuses an address of another kind; makes no request
            except InputFailure as failure:
                raise ValueError(str(failure)) from None
        return value

    @field_validator("may_read", "may_write")
    @classmethod
    def _known_places(cls, value: list[str]) -> list[str]:
        try:
            for uri in value:
                canonical_grant(uri)
        except InputFailure as failure:
            raise ValueError(str(failure)) from None
        return [uri.strip() for uri in value]

    @property
    def s3(self) -> S3Settings | None:
        """The S3 settings, or None where the block states none and the environment decides."""
        stated = {name: getattr(self, name) for name in S3Settings.model_fields}
        if all(value is None for value in stated.values()):
            return None
        return S3Settings(**stated)

    @property
    def address(self) -> str:
        """The address of the store: the stated one, or the default as it is now."""
        return self.url or default_store()

    @property
    def store(self) -> CheckpointStore:
        """The checkpoint store behind the block."""
        address = self.address
        if self._store is None or self._opened != address:
            ttl = dt.timedelta(days=self.time_to_live_days) if self.time_to_live_days is not None else None
            self._store = open_store(address, settings=self.s3, scope=self.scope, ttl=ttl)
            self._opened = address
        return self._store

    def policy(self) -> RecoveryPolicy:
        """Return the recovery policy of runs on this store, as it is now.

        Raises
        ------
        InputFailure : where the one that is named cannot be loaded.
        """
        return policy_named(self.recovery_policy)

    @property
    def identity(self) -> str:
        """A text that two blocks share exactly when they open the same store in the same way; tells no secret."""
        secrets = [secret.get_secret_value() for secret in (self.secret_key, self.session_token) if secret is not None]
        parts = [self.address, self.scope, self.time_to_live_days, self.recovery_policy, self.s3, secrets]
        parts += [self.may_read, self.may_write]
        return hashlib.sha256(repr(parts).encode("utf-8")).hexdigest()

    def workspace(self, *, of_a_plan: bool = False) -> Workspace:
        """Return the workspace of runs on this store, with relative paths taken from the working directory.

        What they may read and write is what the block lists, exactly. Where it lists nothing, it is for a run of a
        deployment what $GEOCAIRN_ALLOW lists; for a local run of a plan the working directory too; and for a local flow
        in Python, whose author is trusted, everything.

        Parameters
        ----------
        of_a_plan : whether it is a plan that runs, which anybody may have written.
        """
        base = Path.cwd()
        return Workspace(self.store, self.scope, base, self.s3, reach=self._reach(base, of_a_plan))

    def _reach(self, base: Path, of_a_plan: bool) -> Reach:
        if self.may_read or self.may_write:
            return Reach.of(self.may_read, self.may_write, base=base, served=is_served_run())
        if is_served_run():
            granted = stated_grants()
            return Reach.of(granted, granted, base=base, served=True)
        return Reach.local(base, stated_grants()) if of_a_plan else EVERYTHING

    def __getstate__(self) -> dict[Any, Any]:
        """Leave the open store behind: a worker opens its own."""
        state = dict(super().__getstate__())
        private = dict(state.get("__pydantic_private__") or {})
        state["__pydantic_private__"] = {**private, "_store": None, "_opened": None}
        return state

    def _resolve_path(self, path: str) -> Any:
        """Tell Prefect that there is no path of its own to check: keys are fingerprints."""
        return None

    def _record(self, path: str) -> bytes:
        if not is_fingerprint(path):
            raise InputFailure(
                f"{path!r} is no fingerprint",
                where="checkpoint store",
                remedy="it holds the checkpoints of steps; give other results another result storage",
            )
        checkpoint = self.store.get(path)
        if checkpoint is None or not target_stands(checkpoint, self.workspace()):
            # Between Prefect's two looks at a key a checkpoint can expire: the next attempt then computes it.
            raise TransientFailure("there is no checkpoint", where=path)
        # What Prefect takes from here ends the task run: a step whose expectations are not met has to say so itself.
        context = TaskRunContext.get()
        takes = getattr(context.task, "takes", None) if context is not None else None
        if context is not None and takes is not None and not takes(checkpoint, context.task_run):
            raise InputFailure("the checkpoint is not what the step expects now", where=path)
        metadata = ResultRecordMetadata(
            serializer=CheckpointSerializer(), storage_key=path, storage_block_id=self._block_document_id
        )
        return bytes(ResultRecord(result=checkpoint, metadata=metadata).serialize())

    # Prefect calls these from sync and async code alike; `_sync` is part of how it does so.
    def read_path(self, path: str, _sync: bool | None = None) -> bytes:  # type: ignore[override]
        """Return the checkpoint of a fingerprint as the result record that Prefect expects."""
        return self._record(path)

    def write_path(self, path: str, content: bytes, _sync: bool | None = None) -> None:  # type: ignore[override]
        """Accept nothing: a step commits its checkpoint itself, and no other result belongs here."""

    async def aread_path(self, path: str) -> bytes:
        """Return the checkpoint of a fingerprint as the result record that Prefect expects."""
        return self._record(path)

    async def awrite_path(self, path: str, content: bytes) -> None:
        """Accept nothing; see `write_path`."""
