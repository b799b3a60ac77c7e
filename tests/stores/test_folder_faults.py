"""What a file system can do to a store in a folder: never a miss, never half a commit."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from store_samples import checkpoint, fingerprint, keys_under, layer

from geocairn.failure import Failure, FatalFailure, TransientFailure
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.opening import open_store

FP = fingerprint("step")


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointStore:
    return open_store(tmp_path / "store")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EACCES, FatalFailure), (errno.EIO, FatalFailure), (errno.ESTALE, TransientFailure)]
)
def test_a_folder_that_may_not_be_read_is_no_miss(
    folder: CheckpointStore, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Failure]
) -> None:
    made = folder.commit(checkpoint("step"), layer())
    real_open, real_stat = Path.open, Path.stat

    def refuse(real: Any, part: str) -> Any:
        def asked(path: Path, *args: Any, **given: Any) -> Any:
            if part in str(path):
                raise OSError(number, os.strerror(number))
            return real(path, *args, **given)

        return asked

    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", refuse(real_open, "/checkpoints/"))
        with pytest.raises(kind):
            folder.look_up(FP)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "stat", refuse(real_stat, "/layers/"))
        with pytest.raises(kind):
            folder.look_up(FP)
    assert folder.get(FP) == made


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is forbidden to root")
def test_a_forbidden_folder_is_fatal(folder: CheckpointStore, tmp_path: Path) -> None:
    folder.commit(checkpoint("step"), layer())
    (tmp_path / "store" / "checkpoints").chmod(0)
    try:
        with pytest.raises(FatalFailure, match="right to read"):
            folder.look_up(FP)
    finally:
        (tmp_path / "store" / "checkpoints").chmod(0o700)


def test_a_full_disk_is_fatal_and_commits_nothing(folder: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr("geocairn.stores.folder._sync_file", full)
        with pytest.raises(FatalFailure, match="free some space"):
            folder.commit(checkpoint("step"), layer())
    with monkeypatch.context() as broken:
        broken.setattr("geocairn.stores.folder.os.fsync", full)
        with pytest.raises(FatalFailure, match="free some space"):
            folder.objects.write("a/b", b"x")
    assert keys_under(folder, "") == []
    assert list((Path(folder.objects.local("a")).parent / ".tmp").iterdir()) == []


def test_a_file_system_without_hard_links_still_has_one_winner(
    folder: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("geocairn.stores.folder.os.link", unable)
    made = folder.commit(checkpoint("step"), layer(1))
    assert folder.commit(checkpoint("step"), layer(2)) == made


def test_a_file_system_with_coarse_times_still_has_tags_that_differ(
    folder: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.utime
    monkeypatch.setattr("geocairn.stores.folder.os.utime", lambda file, ns: real(file, ns=(0, 0)))
    tags = set()
    for number in range(10):
        tag = folder.objects.write("a", b"%d" % number)
        stored, info = folder.objects.read("a"), folder.objects.head("a")
        assert stored is not None
        assert info is not None
        assert tag == stored.tag == info.tag
        tags.add(tag)
    assert len(tags) == 10


def test_a_store_that_was_removed_is_empty_and_can_be_made_again(folder: CheckpointStore, tmp_path: Path) -> None:
    folder.commit(checkpoint("step"), layer())
    shutil.rmtree(tmp_path / "store")
    assert folder.look_up(FP).reason == "missing"
    made = folder.commit(checkpoint("step"), layer())
    assert folder.get(FP) == made
