"""A commit that is killed at each of its points, on a folder and on a real S3 server."""

from __future__ import annotations

from typing import Any

import pytest
from store_samples import Script, checkpoint, fingerprint, layer, overwrite

from geocairn.s3 import S3Settings
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.opening import open_store

FP = fingerprint("step")


def commit(store: CheckpointStore, number: int = 0) -> Any:
    return store.commit(checkpoint("step"), layer(number))


def damage(store: CheckpointStore) -> None:
    commit(store)
    overwrite(store, keys.SHARED.record(FP), b"no record")


@pytest.mark.parametrize("point", ["layer written", "layer uploaded", "record set aside", "record written"])
def test_a_kill_at_each_point_of_a_commit_leaves_nothing_half_made(
    store: CheckpointStore, store_url: str, store_settings: S3Settings | None, point: str
) -> None:
    if point == "record set aside":
        damage(store)
    body = f"""
        from geocairn.stores import checkpoints
        checkpoints.stage = lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == {point!r} else None
        store.commit(checkpoint("step"), layer(7))
    """
    assert Script(body, store_url, store_settings).wait() == -9
    found = store.look_up(FP)
    if point == "record written":
        assert found.checkpoint is not None
        assert store.load(found.checkpoint)["n"].tolist() == [7, 1, 2]
        return
    assert found.checkpoint is None
    made = commit(store, number=8)
    assert store.get(FP) == made
    assert store.load(made)["n"].tolist() == [8, 1, 2]


def test_what_a_killed_process_left_in_a_folder_is_cleared_away(tmp_path: Any) -> None:
    url = str(tmp_path / "store")
    body = """
        from geocairn.stores import checkpoints
        checkpoints.stage = lambda name: os.kill(os.getpid(), signal.SIGKILL)
        store.commit(checkpoint("step"), layer())
    """
    assert Script(body, url, None).wait() == -9
    temporary = tmp_path / "store" / ".tmp"
    assert len(list(temporary.iterdir())) == 1
    commit(open_store(url))
    assert list(temporary.iterdir()) == []
