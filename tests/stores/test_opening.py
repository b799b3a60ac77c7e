"""Addresses of stores, and what opening one costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from geocairn.failure import InputFailure
from geocairn.s3 import S3Settings
from geocairn.stores.opening import open_store


def test_opening_makes_and_loads_nothing(tmp_path: Path) -> None:
    code = """
import sys
from geocairn.stores.opening import open_store
store = open_store(sys.argv[1])
assert store.look_up("0" * 64).reason == "missing"
assert store.look_up_many(["0" * 64, "1" * 64])["1" * 64].reason == "missing"
heavy = {"boto3", "botocore", "geopandas", "shapely", "numpy", "pandas", "pyarrow", "pydantic", "prefect"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "new")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "url", ["", "gs://x/y", "http://x", "s3://", "s3://key:secret@bucket", "s3://b?x=1", "file://host/x"]
)
def test_another_kind_of_address_is_refused(url: str) -> None:
    with pytest.raises(InputFailure) as raised:
        open_store(url, settings=S3Settings())
    assert raised.value.remedy
    assert "secret" not in str(raised.value)


def test_addresses_are_canonical_and_can_be_opened_again(tmp_path: Path, s3_settings: S3Settings) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a folder")
    urls = {open_store(str(tmp_path / name)).url for name in ("a folder", "link", "x/../a folder", "a folder/")}
    assert urls == {(tmp_path / "a folder").as_uri()}
    assert open_store(urls.pop()).url == (tmp_path / "a folder").as_uri()
    secretive = S3Settings(endpoint="http://user:password@127.0.0.1:9/", access_key="a", secret_key="b")
    assert open_store("s3://bucket/a/b/", settings=secretive).url == "s3://bucket/a/b?endpoint=http://127.0.0.1:9"
    url = open_store("s3://bucket", settings=s3_settings).url
    assert open_store(url, settings=s3_settings).url == url
    with pytest.raises(InputFailure, match="another one"):
        open_store(url, settings=secretive)
    (tmp_path / "file").touch()
    with pytest.raises(InputFailure, match="is a file"):
        open_store(tmp_path / "file")
