"""The sweep: removes from a store what nobody needs any more, and nothing else.

In this order: records that have expired, layers that no record names, what runs kept for themselves, leases that
nobody holds, quarantined objects, traces, what died processes left and, where the store is still over a size budget,
the least valuable checkpoints. What always holds: a record goes before its layer, and only under the tag that was
read; nothing goes that a run in flight names, whose lease is held, that is pinned, or of which something could not be
read; records and runs are looked at again between the two, so that a record that was written or renewed since keeps
its layer; and a sweep that is cut off at any point leaves nothing believed without its layer.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from geocairn.checkpoint import format_time
from geocairn.failure import Failure, InputFailure
from geocairn.memory import Memory
from geocairn.policy import DEFAULT_POLICY
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.objects import Info
from geocairn.stores.process import is_gone
from geocairn.stores.sweep import removal
from geocairn.stores.sweep.account import Kept, Kind, Sweep, left
from geocairn.stores.sweep.budget import least_valuable
from geocairn.stores.sweep.debris import sweep_open_uploads, sweep_temporary_files
from geocairn.stores.sweep.removal import CHANGED, Doomed, Removal
from geocairn.stores.sweep.view import (
    RESOLUTION,
    RecordSeen,
    View,
    fingerprint_in,
    in_flight,
    layer_fingerprint,
    look,
)

__all__ = ["GRACE", "Retention", "Sweep", "sweep"]

GRACE = dt.timedelta(hours=1)
"""How long something that nobody names is left alone, since its writer may still be at work."""

_IN_FLIGHT = "a run in flight may read it"
_LEASED = "somebody is computing it"
_BLIND = "what the runs in flight may read is not known"
_YOUNG = "younger than the grace period"
_FOREIGN = "a record of another version of geocairn"
_DAMAGED = "a damaged record, kept for a person to see as long as what is in quarantine"
_UNREAD = "it could not be read"
_ODD = "not a key of this store"
_NAMELESS = "no record names it"


@dataclass(frozen=True)
class Retention:
    """How long what is no checkpoint is kept. Checkpoints say so themselves, in their records.

    Attributes
    ----------
    traces : what happened in runs.
    quarantine : what was not believed and set aside; a damaged record is kept as long where it lies.
    deaths : a lease that nobody holds, for its count of deaths, since the last of them.
    unsigned : what a run kept for itself without ever having said that it is in flight.
    """

    traces: dt.timedelta = dt.timedelta(days=90)
    quarantine: dt.timedelta = dt.timedelta(days=30)
    deaths: dt.timedelta = dt.timedelta(hours=DEFAULT_POLICY.deaths_within_hours)
    unsigned: dt.timedelta = dt.timedelta(days=1)


def sweep(
    store: CheckpointStore,
    *,
    dry_run: bool = False,
    grace: dt.timedelta = GRACE,
    size_budget: int | None = None,
    retention: Retention | None = None,
    memory: Memory | None = None,
) -> Sweep:
    """Remove from a store what nobody needs any more, and return what was removed, kept and left.

    It is an operator's act on the whole store, whatever the scopes of what lies in it.

    Parameters
    ----------
    dry_run : remove nothing, and return what would be removed.
    grace : how long what no record names is left alone. With none, whoever commits without a lease is not safe.
    size_budget : bytes that the store is to come under, by removing checkpoints that have not expired: those that
        expire soonest, of those that expire in the same hour the larger ones; never pinned ones, never one that was
        written within the grace period.
    retention : how long traces, quarantine and the like are kept.
    memory : this machine's memory of records already read.

    Raises
    ------
    InputFailure : for a negative period or budget.
    Failure : of its class, where the store cannot be listed; nothing is removed then.
    """
    kept_for = retention or Retention()
    if min(grace, *kept_for.__dict__.values()) < dt.timedelta(0) or (size_budget or 0) < 0:
        raise InputFailure("a sweep was told a negative period or size", remedy="state 0 or more")
    started = store.objects.now()
    report = Sweep(store.url, dry_run, format_time(started), size_budget=size_budget)
    view = look(store.objects, memory)
    report.left += view.left
    removal.stage("looked")
    _Sweeper(store, view, report, grace.total_seconds(), kept_for, Removal(store.objects, report)).sweep()
    return report


@dataclass
class _Sweeper:
    """One sweep over what was seen."""

    store: CheckpointStore
    view: View
    report: Sweep
    grace: float
    retention: Retention
    removal: Removal
    unneeded: dict[str, tuple[str | None, float]] = field(default_factory=dict)
    """Fingerprints whose record was to go: its layer, and since when that is not needed."""

    def sweep(self) -> None:
        """Remove, in the order that is safe."""
        self._expired()
        self._damaged()
        removal.stage("records removed")
        self._layers(self._orphans())
        removal.stage("layers removed")
        self._runs()
        self._leases()
        self._old("trace", self.view.traces, self.retention.traces, parts=5)
        self._old("quarantine", self.view.quarantine, self.retention.quarantine, parts=2)
        objects, dry_run, told = self.store.objects, self.report.dry_run, self.report.left
        self.report.removed += sweep_temporary_files(objects, dry_run, told)
        self.report.removed += sweep_open_uploads(objects, self.view.now - self.grace, self._in_use_key, dry_run, told)
        if self.report.size_budget is not None:
            self._under(self.report.size_budget)
        self._account()

    # Records

    def _expired(self) -> None:
        doomed = []
        for record in self.view.records.values():
            if record.state == "foreign":
                self.report.spare(_FOREIGN)
            elif record.state == "sound" and record.expires is not None and record.expires <= self.view.now:
                use = self._in_use(record.fingerprint)
                if use:
                    self.report.spare(f"expired, but {use}")
                else:
                    doomed.append(self._record(record, f"expired at {format_time(record.expires)}"))
                    self.unneeded[record.fingerprint] = (record.layer, record.expires)
        self.removal.remove(doomed)

    def _damaged(self) -> None:
        """Set aside damaged records that were left for a person long enough."""
        for record in self.view.records.values():
            if record.state != "damaged":
                continue
            if self._in_use(record.fingerprint) or not self._older(record.info.modified, self.retention.quarantine):
                self.report.spare(_DAMAGED)
                continue
            doomed = self._record(record, "damaged: kept aside in quarantine")
            try:
                if not self.report.dry_run and not self._set_aside(record.fingerprint, doomed.reason):
                    self.report.spare(CHANGED)
                    continue
            except Failure as failure:
                self.report.left.append(left(record.info.key, failure))
                continue
            self.removal.went(doomed)

    def _set_aside(self, fingerprint: str, reason: str) -> bool:
        seen = self.store.look_up(fingerprint)
        return seen.reason == "damaged" and self.store.discard(fingerprint, reason, seen)

    def _record(self, record: RecordSeen, reason: str) -> Doomed:
        return Doomed("checkpoint", record.info, reason, record.info.tag, record.fingerprint, record.step)

    def _under(self, budget: int) -> None:
        """Remove the least valuable checkpoints, each with its layer, until the store is under its budget."""
        layers = {info.key: info for info in self.view.layers if info.key not in self.removal.gone}
        waiting = least_valuable(
            [record for record in self.view.records.values() if record.layer in layers and self._is_free(record)],
            {key: info.size for key, info in layers.items()},
        )
        while waiting and not self.removal.gave_up:
            excess = sum(info.size for infos in self._everything().values() for info in infos) - budget
            chosen = []
            while waiting and excess > 0:
                record = waiting.pop(0)
                excess -= record.info.size + layers[str(record.layer)].size
                chosen.append(record)
            if not chosen:
                return
            self.removal.remove(
                [self._record(record, "over the size budget, and it expires soonest") for record in chosen]
            )
            self._layers(
                [
                    Doomed(
                        "layer", layers[str(record.layer)], "its record is gone", None, record.fingerprint, record.step
                    )
                    for record in chosen
                    if record.info.key in self.removal.gone
                ]
            )

    def _is_free(self, record: RecordSeen) -> bool:
        """Return whether a checkpoint that is worth keeping can go for its size."""
        return (
            record.state == "sound"
            and record.expires is not None
            and record.info.key not in self.removal.gone
            and record.fingerprint not in self.unneeded
            and self._older(record.info.modified)
            and self._in_use(record.fingerprint) is None
        )

    # Layers

    def _layers(self, doomed: list[Doomed]) -> None:
        if doomed and not self.report.dry_run:
            changed = self._changed({one.fingerprint for one in doomed})
            removal.stage("looked again")
            self.report.spare(CHANGED, sum(one.fingerprint in changed for one in doomed))
            doomed = [one for one in doomed if one.fingerprint not in changed]
        self.removal.remove(doomed)

    def _orphans(self) -> list[Doomed]:
        """Return the layers that certainly no record names, and that are old enough."""
        found = []
        for info in self.view.layers:
            fingerprint = layer_fingerprint(info.key)
            record = self.view.records.get(fingerprint or "")
            why = self._why_kept(info, fingerprint, record)
            if why is None:
                step = record.step if record is not None else ""
                reason = "its record is gone" if record is not None and record.layer == info.key else _NAMELESS
                found.append(Doomed("layer", info, reason, None, fingerprint, step))
            elif why:
                self.report.spare(why)
        return found

    def _why_kept(self, info: Info, fingerprint: str | None, record: RecordSeen | None) -> str | None:
        """Return why a layer stays: empty where its record names it; None where it is to go."""
        if fingerprint is None:
            return _ODD
        if record is not None and record.info.key not in self.removal.gone:
            if record.state != "sound":
                return {"unread": _UNREAD, "foreign": _FOREIGN, "damaged": _DAMAGED}[record.state]
            if record.layer == info.key:
                return ""
            if fingerprint in self.unneeded:
                return CHANGED
        use = self._in_use(fingerprint)
        if use is not None:
            return f"no record names it, but {use}"
        since = info.modified
        if fingerprint in self.unneeded:
            layer, expired = self.unneeded[fingerprint]
            since = max(since, expired) if layer == info.key else since
        return None if self._older(since) else _YOUNG

    def _changed(self, fingerprints: set[str | None]) -> set[str | None]:
        """Look again: return those whose record is another now, that a run has come to name, or that are uncertain."""
        objects = self.store.objects
        flight = in_flight(objects, self.report.left)
        try:
            tags = {info.key: info.tag for info in objects.list(keys.CHECKPOINTS)}
        except Failure as failure:
            self.report.left.append(left(keys.CHECKPOINTS, failure))
            return fingerprints
        changed = {one for one in fingerprints if flight.names(one)}
        for one in fingerprints:
            record = self.view.records.get(str(one))
            before = record.info.tag if record is not None and record.info.key not in self.removal.gone else None
            if tags.get(keys.SHARED.record(str(one))) != before:
                changed.add(one)
        return changed

    # Runs

    def _runs(self) -> None:
        """Remove what runs kept for themselves that are over, and then what says that they are in flight."""
        folders: dict[str, list[Info]] = {}
        signs: dict[str, Info] = {}
        for info in self.view.runs:
            run_id, below, _ = info.key.removeprefix(keys.RUNS).partition("/")
            if below:
                folders.setdefault(run_id, []).append(info)
            else:
                signs[run_id.removesuffix(".json")] = info
        for run_id in {**folders, **signs}:
            infos = folders.get(run_id, [])
            if not self._is_over(run_id, infos, signed=run_id in signs):
                continue
            records = [info for info in infos if info.key.startswith(f"{keys.RUNS}{run_id}/checkpoints/")]
            for part in (records, [info for info in infos if info not in records]):  # records first, here too
                self.removal.remove(
                    [Doomed("run file", info, "its run is over", None, fingerprint_in(info.key)) for info in part]
                )
            if run_id in signs and self.removal.gone.issuperset(info.key for info in infos):
                self.removal.remove([Doomed("run", signs[run_id], "the run is in flight no more", signs[run_id].tag)])

    def _is_over(self, run_id: str, infos: list[Info], *, signed: bool) -> bool:
        """Return whether a run is certainly over, and what it kept is old enough."""
        flight = self.view.flight
        if flight.blind or any(lease.live and lease.run_id == run_id for lease in self.view.leases):
            return False
        newest = max((info.modified for info in infos), default=0.0)
        run = flight.runs.get(run_id)
        if not signed:
            return run is None and self._older(newest) and self._older(newest, self.retention.unsigned)
        if run is None or run.live:  # it has ended, or begun again, since it was listed: the next sweep sees
            return False
        # One whose process is not known to be gone may only have been asleep.
        return self._older(newest) and (is_gone(run.process) or self._older(run.expires))

    # Leases, and what is kept for a time

    def _leases(self) -> None:
        doomed = []
        for lease in self.view.leases:
            if lease.live:
                self.report.spare("a lease that is held")
            elif not self._older(lease.last, self.retention.deaths):
                self.report.spare("a lease whose count of deaths still matters")
            else:
                reason = "nobody holds it, and the deaths that it counts are forgotten"
                doomed.append(Doomed("lease", lease.info, reason, lease.info.tag, lease.fingerprint))
        self.removal.remove(doomed)

    def _old(self, kind: Kind, infos: list[Info], age: dt.timedelta, parts: int) -> None:
        doomed = []
        for info in infos:
            if len(info.key.split("/")) != parts:
                self.report.spare(_ODD)
            elif self._older(info.modified, age):
                reason = f"older than {age.total_seconds() / 86400:g} days"
                doomed.append(Doomed(kind, info, reason, info.tag))
        self.removal.remove(doomed)

    # Means

    def _older(self, modified: float, age: dt.timedelta | None = None) -> bool:
        """Return whether a time is further back than `age`, by default the grace period."""
        return self.view.now - modified + RESOLUTION >= (self.grace if age is None else age.total_seconds())

    def _in_use(self, fingerprint: str | None) -> str | None:
        """Return why a checkpoint may be in use; None where it is not."""
        if self.view.flight.blind:
            return _BLIND
        if fingerprint in self.view.leased:
            return _LEASED
        return _IN_FLIGHT if self.view.flight.names(fingerprint) else None

    def _in_use_key(self, key: str) -> bool:
        """Return whether a layer may be written under this key just now."""
        if self._in_use(fingerprint_in(key)) is not None:
            return True
        run = self.view.flight.runs.get(key.split("/")[1]) if key.startswith(keys.RUNS) else None
        return run is not None and run.live

    def _everything(self) -> dict[str, list[Info]]:
        """Return what is still there, by kind."""
        listed = {
            "checkpoint": [record.info for record in self.view.records.values()],
            "layer": self.view.layers,
            "lease": [lease.info for lease in self.view.leases],
            "run": [info for info in self.view.runs if info.key.count("/") == 1],
            "run file": [info for info in self.view.runs if info.key.count("/") > 1],
            "plan": self.view.plans,
            "trace": self.view.traces,
            "quarantine": self.view.quarantine,
        }
        return {kind: [info for info in infos if info.key not in self.removal.gone] for kind, infos in listed.items()}

    def _account(self) -> None:
        for kind, infos in self._everything().items():
            if infos:
                self.report.kept[kind] = Kept(len(infos), sum(info.size for info in infos))
        self.report.left = list(dict.fromkeys(self.report.left))
