"""Versions of sources, pinned when a run starts and held to for the whole run.

What always holds: within one pinning a source has one version, whoever asks; a changed source is told by
`SourceChanged` when it is read, and answered by pinning again and deciding the whole plan again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from geocairn.fingerprint import fingerprint, scope_of, source_record
from geocairn.sources.describe import SourceFacts, describe
from geocairn.sources.source import Source
from geocairn.sources.uri import canonical_uri
from geocairn.sources.version import SourceVersion, resolve_version
from geocairn.workspace import Workspace


@dataclass(frozen=True)
class PinnedSource:
    """A source and the version that a run holds it to."""

    source: Source
    version: SourceVersion
    uri: str
    """Canonical, without secrets."""
    fingerprint: str
    scopes: tuple[str, ...]
    """Who may read it: none for a public one."""
    record: Mapping[str, object]


def pin(source: Source, workspace: Workspace) -> PinnedSource:
    """Resolve the version of a source as it is now.

    Raises
    ------
    InputFailure : when it is not there.
    Failure : of another class, when it cannot be asked.
    """
    version = resolve_version(
        source, base=workspace.base, s3=workspace.s3, memory=workspace.memory, reach=workspace.reach
    )
    return pinned_at(source, version, workspace)


def pinned_at(source: Source, version: SourceVersion, workspace: Workspace) -> PinnedSource:
    """Return a source held to a version that is already known."""
    uri = canonical_uri(source.uri, workspace.base, workspace.s3)
    record = source_record(source, version.text, uri, is_content=version.is_content_digest, scope=workspace.scope)
    scope = scope_of(source, workspace.scope)
    return PinnedSource(source, version, uri, fingerprint(record), (scope,) if scope else (), record)


def describe_source(source: Source, workspace: Workspace) -> SourceFacts:
    """Return what is known of a source as it is now, from its header or this machine's memory.

    Raises
    ------
    InputFailure : when it is not there or cannot be read as the plan says.
    """
    return describe(source, base=workspace.base, s3=workspace.s3, memory=workspace.memory, reach=workspace.reach)
