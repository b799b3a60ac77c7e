"""Files made to have GDAL open something else: other files, commands, addresses. A listener must hear of nothing.

Each is read as a plan would have it, in another process: GDAL's drivers are taken away for good.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import geopandas as gpd
import pytest
from shapely import Point

SECRET = "the-secret-of-outside"
Build = Callable[[Path, Path, str], str]
"""Makes the attack in a folder, given a file outside of it and an address; returns the plan's URI."""


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listening() as server:
        yield server


def nobody_called(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


def secret_beside(folder: Path) -> Path:
    """Make a sound layer out of reach, in several formats."""
    outside = folder.parent / "outside"
    outside.mkdir()
    layer = gpd.GeoDataFrame({"v": [SECRET]}, geometry=[Point(0, 0)], crs="EPSG:4326")
    layer.to_file(outside / "secret.geojson")
    layer.to_file(outside / "secret.shp")
    layer.to_parquet(outside / "secret.parquet")
    return outside / "secret.geojson"


def sound(folder: Path, name: str, **options: object) -> Path:
    layer = gpd.GeoDataFrame({"v": ["x", "y"]}, geometry=[Point(0, 0), Point(1, 1)], crs="EPSG:4326")
    layer.to_file(folder / name, **options)
    return folder / name


def vrt(source: str, layer: str = "secret") -> str:
    return (
        f'<OGRVRTDataSource><OGRVRTLayer name="{layer}"><SrcDataSource relativeToVRT="0">{source}</SrcDataSource>'
        f"<SrcLayer>{layer}</SrcLayer></OGRVRTLayer></OGRVRTDataSource>"
    )


def renamed_vrt(extension: str, remote: bool) -> Build:
    def build(folder: Path, outside: Path, address: str) -> str:
        (folder / f"a{extension}").write_text(vrt(f"/vsicurl/{address}/x.geojson" if remote else str(outside)))
        return f"a{extension}"

    return build


def plain_vrt(folder: Path, outside: Path, address: str) -> str:
    (folder / "a.vrt").write_text(vrt(str(outside)))
    return "a.vrt"


def pipeline(name: str) -> Build:
    def build(folder: Path, outside: Path, address: str) -> str:
        command = f"gdal vector pipeline ! read /vsicurl/{address}/x.geojson"
        (folder / name).write_text(json.dumps({"type": "gdal_streamed_alg", "command_line": command}))
        return name

    return build


def geojson(crs: object, template: str = "{}") -> Build:
    def build(folder: Path, outside: Path, address: str) -> str:
        feature = {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [0, 0]}}
        text = json.dumps({"type": "FeatureCollection", "crs": crs, "features": [feature]})
        (folder / "a.geojson").write_text(text.replace("ADDRESS", f"{address}/crs"))
        return "a.geojson"

    return build


def hidden_link(find: str, replace: str) -> Build:
    plain = geojson({"type": "link", "properties": {"href": "ADDRESS"}})

    def build(folder: Path, outside: Path, address: str) -> str:
        uri = plain(folder, outside, address)
        text = (folder / uri).read_text()
        (folder / uri).write_text(text.replace(find, replace))
        return uri

    return build


def geopackage(*statements: str) -> Build:
    def build(folder: Path, outside: Path, address: str) -> str:
        path = sound(folder, "a.gpkg", layer="a")
        with sqlite3.connect(path) as connection:
            connection.execute("pragma writable_schema=on")
            for statement in statements:
                connection.execute(statement.replace("OUTSIDE", str(outside)).replace("ADDRESS", address))
        connection.close()
        return "a.gpkg"

    return build


_VIEW = (
    "update gpkg_contents set table_name='w', identifier='w' where table_name='a'",
    "update gpkg_geometry_columns set table_name='w' where table_name='a'",
    "delete from gpkg_extensions",
)


def view(column: str) -> Build:
    return geopackage(f"create view w as select fid, geom, {column} as v from a", *_VIEW)


def virtual_table(text: str) -> Build:
    """A virtual table of a module that this SQLite does not have is written into the schema by hand."""
    return geopackage(
        f"insert into sqlite_master(type, name, tbl_name, rootpage, sql) values('table', 'w', 'w', 0, '{text}')", *_VIEW
    )


def zip_of(change: Callable[[zipfile.ZipFile, Path, Path], None], *left_out: str) -> Build:
    def build(folder: Path, outside: Path, address: str) -> str:
        path = sound(folder, "z.shp")
        with zipfile.ZipFile(folder / "z.zip", "w") as archive:
            for extension in (".shp", ".shx", ".dbf", ".prj"):
                if extension not in left_out:
                    archive.write(path.with_suffix(extension), f"z{extension}")
            change(archive, path, outside)
        return "z.zip"

    return build


def zipped_link(archive: zipfile.ZipFile, path: Path, outside: Path) -> None:
    entry = zipfile.ZipInfo("z.dbf")
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    archive.writestr(entry, str(outside.with_suffix(".dbf")))


def zipped_twice(archive: zipfile.ZipFile, path: Path, outside: Path) -> None:
    archive.writestr("z.shp", vrt(str(outside)))


def zipped_above(archive: zipfile.ZipFile, path: Path, outside: Path) -> None:
    for extension in (".shp", ".shx", ".dbf"):
        archive.write(path.with_suffix(extension), f"../outside/secret{extension}")


def zipped_absolute(archive: zipfile.ZipFile, path: Path, outside: Path) -> None:
    for extension in (".shp", ".shx", ".dbf"):
        archive.write(path.with_suffix(extension), str(outside.with_suffix(extension)))


def linked_geodatabase(folder: Path, outside: Path, address: str) -> str:
    made = sound(folder, "a.gdb", driver="OpenFileGDB", layer="a")
    elsewhere = outside.with_name("b.gdb")
    shutil.move(made, elsewhere)
    made.mkdir()
    for file in elsewhere.iterdir():
        (made / file.name).symlink_to(file)
    return "a.gdb"


def geodatabase_of_instructions(folder: Path, outside: Path, address: str) -> str:
    (folder / "a.gdb").mkdir()
    (folder / "a.gdb" / "a00000001.gdbtable").write_text(vrt(str(outside)))
    (folder / "a.gdb" / "a.vrt").write_text(vrt(str(outside)))
    return "a.gdb"


def external_chunks(folder: Path, outside: Path, address: str) -> str:
    """A Parquet file whose footer says that its columns lie in another file."""
    from pyarrow import parquet

    secret = outside.with_suffix(".parquet")
    metadata = parquet.read_metadata(secret)
    metadata.set_file_path(str(secret))
    metadata.write_metadata_file(folder / "a.parquet")
    return "a.parquet"


def polyglot(folder: Path, outside: Path, address: str) -> str:
    """Begins like a shapefile, and is taken for JSON by a reader that looks further."""
    sound(folder, "a.shp")
    body = b"\x00\x00\x27\x0a" + f'{{"type":"gdal_streamed_alg","command_line":"read /vsicurl/{address}"}}'.encode()
    (folder / "a.shp").write_bytes(body + b" " * 100)
    return "a.shp"


def gml(change: Callable[[str], str]) -> Build:
    text = """<?xml version="1.0"?>
<ogr:FeatureCollection xmlns:ogr="http://ogr.maptools.org/" xmlns:gml="http://www.opengis.net/gml"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xlink="http://www.w3.org/1999/xlink">
<gml:featureMember><ogr:a fid="a.0"><ogr:geometryProperty><gml:Point srsName="EPSG:27700"><gml:coordinates>0,0
</gml:coordinates></gml:Point></ogr:geometryProperty><ogr:v>x</ogr:v></ogr:a></gml:featureMember>
</ogr:FeatureCollection>"""

    def build(folder: Path, outside: Path, address: str) -> str:
        changed = change(text)
        assert changed != text
        (folder / "a.gml").write_text(changed.replace("ADDRESS", address).replace("OUTSIDE", str(outside)))
        return "a.gml"

    return build


def gml_entity(uri: str) -> Build:
    return gml(
        lambda text: text.replace("?>", f'?><!DOCTYPE x [<!ENTITY e SYSTEM "{uri}">]>', 1).replace(">x<", ">&e;<")
    )


def zipped(name: str, build_held: Build) -> Build:
    def build(folder: Path, outside: Path, address: str) -> str:
        held = build_held(folder, outside, address)
        with zipfile.ZipFile(folder / "held.zip", "w") as archive:
            archive.write(folder / held, name)
        return "held.zip"

    return build


ATTACKS: dict[str, Build] = {
    "vrt": plain_vrt,
    **{f"vrt as {name}": renamed_vrt(name, False) for name in (".gpkg", ".geojson", ".json", ".fgb", ".shp", ".zip")},
    **{f"remote vrt as {name}": renamed_vrt(name, True) for name in (".gpkg", ".geojson", ".fgb", ".csv", ".parquet")},
    "command line": pipeline("a.gdalg.json"),
    "command line as geojson": pipeline("a.geojson"),
    "command line as gpkg": pipeline("a.gpkg"),
    "crs by link": geojson({"type": "link", "properties": {"href": "ADDRESS", "type": "proj4"}}),
    "crs by url": geojson({"type": "URL", "properties": {"url": "ADDRESS"}}),
    "crs by link, members turned": geojson({"properties": {"href": "ADDRESS"}, "type": "link"}),
    "crs by link, in escapes": hidden_link('"crs"', '"\\u0063rs"'),
    "link in escapes": hidden_link('"link"', '"l\\u0069nk"'),
    "crs by link, in other quotes": hidden_link('"crs"', "'crs'"),
    "crs by link, commented": hidden_link('"crs":', '"crs"/* */:'),
    "crs by link, in capitals": hidden_link('"crs"', '"CRS"'),
    "crs twice": hidden_link('"crs":', '"crs": null, "crs":'),
    "view that geocodes": view(
        "ogr_geocode('x','display_name','READ_CACHE=NO','WRITE_CACHE=NO','QUERY_TEMPLATE=ADDRESS/%s')"
    ),
    "view that reads pixels": view("gdal_get_pixel_value('OUTSIDE',1,'pixel',0,0)"),
    "view that loads code": view("load_extension('OUTSIDE')"),
    "view that reads a file": view("readfile('OUTSIDE')"),
    "virtual table of GDAL": virtual_table('CREATE VIRTUAL TABLE w USING VirtualOGR("OUTSIDE")'),
    "virtual table of CSV": virtual_table('CREATE VIRTUAL TABLE w USING csv(filename="OUTSIDE")'),
    "zip with a link": zip_of(zipped_link, ".dbf"),
    "zip with a name twice": zip_of(zipped_twice),
    "zip with names above": zip_of(zipped_above, ".shp", ".shx", ".dbf"),
    "zip with absolute names": zip_of(zipped_absolute, ".shp", ".shx", ".dbf"),
    "geodatabase of links": linked_geodatabase,
    "geodatabase of instructions": geodatabase_of_instructions,
    "gml with an entity of a file": gml_entity("file://OUTSIDE"),
    "gml with an entity of the web": gml_entity("ADDRESS/e"),
    "gml with a schema of the web": gml(
        lambda text: text.replace(
            "xlink=", 'none="" xsi:schemaLocation="http://ogr.maptools.org/ ADDRESS/a.xsd" xmlns:xlink='
        )
    ),
    "gml with a linked property": gml(
        lambda text: text.replace("<ogr:v>x</ogr:v>", '<ogr:v xlink:href="ADDRESS/v#a"/>')
    ),
    "gml with a linked geometry": gml(
        lambda text: text.replace("<ogr:geometryProperty>", '<ogr:geometryProperty xlink:href="ADDRESS/g#a">')
    ),
    "gml with a crs of the web": gml(lambda text: text.replace("EPSG:27700", "ADDRESS/crs")),
    "zipped vrt as gpkg": zipped("a.gpkg", renamed_vrt(".gpkg", True)),
    "zipped crs by link": zipped("a.geojson", geojson({"type": "link", "properties": {"href": "ADDRESS"}})),
    "zipped name above": zipped("../a.geojson", geojson(None)),
    "external column chunks": external_chunks,
    "shapefile and instructions": polyglot,
}

HARMLESS = ("view that reads pixels", "gml with a schema", "gml with a linked", "gml with a crs")
"""May be read, and nothing comes of it: GDAL answers null, and follows no link in GML."""

READING = """
import json, os, sys
from pathlib import Path
from geocairn.failure import Failure
from geocairn.sources.reach import Reach
from geocairn.sources.read import read
from geocairn.sources.source import Source

said = {}
for folder, source in json.load(sys.stdin):
    os.chdir(folder)
    try:
        layer = read(Source(**source), reach=Reach.local(Path.cwd()))
        said[folder] = layer.to_json()
    except Failure as failure:
        said[folder] = f"refused: {failure}"
print(json.dumps(said))
"""


def read_there(*sources: tuple[Path, dict[str, object]]) -> dict[str, str]:
    """Read sources, each from its folder, in a process of their own; return by folder what it said of each."""
    done = subprocess.run(
        [sys.executable, "-c", READING],
        input=json.dumps([(str(folder), source) for folder, source in sources]),
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "no_proxy": "*"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, str] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], socket.socket]]:
    """What was said of each attack, and who might have been called."""
    place = tmp_path_factory.mktemp("attacks")
    with listening() as listener:
        address, sources, folders = f"http://127.0.0.1:{listener.getsockname()[1]}", [], {}
        for number, (attack, build) in enumerate(ATTACKS.items()):
            folder = folders[attack] = place / str(number) / "inside"
            folder.mkdir(parents=True)
            uri = build(folder, secret_beside(folder), f"{address}/{number}")
            sources.append((folder, {"uri": uri, "crs": "EPSG:4326" if uri.endswith((".csv", ".shp")) else None}))
        said = read_there(*sources)
        yield {attack: said[str(folder)] for attack, folder in folders.items()}, listener


@pytest.mark.parametrize("attack", list(ATTACKS))
def test_no_file_has_anything_else_opened(attacked: tuple[dict[str, str], socket.socket], attack: str) -> None:
    said, listener = attacked[0][attack], attacked[1]
    assert SECRET not in said
    assert nobody_called(listener), said
    if not attack.startswith(HARMLESS):
        assert said.startswith("refused:"), said


def test_what_remains_reads_every_format(tmp_path: Path) -> None:
    sources: list[tuple[Path, dict[str, object]]] = []
    for name in ("a.gpkg", "a.fgb", "a.geojson", "a.shp", "a.gdb"):
        (tmp_path / name[2:]).mkdir()
        sound(tmp_path / name[2:], name, **({"driver": "OpenFileGDB"} if name.endswith("gdb") else {}))
        sources.append((tmp_path / name[2:], {"uri": name}))
    for said in read_there(*sources).values():
        assert '"FeatureCollection"' in said
    code = (
        "import pyogrio\nfrom geocairn.sources.gdal_settings import DRIVERS, limit_gdal\nlimit_gdal()\n"
        "print(set(pyogrio.list_drivers()) == DRIVERS)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_gdal_opens_no_connection_even_where_it_is_asked_to(tmp_path: Path, listener: socket.socket) -> None:
    """Past all checks of content: GDAL itself is told the name of a virtual file, and of a file with a link."""
    port = listener.getsockname()[1]
    link = {"type": "link", "properties": {"href": f"http://127.0.0.1:{port}/crs"}}
    (tmp_path / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "crs": link, "features": []}))
    code = (
        "import pyogrio\nfrom geocairn.sources.gdal_settings import limit_gdal\nlimit_gdal()\n"
        f"for name in ('/vsicurl/http://127.0.0.1:{port}/x.geojson', '/vsis3/b/x.geojson', 'a.geojson'):\n"
        "    try: pyogrio.read_info(name)\n"
        "    except pyogrio.errors.DataSourceError: print('refused')"
    )
    environment = {
        **os.environ,
        "AWS_S3_ENDPOINT": f"127.0.0.1:{port}",
        "AWS_HTTPS": "NO",
        "AWS_NO_SIGN_REQUEST": "YES",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment
    )
    assert "refused" in done.stdout, done.stderr
    assert nobody_called(listener)


def test_the_environment_is_hidden_from_gdal_and_not_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, subprocess, pyogrio\nfrom geocairn.sources.gdal_settings import prepare_gdal\nprepare_gdal()\n"
        "print(os.environ['SHAPE_ENCODING'], pyogrio.get_gdal_config_option('SHAPE_ENCODING'), "
        "pyogrio.get_gdal_config_option('OGR_SQLITE_PRAGMA'))"
    )
    environment = {**os.environ, "SHAPE_ENCODING": "CP437", "OGR_SQLITE_PRAGMA": "x"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.strip() == "CP437 None None", done.stderr
