"""What a plan may read and write, on the command line: refused in the check, all at once, and again at the run."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from chains import Chain


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


def nobody_called(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


@pytest.fixture
def outside(folder_chain: Chain, tmp_path: Path) -> Path:
    """The chain's data, moved out of the folder that it runs in."""
    shutil.move(folder_chain.path("data"), tmp_path / "elsewhere")
    for source in folder_chain.values["sources"].values():
        source["uri"] = source["uri"].replace("data", str(tmp_path / "elsewhere"))
    return tmp_path / "elsewhere"


def test_every_place_out_of_reach_is_complained_of_at_its_line_before_anything_is_asked(
    folder_chain: Chain, listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    reads = {
        "file": "/etc/passwd.gpkg",
        "gone": "/etc/no-such.gpkg",
        "above": "../elsewhere/sites.csv",
        "web": f"http://127.0.0.1:{port}/a.parquet",
        "decimal": f"http://2130706433:{port}/a.parquet",
        "metadata": "http://169.254.169.254/latest/a.json",
        "bucket": "s3://somebody/a.parquet",
    }
    folder_chain.values["sources"] |= {name: {"uri": uri} for name, uri in reads.items()}
    folder_chain.values["sources"]["base"] = {"uri": f"postgresql://127.0.0.1:{port}/geo", "layer": "a"}
    writes = ["/tmp/a.parquet", "../a.parquet", "s3://somebody/b.parquet"]
    folder_chain.values["outputs"] += [{"from": "hulls", "uri": uri} for uri in writes]
    ended = folder_chain.run(code=2)
    complaints = ended.answer["failure"]["complaints"]
    told = {each["step"]: each["message"] for each in complaints}
    for name, uri in {**reads, "base": "postgresql"}.items():
        assert "may not be read" in told[name], name
        assert uri in told[name]
    written = [message for message in told.values() if "may not be written" in message]
    assert all(any(uri in message for message in written) for uri in writes)
    assert told["file"].replace("passwd", "no-such") == told["gone"]
    lines = [each["line"] for each in complaints]
    assert None not in lines
    assert lines == sorted(lines)
    assert nobody_called(listener)
    assert not folder_chain.path("out").exists()


def test_data_elsewhere_is_read_where_it_is_allowed(folder_chain: Chain, outside: Path, tmp_path: Path) -> None:
    folder_chain.values["outputs"][0]["uri"] = str(tmp_path / "results" / "by_zone.gpkg")
    refused = folder_chain.run(code=2).answer["failure"]["message"]
    assert f"--allow {outside}" in refused
    assert f"--allow {tmp_path}/results" in refused
    allowed = ("--allow", str(outside), "--allow", str(tmp_path / "results"))
    done = folder_chain.run(*allowed)
    assert (tmp_path / "results" / "by_zone.gpkg").exists()
    assert done.answer["status"] == "completed"

    # What stands there, and what is remembered of it, answers only whoever may read it.
    again = folder_chain.run(environment={"GEOCAIRN_ALLOW": f"{outside} {tmp_path / 'results'}"})
    assert set(again.outcomes().values()) <= {"reused", "not_needed"}
    assert "may not be read" in folder_chain.run(allowed[0], str(tmp_path / "results"), code=2).stdout
    assert "may not be written" in folder_chain.run(allowed[0], str(outside), code=2).stdout
    for source in folder_chain.values["sources"].values():
        source["allow_older"] = True
    assert "may not be read" in folder_chain.run(allowed[0], str(tmp_path / "results"), code=2).stdout


def test_the_command_that_goes_on_allows_the_same(folder_chain: Chain, outside: Path) -> None:
    folder_chain.step("covered")["expect"] = {"min_rows": 100_000}
    ended = folder_chain.run("--allow", str(outside), code=3)
    assert f"--allow {outside}" in ended.answer["failure"]["go_on"]


def test_a_link_to_elsewhere_in_the_data_is_refused(folder_chain: Chain, outside: Path) -> None:
    folder_chain.path("data").symlink_to(outside)
    for source in folder_chain.values["sources"].values():
        source["uri"] = source["uri"].replace(str(outside), "data")
    assert "symbolic link" in folder_chain.run(code=2).answer["failure"]["message"]
    assert folder_chain.run("--allow", "data").answer["status"] == "completed"


def test_another_scopes_layer_is_not_read_by_its_place(folder_chain: Chain) -> None:
    folder_chain.run("--scope", "theirs")
    store = Path(folder_chain.store_url)
    layer = next(store.glob("layers/*/*/*.parquet"))
    folder_chain.values["sources"]["stolen"] = {"uri": str(layer)}
    ended = folder_chain.run("--scope", "ours", "--allow", str(store), code=2)
    assert "lies in the checkpoint store" in ended.answer["failure"]["message"]


@pytest.mark.parametrize("name", ["a.gpkg", "a.geojson", "b.geojson"])
def test_a_file_that_would_have_something_fetched_ends_the_run(
    folder_chain: Chain, listener: socket.socket, name: str
) -> None:
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    content = {
        "a.gpkg": f"<OGRVRTDataSource><OGRVRTLayer name='a'><SrcDataSource>/vsicurl/{address}/a.json</SrcDataSource>"
        "</OGRVRTLayer></OGRVRTDataSource>",
        "a.geojson": json.dumps({"type": "gdal_streamed_alg", "command_line": f"gdal read /vsicurl/{address}/a.json"}),
        "b.geojson": json.dumps(
            {
                "type": "FeatureCollection",
                "crs": {"type": "link", "properties": {"href": f"{address}/crs"}},
                "features": [],
            }
        ),
    }[name]
    folder_chain.path(name).write_text(content)
    folder_chain.values["sources"]["parcels"] = {"uri": name}
    ended = folder_chain.run(code=2)
    assert name in ended.answer["failure"]["message"]
    assert nobody_called(listener)


def test_what_is_no_place_is_a_wrong_command(folder_chain: Chain) -> None:
    assert "nothing that can be allowed" in folder_chain.run("--allow", "ftp://example.org", code=2).stdout
    wrong = folder_chain.run(code=2, environment={"GEOCAIRN_ALLOW": "'open"})
    assert "GEOCAIRN_ALLOW" in wrong.stdout
