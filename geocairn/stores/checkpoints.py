"""The checkpoint store: look-up, commit and loading, on any object store.

A commit has two steps, in this order: the layer under a key that only this attempt has, then the record by a
conditional write. What always holds: a crash at any point leaves nothing that a reader trusts; a record that is
believed is never overwritten; one that is not believed is replaced only under the tag that was read, and kept aside
unless it has only expired;
and a look-up that is refused or fails raises, it is never a miss.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.checkpoint import Checkpoint, LayerReference, format_time, write_record
from geocairn.failure import FatalFailure, TransientFailure
from geocairn.stores.belief import LayerLost, LookUp, judge
from geocairn.stores.keys import Place, new_attempt, place_of, run_folder
from geocairn.stores.objects import Conflict, Missing, Objects
from geocairn.stores.quarantine import set_aside, set_layer_aside
from geocairn.stores.refusals import refusal

if TYPE_CHECKING:
    from geocairn.memory import Memory

__all__ = ["CheckpointStore", "LayerLost", "LookUp"]

TTL = dt.timedelta(days=7)
"""How long a run's checkpoints are kept unless something else is said."""

RACES = 5
"""How often a commit looks again after another writer was there."""


def stage(name: str) -> None:
    """Mark a point at which a commit can be cut off. Does nothing: tests put a kill or a fault in its place.

    The points are `layer written`, `layer uploaded`, `record set aside` and `record written`.
    """


class CheckpointStore:
    """Checkpoints by fingerprint. May be used from several threads and processes at once.

    Parameters
    ----------
    objects : the object store beneath.
    scope : who reads and writes here, where a plan says nothing else.
    ttl : how long a commit is valid; None for ever.
    memory : this machine's memory of records already read, for look-ups of many on S3.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        scope: str = "default",
        ttl: dt.timedelta | None = TTL,
        memory: Memory | None = None,
    ) -> None:
        self.objects = objects
        self.scope = scope
        self.ttl = ttl
        self._memory = memory
        self._cleaned = False

    @property
    def url(self) -> str:
        """The store's canonical address, without secrets."""
        return self.objects.url

    def __repr__(self) -> str:
        return f"CheckpointStore({self.url!r}, scope={self.scope!r})"

    # Looking up

    def look_up(self, fingerprint: str, *, run_id: str | None = None) -> LookUp:
        """Return whether there is a checkpoint that can be believed, or why not; with `run_id` among that run's own.

        Raises
        ------
        Failure : of its class, where the store refuses or does not answer.
        """
        place = Place(run_id)
        stored = self.objects.read(place.record(fingerprint))
        return judge(fingerprint, stored, self.objects.now() if stored else 0.0, self._size_of, place)

    def get(self, fingerprint: str) -> Checkpoint | None:
        """Return the checkpoint of a fingerprint if it is believed."""
        return self.look_up(fingerprint).checkpoint

    def look_up_many(self, fingerprints: Iterable[str]) -> dict[str, LookUp]:
        """Return a look-up for each fingerprint, on S3 with one listing for every thousand keys."""
        from geocairn.stores.survey import survey

        return survey(self.objects, list(dict.fromkeys(fingerprints)), self.look_up, self._memory)

    def _size_of(self, key: str) -> int | None:
        info = self.objects.head(key)
        return info.size if info else None

    # Committing

    def commit(
        self,
        checkpoint: Checkpoint,
        layer: Any = None,
        *,
        replace: LookUp | None = None,
        write: Callable[[Any, Path], None] | None = None,
        pinned: bool = False,
        ttl: dt.timedelta | None = None,
        run_id: str | None = None,
    ) -> Checkpoint:
        """Store a layer and then its record, and return the checkpoint that is now believed: this one, or the winner's.

        Parameters
        ----------
        checkpoint : the record without layer reference and times, which are filled in here.
        layer : the layer (GeoDataFrame or DataFrame) of a step, or whatever `write` takes; None for a source or a
            publication, which have none.
        replace : the look-up that found a record which is not believed, and is then kept aside; or one that is
            believed and is to be renewed (an older gate's, an output that was published again). It is replaced if
            nobody else has replaced it in the meantime.
        write : writes the layer to a path as Parquet; by default `layers.write_layer_file`.
        pinned : whether it never expires.
        ttl : how long it is kept, where the step says so; by default the store's time-to-live.
        run_id : keep it for this run alone.

        Raises
        ------
        Failure : of its class, where the store refuses or does not answer; what is committed then is whole or nothing.
        """
        place = Place(run_id)
        fingerprint = checkpoint.fingerprint
        self._clean_once()
        reference = None
        if checkpoint.kind == "step":
            if layer is None and write is None:
                raise FatalFailure("a step's checkpoint needs a layer", where=fingerprint)
            reference = self._store_layer(place.layer(fingerprint, new_attempt()), layer, write)
        now = self.objects.now()
        kept = ttl or self.ttl
        complete = checkpoint.replaced(
            layer=reference,
            created=format_time(now),
            expires=None if pinned or kept is None or run_id is not None else format_time(now + kept.total_seconds()),
        )
        return self._store_record(place, complete, replace)

    def renew(self, checkpoint: Checkpoint, standing: LookUp) -> Checkpoint:
        """Replace a believed record by one that says something else of the same layer; return what is believed then.

        Parameters
        ----------
        checkpoint : the record with its new facts (a later gate's), layer reference and times as they were.
        standing : the look-up that found it; where another has replaced it since, the other's stays.
        """
        return self._store_record(Place(), checkpoint, standing)

    def _store_layer(self, key: str, layer: Any, write: Callable[[Any, Path], None] | None) -> LayerReference:
        path = self.objects.scratch(".parquet")
        try:
            if write is None:
                from geocairn.stores.layers import write_layer_file

                write = write_layer_file
            write(layer, path)
            reference = LayerReference(key, path.stat().st_size, _digest(path))
            stage("layer written")
            self.objects.upload(key, path, take=True)
            stage("layer uploaded")
        finally:
            path.unlink(missing_ok=True)
        return reference

    def _store_record(self, place: Place, checkpoint: Checkpoint, replace: LookUp | None) -> Checkpoint:
        fingerprint = checkpoint.fingerprint
        key = place.record(fingerprint)
        data = write_record(checkpoint)
        standing = replace
        for _ in range(RACES):
            try:
                if standing is None or standing.tag is None:
                    self.objects.write(key, data, if_absent=True)
                else:
                    if standing.checkpoint is None and standing.reason != "expired":  # age needs no person's look
                        set_aside(self.objects, fingerprint, standing.record or b"", standing.detail or standing.reason)
                        stage("record set aside")
                    self.objects.write(key, data, if_tag=standing.tag)
                stage("record written")
                return checkpoint
            except Conflict:
                standing = self.look_up(fingerprint, run_id=place.run_id)
                if standing.checkpoint is not None:
                    return self._adopt(standing.checkpoint, checkpoint)
        raise TransientFailure(
            "other writers were faster each time",
            where=key,
            remedy="try again; if it stays so, look for a faulty client",
        )

    def _adopt(self, winner: Checkpoint, own: Checkpoint) -> Checkpoint:
        """Return the winner of a race and remove the loser's layer. A write whose answer was lost finds itself here."""
        if own.layer is not None and winner.layer != own.layer:
            self.objects.delete(own.layer.key)
        return winner

    def _clean_once(self) -> None:
        if not self._cleaned:
            self._cleaned = True
            self.objects.clean()

    # Loading

    def load(self, checkpoint: Checkpoint, columns: Sequence[str] | None = None) -> Any:
        """Return the layer of a checkpoint, read whole and found to be what the record says.

        Raises
        ------
        LayerLost : when it is gone or differs; its record is then set aside, and a look-up finds nothing.
        """
        from geocairn.stores.layers import read_layer_file

        with self.opened(checkpoint) as path:
            try:
                return read_layer_file(path, columns)
            except FileNotFoundError as error:
                assert checkpoint.layer is not None
                raise self._lost(checkpoint, checkpoint.layer, "it is gone", None) from error
            except OSError as error:
                raise refusal(error, doing="read a layer", where=str(path)) from error

    @contextmanager
    def opened(self, checkpoint: Checkpoint) -> Iterator[Path]:
        """Give the file of a checkpoint's layer, found to be what the record says; a copy of it goes in the end.

        Raises
        ------
        LayerLost : as `load` does.
        """
        reference = checkpoint.layer
        if reference is None:
            raise FatalFailure(f"a {checkpoint.kind} has no layer in the store", where=checkpoint.fingerprint)
        path, copy = self._fetched(checkpoint, reference)
        try:
            yield path
        finally:
            if copy is not None:
                copy.unlink(missing_ok=True)

    def _fetched(self, checkpoint: Checkpoint, reference: LayerReference) -> tuple[Path, Path | None]:
        """Return where the layer's file lies, found whole, and the copy that was made for that."""
        path = self.objects.local(reference.key)
        found = False
        temporary = None if path is not None else self.objects.scratch(".parquet")
        try:
            if temporary is not None:
                path = temporary
                self.objects.download(reference.key, path)
            assert path is not None
            found = _is_whole(path, reference)
            if found:
                return path, temporary
            # One bad read is not a lost layer: it is set aside, for everybody, only when it reads wrong twice.
            if temporary is not None:
                self.objects.download(reference.key, path)
            found = _is_whole(path, reference)
            if found:
                return path, temporary
            raise self._lost(checkpoint, reference, "it is not what was written", path)
        except (FileNotFoundError, Missing) as error:
            raise self._lost(checkpoint, reference, "it is gone", None) from error
        except OSError as error:
            raise refusal(error, doing="read a layer", where=reference.key) from error
        finally:
            if temporary is not None and not found:
                temporary.unlink(missing_ok=True)

    def _lost(self, checkpoint: Checkpoint, reference: LayerReference, how: str, path: Path | None) -> LayerLost:
        """Set the record aside, and the layer if there is one, and return the failure that says so."""
        run_id = place_of(reference.key).run_id
        standing = self.look_up(checkpoint.fingerprint, run_id=run_id)
        ours = False
        if standing.found is not None and standing.found.layer == reference:
            ours = self.discard(checkpoint.fingerprint, f"its layer {reference.key}: {how}", standing, run_id=run_id)
        if path is not None and ours:  # of several that miss it at once, the one that removed the record
            set_layer_aside(self.objects, checkpoint.fingerprint, path)
            self.objects.delete(reference.key)
        return LayerLost(
            checkpoint.fingerprint,
            f"the layer of step {checkpoint.step or checkpoint.operation!r} is lost: {how}",
            where=reference.key,
            remedy="the step that makes it has to run again",
        )

    def discard(
        self, fingerprint: str, reason: str, look_up: LookUp | None = None, *, run_id: str | None = None
    ) -> bool:
        """Set a record aside and remove it; false where there is none, or another has replaced what `look_up` found."""
        standing = look_up or self.look_up(fingerprint, run_id=run_id)
        if standing.tag is None:
            return False
        set_aside(self.objects, fingerprint, standing.record or b"", reason)
        try:
            return self.objects.delete(Place(run_id).record(fingerprint), if_tag=standing.tag)
        except Conflict:
            return False

    # Layers for one run alone

    def put_run_layer(
        self,
        run_id: str,
        fingerprint: str,
        layer: Any,
        checkpoint: Checkpoint,
        *,
        write: Callable[[Any, Path], None] | None = None,
    ) -> Checkpoint:
        """Keep the layer of a step with policy `never` for one run, and return its checkpoint."""
        if checkpoint.fingerprint != fingerprint:
            raise FatalFailure("the checkpoint speaks of another fingerprint", where=fingerprint)
        return self.commit(checkpoint, layer, write=write, run_id=run_id)

    def get_run_layer(self, run_id: str, fingerprint: str) -> Checkpoint | None:
        """Return the checkpoint of a layer that is kept for one run, if it is believed."""
        return self.look_up(fingerprint, run_id=run_id).checkpoint

    def clear_run(self, run_id: str) -> int:
        """Remove what was kept for one run alone; return how many objects. Records go before their layers."""
        removed = 0
        for info in list(self.objects.list(run_folder(run_id))):
            removed += self.objects.delete(info.key)
        return removed


def _is_whole(path: Path, reference: LayerReference) -> bool:
    return path.stat().st_size == reference.size and _digest(path) == reference.sha256


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
