"""The layout of a store: where each kind of object lies.

What always holds: keys are made here and nowhere else, and a fingerprint's objects lie under its first two digits.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from geocairn.checkpoint import is_fingerprint
from geocairn.failure import InputFailure

CHECKPOINTS = "checkpoints/"
LAYERS = "layers/"
LEASES = "leases/"
RUNS = "runs/"
TRACES = "traces/"
PLANS = "plans/"
QUARANTINE = "quarantine/"

NAMESPACES = (CHECKPOINTS, LAYERS, LEASES, RUNS, TRACES, PLANS, QUARANTINE)
"""Where all objects of a store lie."""

_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_-]")


def check_fingerprint(text: str) -> str:
    """Return `text` if it is a fingerprint, else refuse it."""
    if not is_fingerprint(text):
        raise InputFailure(f"{text!r} is no fingerprint", remedy="a fingerprint has 64 hexadecimal digits")
    return text


def check_run_id(run_id: str) -> str:
    """Return `run_id` if it can be part of a key, else refuse it."""
    if not _RUN_ID.match(run_id):
        raise InputFailure(f"{run_id!r} is no id of a run", remedy="an id has letters, digits, '-', '_' and '.'")
    return run_id


def new_attempt() -> str:
    """Return a name for one attempt at writing a layer, which no other attempt has."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Place:
    """Where records and layers lie: in the store for everybody, or under a run for that run alone."""

    run_id: str | None = None

    def record(self, fingerprint: str) -> str:
        """Return the key of the record of a fingerprint."""
        check_fingerprint(fingerprint)
        if self.run_id is None:
            return f"{CHECKPOINTS}{fingerprint[:2]}/{fingerprint}.json"
        return f"{run_folder(self.run_id)}checkpoints/{fingerprint}.json"

    def layers(self, fingerprint: str) -> str:
        """Return the prefix of the layers of a fingerprint, one for each attempt."""
        check_fingerprint(fingerprint)
        if self.run_id is None:
            return f"{LAYERS}{fingerprint[:2]}/{fingerprint}/"
        return f"{run_folder(self.run_id)}layers/{fingerprint}/"

    def layer(self, fingerprint: str, attempt: str) -> str:
        """Return the key of the layer that one attempt writes."""
        return f"{self.layers(fingerprint)}{attempt}.parquet"


SHARED = Place()
"""The place of checkpoints that any run may use."""


def place_of(layer_key: str) -> Place:
    """Return the place that a layer's key lies in."""
    if layer_key.startswith(RUNS):
        return Place(layer_key.split("/")[1])
    return SHARED


def fingerprint_of(record_key: str) -> str | None:
    """Return the fingerprint that the key of a shared record names, or None."""
    name = record_key.rpartition("/")[2]
    fingerprint = name.removesuffix(".json")
    return fingerprint if is_fingerprint(fingerprint) and record_key == SHARED.record(fingerprint) else None


def lease(fingerprint: str) -> str:
    """Return the key of the lease on a fingerprint."""
    check_fingerprint(fingerprint)
    return f"{LEASES}{fingerprint[:2]}/{fingerprint}.json"


def run(run_id: str) -> str:
    """Return the key under which a run in flight says that it is."""
    return f"{RUNS}{check_run_id(run_id)}.json"


def run_folder(run_id: str) -> str:
    """Return the prefix of what is kept for one run alone."""
    return f"{RUNS}{check_run_id(run_id)}/"


def trace(run_id: str, day: str) -> str:
    """Return the key of a run's trace; `day` is `YYYY-MM-DD`."""
    return f"{TRACES}{day.replace('-', '/')}/{check_run_id(run_id)}.json"


def decision(scope: str, name: str) -> str:
    """Return the key of the last decision about the plan `name` in `scope`."""
    return f"{PLANS}{safe(scope)}/{safe(name)}.json"


def quarantine(fingerprint: str, time: str, suffix: str) -> str:
    """Return a key for something set aside; `time` is ISO 8601. No two calls give the same."""
    stamp = re.sub(r"[^0-9TZ]", "", time)
    return f"{QUARANTINE}{check_fingerprint(fingerprint)}-{stamp}-{secrets.token_hex(2)}.{suffix}"


def safe(name: str) -> str:
    """Return `name` as one part of a key: other characters than letters, digits, '-' and '_' as hexadecimal bytes.

    Two names never give the same part. A long one is cut and closed by its digest.
    """
    coded = "".join(letter if _PLAIN.match(letter) else _hexadecimal(letter) for letter in name)
    if not coded:
        return "="
    if len(coded) > 150:
        return coded[:80] + "=" + hashlib.sha256(coded.encode("ascii")).hexdigest()
    return coded


def _hexadecimal(letter: str) -> str:
    return "".join(f"={byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))
