"""DuckDB reaches neither files nor the network, whatever SQL it is given."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from geocairn.backends.duckdb_connection import connection
from geocairn.failure import Failure


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('FILE')",
        "SELECT * FROM read_text('FILE')",
        "SELECT * FROM 'FILE'",
        "SELECT * FROM glob('FOLDER/*')",
        "SELECT * FROM ST_Read('FILE')",
        "SELECT * FROM ST_Read_Meta('FILE')",
        "SELECT * FROM ST_Read('/vsicurl/ADDRESS/x.geojson')",
        "SELECT * FROM ST_ReadSHP('FOLDER/x.shp')",
        "SELECT * FROM ST_ReadOSM('FOLDER/x.pbf')",
        "SELECT * FROM read_parquet('ADDRESS/x.parquet')",
        "COPY (SELECT 1) TO 'FOLDER/out.csv'",
        "COPY (SELECT 1 AS a) TO 'FOLDER/out.geojson' WITH (FORMAT gdal, DRIVER 'GeoJSON')",
        "ATTACH 'FOLDER/out.db'",
        "EXPORT DATABASE 'FOLDER/out'",
        "INSTALL httpfs FROM 'ADDRESS'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD 'FOLDER/x.duckdb_extension'",
        "SET enable_external_access = true",
        "SET autoinstall_known_extensions = true",
        "SET custom_extension_repository = 'ADDRESS'",
        "SET temp_directory = 'FOLDER'",
        "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    ],
)
def test_no_statement_leaves_the_database(tmp_path: Path, statement: str) -> None:
    pytest.importorskip("duckdb")
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nhush\n")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        text = statement.replace("FILE", str(secret)).replace("FOLDER", str(tmp_path)).replace("ADDRESS", address)
        with pytest.raises(Failure) as caught, connection() as opened:
            opened.execute(text).fetchall()
        assert "hush" not in str(caught.value)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
