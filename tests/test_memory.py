from __future__ import annotations

import stat
from pathlib import Path

import pytest

from geocairn.memory import Memory, default_folder


def test_what_was_put_is_found_by_another_process_of_the_same_user(tmp_path: Path) -> None:
    Memory(tmp_path / "m").put("crs", "EPSG:4326", {"name": "é", "n": 1})
    assert Memory(tmp_path / "m").get("crs", "EPSG:4326") == {"name": "é", "n": 1}
    assert Memory(tmp_path / "m").get("crs", "EPSG:4327") is None
    assert Memory(tmp_path / "m").get("other", "EPSG:4326") is None


def test_the_folder_is_its_owners(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m")
    memory.put("a", "b", {})
    assert memory.root is not None
    assert stat.S_IMODE(memory.root.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"key": "other", "value": {}}', b'{"key": "k", "value": 3}'])
def test_a_damaged_entry_is_a_miss_and_is_mended(tmp_path: Path, damage: bytes) -> None:
    memory = Memory(tmp_path)
    memory.put("a", "k", {"x": 1})
    (entry,) = (path for path in tmp_path.rglob("*.json"))
    entry.write_bytes(damage)
    assert memory.get("a", "k") is None
    memory.put("a", "k", {"x": 2})
    assert memory.get("a", "k") == {"x": 2}


def test_a_folder_that_cannot_be_had_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = Memory(tmp_path / "file")
    memory.put("a", "k", {"x": 1})
    assert memory.get("a", "k") is None


def test_a_folder_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.put("a", "k", {"x": 1})
    assert memory.root is not None
    memory.root.chmod(0o777)
    assert Memory(tmp_path).get("a", "k") is None


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GEOCAIRN_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_folder() == tmp_path / ".cache" / "geocairn"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert default_folder() == tmp_path / "x" / "geocairn"
    monkeypatch.setenv("GEOCAIRN_CACHE", str(tmp_path / "own"))
    assert default_folder() == tmp_path / "own"
