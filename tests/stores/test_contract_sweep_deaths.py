"""What lies in a store after each kind of death, and that the sweep takes it: on a folder and on a real S3 server."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import pytest
from store_samples import Script, checkpoint, fingerprint, keys_under, layer
from sweep_samples import AT_ONCE, NOTHING_KEPT, all_sound, commit, contents, expired, later, orphan, swept

from geocairn.s3 import S3Settings, client
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.leases import Held, acquire, owner
from geocairn.stores.opening import open_store
from geocairn.stores.s3 import S3Objects
from geocairn.stores.sweep import sweep

FP = fingerprint("step")
RECORD = keys.SHARED.record(FP)


@pytest.fixture(autouse=True)
def own_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary files for stores on S3 lie in this machine's folder for them: here one of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def killed(body: str, store_url: str, settings: S3Settings | None, folder: Path) -> None:
    begin = f"import tempfile; tempfile.tempdir = {str(folder)!r}\n"
    assert Script(begin + body, store_url, settings).wait() == -9


KILL = "os.kill(os.getpid(), signal.SIGKILL)"
COMMIT = f"""
from geocairn.stores import checkpoints
checkpoints.stage = lambda name: {KILL} if name == POINT else None
store.commit(checkpoint("step"), layer(7))
"""


@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("layer written", {"temporary file"}),
        ("layer uploaded", {"layer", "temporary file"}),
        ("record set aside", {"layer", "quarantine"}),
        ("record written", {"quarantine"}),
    ],
)
def test_a_commit_that_was_killed_leaves_nothing_that_the_sweep_does_not_take(
    store: CheckpointStore,
    store_url: str,
    store_settings: S3Settings | None,
    own_temporary_files: Path,
    point: str,
    left: set[str],
) -> None:
    kept = commit(store, "kept")
    if "record" in point:
        lost = commit(store, "step").layer
        assert lost is not None
        store.objects.delete(lost.key)
    before = contents(store)
    killed(COMMIT.replace("POINT", repr(point)), store_url, store_settings, own_temporary_files)
    found = swept(store, retention=NOTHING_KEPT, grace=AT_ONCE)
    expected = set(left)
    if point == "layer uploaded" and store.objects.local(RECORD) is not None:
        expected -= {"temporary file"}  # a folder takes the very file
    assert {one.kind for one in found.removed} == expected
    assert temporary_files(store, own_temporary_files) == []
    new = set(contents(store)) - set(before)
    if point == "record written":
        made = store.get(FP)
        assert made is not None
        assert made.layer is not None
        assert new == {made.layer.key}
    else:
        assert new == set()
        # The record whose layer was lost is left as it was: the next run of its step replaces it.
        assert store.look_up(FP).reason == ("layer missing" if "record" in point else "missing")
        store.objects.delete(RECORD)
    all_sound(store)
    assert store.get(kept.fingerprint) == kept


def temporary_files(store: CheckpointStore, folder: Path) -> list[Path]:
    local = store.objects.local("x")
    folders = [local.parent / ".tmp"] if local is not None else list(folder.glob("geocairn-*"))
    return [path for one in folders if one.is_dir() for path in one.iterdir()]


def test_a_temporary_file_of_a_living_process_stays(store: CheckpointStore, own_temporary_files: Path) -> None:
    path = store.objects.scratch(".parquet")
    path.write_bytes(b"half a layer")
    later(store, days=30)
    assert swept(store).removed == []
    assert path.read_bytes() == b"half a layer"


def test_a_holder_that_was_killed_leaves_a_lease_until_its_death_is_forgotten(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None, own_temporary_files: Path
) -> None:
    body = f"""
from geocairn.stores import checkpoints, leases
checkpoints.stage = lambda name: {KILL} if name == "layer uploaded" else None
with leases.acquire(store.objects, {FP!r}, leases.owner("run-1", "geopandas")):
    store.commit(checkpoint("step"), layer(7))
"""
    killed(body, store_url, store_settings, own_temporary_files)
    assert {one.kind for one in swept(store, grace=AT_ONCE).removed} - {"temporary file"} == {"layer"}
    held = acquire(store.objects, FP, owner("run-2", "geopandas"))
    assert isinstance(held, Held)
    assert held.deaths == {"geopandas": 1}
    held.release()
    later(store, hours=25)
    assert {one.kind for one in swept(store).removed} == {"lease"}
    assert contents(store) == {}


def test_a_run_that_was_killed_leaves_nothing_behind(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None, own_temporary_files: Path
) -> None:
    body = f"""
from geocairn.stores import checkpoints
from geocairn.stores.runs import RunInFlight
RunInFlight(store, "run-1", [{FP!r}]).start()
store.put_run_layer("run-1", {FP!r}, layer(), checkpoint("step"))
store.objects.write("runs/run-1/pins/x.json", b"{{}}")
checkpoints.stage = lambda name: {KILL} if name == "layer uploaded" else None
store.put_run_layer("run-1", fingerprint("other"), layer(), checkpoint("other"))
"""
    killed(body, store_url, store_settings, own_temporary_files)
    found = swept(store, grace=AT_ONCE)
    assert [one.kind for one in found.removed if one.kind != "temporary file"] == [*["run file"] * 4, "run"]
    assert contents(store) == {}


@pytest.mark.parametrize("point", ["removing checkpoints/", "records removed", "removing layers/", "removing runs/"])
def test_a_sweep_that_was_killed_is_finished_by_the_next(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None, own_temporary_files: Path, point: str
) -> None:
    kept = commit(store, "kept")
    for number in range(3):
        expired(store, number)
        orphan(store, f"orphan {number}")
        store.put_run_layer(f"run-{number}", FP, layer(), checkpoint("step"))
    body = f"""
import datetime as dt
from geocairn.stores.sweep import removal
from geocairn.stores.sweep import Retention, sweep
removal.stage = lambda name: {KILL} if name.startswith({point!r}) else None
sweep(store, grace=dt.timedelta(0), retention=Retention(unsigned=dt.timedelta(0)))
"""
    killed(body, store_url, store_settings, own_temporary_files)
    for number in range(3):
        seen = store.look_up(fingerprint(number))
        if seen.found is not None:
            store.load(seen.found)
    sweep(store, grace=AT_ONCE, retention=NOTHING_KEPT)
    assert kept.layer is not None
    assert set(contents(store)) == {keys.SHARED.record(kept.fingerprint), kept.layer.key}
    store.load(kept)


# Uploads in parts


PARTS = f"""
import numpy
from pathlib import Path
from geocairn.stores import s3
import s3fs
s3.PART = 5 << 20
path = Path(tempfile.tempdir) / "large.parquet"
path.write_bytes(bytes(12 << 20))
sent = s3fs.S3FileSystem._upload_file_part_concurrent
async def cut(*arguments, **more):
    await sent(*arguments, **more)
    {KILL}
s3fs.S3FileSystem._upload_file_part_concurrent = cut
store.objects.upload(KEY, path)
"""


def open_parts(store: CheckpointStore) -> list[str]:
    objects: Any = store.objects
    found = client(objects.settings).list_multipart_uploads(Bucket=objects.bucket).get("Uploads", [])
    return [entry["Key"] for entry in found]


@pytest.mark.s3
def test_an_upload_in_parts_that_was_killed_is_aborted(
    s3_bucket: str, s3_settings: S3Settings, own_temporary_files: Path
) -> None:
    store = open_store(f"s3://{s3_bucket}/some/prefix", settings=s3_settings)
    key = keys.SHARED.layer(FP, "0")
    killed(PARTS.replace("KEY", repr(key)), f"s3://{s3_bucket}/some/prefix", s3_settings, own_temporary_files)
    assert open_parts(store) == [f"some/prefix/{key}"]
    assert contents(store) == {}
    assert swept(store).removed == []  # younger than the grace period
    later(store, hours=1, seconds=2)
    lease = acquire(store.objects, FP, owner("run-1", "geopandas"), interval=60)
    assert isinstance(lease, Held)
    assert swept(store).removed == []  # somebody may be uploading it
    lease.release()
    (one,) = swept(store).removed
    assert (one.kind, one.key, one.size, one.fingerprint) == ("open upload", key, 12 << 20, FP)
    assert open_parts(store) == []


@pytest.mark.s3
def test_uploads_in_parts_of_others_in_the_bucket_stay(s3_bucket: str, s3_settings: S3Settings) -> None:
    store = open_store(f"s3://{s3_bucket}/some/prefix", settings=s3_settings)
    for key in ("layers/x.parquet", "some/prefix/mine/x", "some/prefixed/layers/x"):
        client(s3_settings).create_multipart_upload(Bucket=s3_bucket, Key=key)
    client(s3_settings).create_multipart_upload(Bucket=s3_bucket, Key="some/prefix/runs/run-1/layers/x")
    later(store, days=30)
    assert [one.key for one in swept(store).removed] == ["runs/run-1/layers/x"]
    assert len(open_parts(store)) == 3


@pytest.mark.s3
def test_uploads_are_listed_page_by_page(
    s3_bucket: str, s3_settings: S3Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"s3://{s3_bucket}", settings=s3_settings)
    assert isinstance(store.objects, S3Objects)
    for number in range(5):
        client(s3_settings).create_multipart_upload(Bucket=s3_bucket, Key=keys.SHARED.layer(FP, str(number)))
    monkeypatch.setattr("geocairn.stores.sweep.debris.PAGE", 2)
    later(store, hours=2)
    assert len(sweep(store).removed) == 5
    assert open_parts(store) == []


def test_everything_that_died_goes_at_last(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None, own_temporary_files: Path
) -> None:
    """With all kinds of debris in one store, what stays is what is believed."""
    kept = [commit(store, number, ttl=dt.timedelta(days=400)) for number in range(3)]
    lost = commit(store, "step").layer
    assert lost is not None
    store.objects.delete(lost.key)
    for point in ("layer written", "layer uploaded", "record set aside"):
        killed(COMMIT.replace("POINT", repr(point)), store_url, store_settings, own_temporary_files)
    later(store, days=100)
    swept(store)
    assert len(contents(store)) == 2 * len(kept)
    assert temporary_files(store, own_temporary_files) == []
    assert keys_under(store, keys.QUARANTINE) == []
    for made in kept:
        store.load(made)
