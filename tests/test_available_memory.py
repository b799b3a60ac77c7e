"""How much memory is available, by each of the limits that there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from geocairn import available_memory as memory
from geocairn.available_memory import available_memory, give_back, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("2kB", 2048), ("1.5 GiB", 3 << 29), ("200MB", 200 << 20), ("1T", 1 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1 XB", "1,5GB", "MB"])
def test_what_is_no_size(text: str) -> None:
    assert parse_bytes(text) is None


@pytest.mark.parametrize(
    "names", [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")]
)
def test_what_a_container_grants(names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    before = available_memory()
    assert before is not None
    (tmp_path / "memory").mkdir()
    for name, text in zip(names, ("3000\n", "1000\n"), strict=True):
        (tmp_path / name).write_text(text)
    assert available_memory() == 2000
    (tmp_path / names[0]).write_text("max\n")
    assert available_memory() != 2000


def test_a_limit_of_the_address_space() -> None:
    script = """
import resource
from geocairn.available_memory import _kibibytes, available_memory
from pathlib import Path
size = _kibibytes(Path("/proc/self/status"), "VmSize")
resource.setrlimit(resource.RLIMIT_AS, (size + 50_000_000, size + 50_000_000))
assert 0 < available_memory() <= 50_000_000, available_memory()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_giving_back_changes_nothing_that_is_in_use() -> None:
    kept = bytearray(b"x" * 1_000_000)
    give_back()
    assert kept.count(b"x") == 1_000_000
