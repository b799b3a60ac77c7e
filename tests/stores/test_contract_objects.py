"""The object store's promises, on a folder and on a real S3 server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from store_samples import in_processes, in_threads, increment, put_if_absent, replace_tag

from geocairn.failure import InputFailure
from geocairn.stores.checkpoints import CheckpointStore
from geocairn.stores.objects import Conflict, Missing, Objects


@pytest.fixture
def objects(store: CheckpointStore) -> Objects:
    return store.objects


def test_a_missing_object_is_none(objects: Objects) -> None:
    assert objects.read("a/b.json") is None
    assert objects.head("a/b.json") is None
    assert list(objects.list("a/")) == []


def test_what_is_written_is_read(objects: Objects) -> None:
    tag = objects.write("a/b.json", b"one")
    stored = objects.read("a/b.json")
    assert stored is not None
    assert (stored.data, stored.tag) == (b"one", tag)
    info = objects.head("a/b.json")
    assert info is not None
    assert (info.key, info.size, info.tag) == ("a/b.json", 3, tag)
    assert abs(info.modified - objects.now()) < 5


def test_an_empty_object_is_an_object(objects: Objects) -> None:
    objects.write("a/empty", b"")
    stored = objects.read("a/empty")
    assert stored is not None
    assert stored.data == b""


def test_a_key_is_not_the_prefix_of_another(objects: Objects) -> None:
    objects.write("a/b/c.json", b"1")
    assert objects.read("a/b") is None
    assert objects.head("a/b") is None
    assert objects.read("a/b/c.json/d") is None


def test_each_write_has_another_tag(objects: Objects) -> None:
    tags = {objects.write("a/b.json", f"{number}".encode()) for number in range(10)}
    assert len(tags) == 10


def test_if_absent_holds_and_keeps_the_first(objects: Objects) -> None:
    objects.write("a/b.json", b"one", if_absent=True)
    with pytest.raises(Conflict):
        objects.write("a/b.json", b"two", if_absent=True)
    stored = objects.read("a/b.json")
    assert stored is not None
    assert stored.data == b"one"


def test_if_tag_holds_only_for_the_tag_that_was_read(objects: Objects) -> None:
    first = objects.write("a/b.json", b"one")
    second = objects.write("a/b.json", b"two", if_tag=first)
    with pytest.raises(Conflict):
        objects.write("a/b.json", b"three", if_tag=first)
    stored = objects.read("a/b.json")
    assert stored is not None
    assert (stored.data, stored.tag) == (b"two", second)


def test_if_tag_never_creates(objects: Objects) -> None:
    tag = objects.write("a/b.json", b"one")
    objects.delete("a/b.json")
    with pytest.raises(Conflict):
        objects.write("a/b.json", b"two", if_tag=tag)
    assert objects.read("a/b.json") is None


def test_both_conditions_at_once_are_refused(objects: Objects) -> None:
    with pytest.raises(ValueError, match="exclude"):
        objects.write("a", b"", if_absent=True, if_tag="x")


def test_delete_under_a_tag(objects: Objects) -> None:
    first = objects.write("a/b.json", b"one")
    objects.write("a/b.json", b"two")
    with pytest.raises(Conflict):
        objects.delete("a/b.json", if_tag=first)
    info = objects.head("a/b.json")
    assert info is not None
    assert objects.delete("a/b.json", if_tag=info.tag) is True
    assert objects.head("a/b.json") is None
    assert objects.delete("a/b.json", if_tag=info.tag) is False


def test_of_threads_that_create_one_wins(objects: Objects) -> None:
    def put(key: str, number: int) -> bool:
        try:
            objects.write(key, f"{number}".encode(), if_absent=True)
        except Conflict:
            return False
        return True

    for round_ in range(10):
        key = f"race/{round_}"
        won = in_threads(put, *[(key, number) for number in range(6)])
        assert won.count(True) == 1
        stored = objects.read(key)
        assert stored is not None
        assert stored.data == f"{won.index(True)}".encode()


def test_of_processes_that_create_or_replace_one_wins(objects: Objects, store_url: str, store_settings: object) -> None:
    calls = [(store_url, store_settings, "race/new", f"{number}".encode()) for number in range(3)]
    assert in_processes(put_if_absent, *calls).count(True) == 1
    tag = objects.write("race/old", b"old")
    calls = [(store_url, store_settings, "race/old", f"{number}".encode(), tag) for number in range(3)]
    assert in_processes(replace_tag, *calls).count(True) == 1


def test_no_replacement_is_lost_among_threads_and_processes(
    objects: Objects, store_url: str, store_settings: object
) -> None:
    objects.write("count", b"0")
    in_threads(increment, *[(store_url, store_settings, "count", 10)] * 3)
    in_processes(increment, *[(store_url, store_settings, "count", 10)] * 2)
    stored = objects.read("count")
    assert stored is not None
    assert stored.data == b"50"


def test_a_listing_holds_every_key_of_its_prefix_and_no_other(objects: Objects) -> None:
    keys = ["a/b/1", "a-b/1", "a/b.json", "a/bc/2", "ab/3", "b", "a/é", "a/Z", "a0/1"]
    for key in keys:
        objects.write(key, b"x")
    for prefix in ["", "a/", "a/b", "a", "c/"]:
        expected = sorted(key for key in keys if key.startswith(prefix))
        assert sorted(info.key for info in objects.list(prefix)) == expected


def test_a_listing_is_sorted_and_begins_where_it_is_told(objects: Objects) -> None:
    # SeaweedFS sorts by folder where S3 sorts by whole keys; the layout of a store has no names for which that differs.
    keys = sorted(f"p/{folder}/{name}" for folder in ("0a", "a0", "ff") for name in ("A.json", "b.json", "é.json"))
    for key in reversed(keys):
        objects.write(key, b"x")
    assert [info.key for info in objects.list("p/")] == keys
    for after in [keys[4], "p/a0/", "p/b", "p/zz", "p/"]:
        expected = [key for key in keys if key.encode() > after.encode()]
        assert [info.key for info in objects.list("p/", after=after)] == expected


def test_a_listing_goes_over_several_pages(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geocairn.stores.s3.PAGE", 3, raising=False)
    keys = sorted(f"p/{number:02}" for number in range(10))
    for key in keys:
        objects.write(key, b"x")
    assert [info.key for info in objects.list("p/")] == keys
    assert [info.key for info in objects.list("p/", after="p/06")] == keys[7:]


@pytest.mark.parametrize("key", ["", "/a", "a//b", "a/", "../a", "a/../b", "a/./b", ".tmp/x", "a\\b", "a\nb", "a/\0"])
def test_a_key_that_leads_elsewhere_is_refused(objects: Objects, key: str) -> None:
    with pytest.raises(InputFailure, match="no key"):
        objects.read(key)
    with pytest.raises(InputFailure):
        objects.write(key, b"")


def test_a_layer_goes_up_and_comes_down(objects: Objects, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 5000)
    objects.upload("layers/x.parquet", source)
    assert source.exists()
    info = objects.head("layers/x.parquet")
    assert info is not None
    assert info.size == source.stat().st_size
    target = tmp_path / "target"
    objects.download("layers/x.parquet", target)
    assert target.read_bytes() == source.read_bytes()
    in_place = objects.local("layers/x.parquet")
    assert in_place is None or in_place.read_bytes() == source.read_bytes()


def test_a_layer_that_is_not_there_is_missing(objects: Objects, tmp_path: Path) -> None:
    with pytest.raises(Missing):
        objects.download("layers/none.parquet", tmp_path / "target")


def test_the_store_s_clock_goes_on(objects: Objects) -> None:
    objects.write("a", b"x")
    before = objects.now()
    assert abs(before - time.time()) < 5
    time.sleep(0.05)
    assert objects.now() >= before - 1  # S3 states whole seconds


def test_temporary_files_of_the_living_are_left_alone(objects: Objects) -> None:
    path = objects.scratch(".parquet")
    path.write_bytes(b"x")
    objects.clean()
    assert path.exists()
    path.unlink()
