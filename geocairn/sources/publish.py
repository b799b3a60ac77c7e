"""Publishing an output: writing it so that a crash leaves the old one whole, and a half-written one is never believed.

The data is written and flushed in a folder of its own beside the target, and moved over the target in one step; the
sidecar follows last. What always holds: a crash before the move leaves the old output, a crash between the two leaves
data that the sidecar does not match, so that the next run writes it again.

A shapefile is several files, which no file system replaces in one step: the parts are moved one by one, `.shp` last. A
crash in between leaves parts of both; the sidecar matches neither, and the next run writes them again. Indexes of the
old file (`.qix .sbn .sbx`, a GeoPackage's `-wal`) are removed before the move: they would be applied to the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geocairn.failure import FatalFailure, InputFailure
from geocairn.sources.formats import GEOPACKAGE, PARQUET, PNG, SHAPEFILE, Format, beside_by_extension, local_parts
from geocairn.sources.reach import EVERYTHING, Reach
from geocairn.sources.target import (
    Content,
    FilePlace,
    Published,
    Target,
    contents,
    foreign_sidecar,
    inspect,
    matches,
    read_sidecar,
    sidecar_name,
    total,
)
from geocairn.sources.uri import DatabasePlace, LocalPlace, S3Place, canonical_uri
from geocairn.sources.written import told_when_full

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from geocairn.s3 import S3Settings

__all__ = ["Published", "Target", "inspect", "matches", "publish"]

_STALE_SECONDS = 24 * 3600
_SHAPEFILE_COMPANIONS = (".shx", ".dbf", ".prj", ".cpg", ".qix", ".sbn", ".sbx", ".qpj")


def publish(
    layer: GeoDataFrame,
    target: Target,
    lineage: Mapping[str, Any],
    *,
    base: Path | None = None,
    s3: S3Settings | None = None,
    kinds: Sequence[str] = (),
    draw: Callable[[Path], None] | None = None,
    reach: Reach = EVERYTHING,
) -> Published:
    """Write the layer to the target.

    Parameters
    ----------
    lineage : what the output is made from, JSON values; its `fingerprint` is what `matches` asks for.
    base : the folder from which a relative path is taken; the working directory when left out.
    kinds : the geometry kinds promised of the layer, for one without rows in a format that must state them.
    draw : draws the map of a PNG target to a path.
    reach : what may be written; anything when left out, for a caller who is trusted.

    Raises
    ------
    InputFailure : for what is no layer, what the format cannot hold, or a target that must not be replaced.
    FatalFailure, TransientFailure : when the target may not be written, or the service failed to answer; NotAllowed
        where `reach` does not let it be written.
    """
    from geocairn.sources.writing import check_writable, write_file

    kind, place = target.format, target.place(base, reach)
    check_writable(layer, target.uri, kind)
    if isinstance(place, DatabasePlace):
        from geocairn.sources.postgis.publishing import publish_table

        return publish_table(layer, target, place, lineage, kinds)
    if target.layer is not None and kind is not GEOPACKAGE:
        raise InputFailure(f"layer names a layer in a GeoPackage, not in {kind.title}", where=target.uri)
    _check_target(target, place, kind, s3)
    if reach.limited and kind.driver is not None:
        from geocairn.sources.gdal_settings import limit_gdal

        limit_gdal()
    document = dict(lineage)
    with told_when_full(target.uri), _Workplace(place) as folder:
        path = folder / place.name
        if kind is PNG:
            (draw or _plain_map(layer))(path)
        else:
            text = json.dumps(document, ensure_ascii=False)
            write_file(layer, path, kind, layer_name=target.layer, lineage=text, kinds=kinds)
        found = contents(LocalPlace(path), kind, None, None)
        assert found is not None  # it has just been written
        size, sha256 = total(found)
        fingerprint = document.get("fingerprint")
        sidecar = None
        if kind is not PARQUET:
            sidecar = _write_sidecar(path, found, size, sha256, document)
        if isinstance(place, LocalPlace):
            reach.may_write(place, target.uri, base)  # a link may have come in its way since
            _move(path, place.path, kind, found, sidecar)
        else:
            _upload(path, place, found, sidecar, s3)
    return Published(
        canonical_uri(target.uri, base, s3),
        size,
        sha256,
        tuple(name for _, name, _, _ in found),
        fingerprint if isinstance(fingerprint, str) else None,
    )


def _plain_map(layer: GeoDataFrame) -> Callable[[Path], None]:
    from geocairn.cartography import draw_map

    return lambda path: draw_map(layer, path)


class _Workplace:
    """A folder to write in: beside a local target, so that the move is one step; anywhere for S3."""

    def __init__(self, place: FilePlace) -> None:
        self.place = place
        self.folder: Path | None = None

    def __enter__(self) -> Path:
        if isinstance(self.place, S3Place):
            self.folder = Path(tempfile.mkdtemp(prefix="geocairn-output-"))
            return self.folder
        parent = self.place.path.parent
        prefix = f".geocairn-{self.place.name}-{socket.gethostname()}-"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _clear_leftovers(parent, prefix, f".geocairn-{self.place.name}-")
            self.folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))
        except PermissionError as error:
            raise FatalFailure(
                "the folder may not be written to", where=str(parent), remedy="choose another, or ask its owner"
            ) from error
        except (FileExistsError, NotADirectoryError) as error:
            raise InputFailure(
                "the folder to write to is a file", where=str(parent), remedy="choose another folder"
            ) from error
        except OSError as error:
            raise FatalFailure(
                f"the folder cannot be written to: {error.strerror}", where=str(parent), remedy="choose another folder"
            ) from error
        return self.folder

    def __exit__(self, *details: object) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _clear_leftovers(parent: Path, own: str, any_host: str) -> None:
    """Remove what a crashed publication of the same output left: its process is gone, or it is a day old."""
    for left in parent.glob(f"{_escaped(any_host)}*"):
        with suppress(OSError):
            old = time.time() - left.stat().st_mtime > _STALE_SECONDS
            if old or (left.name.startswith(own) and not _alive(left.name[len(own) :].partition("-")[0])):
                shutil.rmtree(left, ignore_errors=True)


def _escaped(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, OverflowError):
        return True
    return True


def _check_target(target: Target, place: FilePlace, kind: Format, s3: S3Settings | None) -> None:
    """Refuse to replace what must not be: a folder, other layers in a GeoPackage, in mode error what is not ours."""
    if isinstance(place, LocalPlace):
        if place.path.is_dir():
            raise InputFailure("is a folder, and an output is a file", where=target.uri, remedy="name a file in it")
        there = place.path.exists()
        if there and kind is GEOPACKAGE:
            others = [name for name in _layers_in(place.path) if name != (target.layer or place.path.stem)]
            if others and not _is_ours(place, kind, s3):
                raise InputFailure(
                    f"holds other layers, which replacing it would lose: {', '.join(others)}",
                    where=target.uri,
                    remedy="write to another file",
                )
        ours = there and target.mode == "error" and _is_ours(place, kind, s3)
    else:
        there = target.mode == "error" and contents(place, kind, s3, None) is not None
        ours = there and _is_ours(place, kind, s3)
    if there and target.mode == "error" and not ours:
        raise InputFailure(
            "something is there already that geocairn did not write, or that was changed since",
            where=target.uri,
            remedy="choose another name, or mode: replace",
        )
    if kind is not PARQUET and foreign_sidecar(place, s3):
        raise InputFailure(
            f"its lineage goes to {sidecar_name(place.name)}, and what is there geocairn did not write",
            where=target.uri,
            remedy="move that file away, or choose another name for the output",
        )


def _is_ours(place: FilePlace, kind: Format, s3: S3Settings | None) -> bool:
    """Whether what lies at the target is an output of geocairn, unedited."""
    found = contents(place, kind, s3, None)
    if found is None:
        return False
    if kind is PARQUET:
        if isinstance(place, S3Place):
            return all(sha256 for _, _, _, sha256 in found)
        from pyarrow import parquet

        from geocairn.sources.writing import LINEAGE_KEY

        return LINEAGE_KEY in (parquet.read_metadata(place.path).metadata or {})
    sidecar = read_sidecar(place, s3) or {}
    output = sidecar.get("output")
    return isinstance(output, dict) and (output.get("size"), output.get("sha256")) == total(found)


def _layers_in(path: Path) -> list[str]:
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return [str(row[0]) for row in connection.execute("select table_name from gpkg_contents")]
        finally:
            connection.close()
    except sqlite3.Error:
        return []  # no GeoPackage: nothing in it to lose but the file, which the plan names to be replaced


def _write_sidecar(path: Path, found: list[Content], size: int, sha256: str, document: dict[str, Any]) -> Path:
    sidecar = path.with_name(sidecar_name(path.name))
    value = {
        "fingerprint": document.get("fingerprint"),
        "output": {
            "name": path.name,
            "size": size,
            "sha256": sha256,
            "files": [{"name": name, "size": bytes_, "sha256": own} for _, name, bytes_, own in found],
        },
        "lineage": document,
    }
    sidecar.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return sidecar


def _move(path: Path, target: Path, kind: Format, found: list[Content], sidecar: Path | None) -> None:
    parts = {part.role: part.path for part in local_parts(path, kind)}
    for part in [*parts.values(), *([sidecar] if sidecar else [])]:
        _flush(part)
    try:
        if kind is SHAPEFILE and target.exists():
            beside = beside_by_extension(target.name, os.listdir(target.parent))
            for extension in _SHAPEFILE_COMPANIONS:
                if extension in beside and (extension not in parts or beside[extension] != target.stem + extension):
                    (target.parent / beside[extension]).unlink()
        if kind is GEOPACKAGE:
            for suffix in ("-wal", "-shm", "-journal"):
                target.with_name(target.name + suffix).unlink(missing_ok=True)
        for role in sorted(parts, key=lambda role: role == ""):  # the file itself last
            os.replace(parts[role], target if not role else target.with_suffix(role))
        if sidecar is not None:
            os.replace(sidecar, target.with_name(sidecar_name(target.name)))
        _flush(target.parent)
    except PermissionError as error:
        raise FatalFailure(
            "may not be replaced", where=str(target), remedy="choose another name, or ask its owner"
        ) from error


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _upload(path: Path, place: S3Place, found: list[Content], sidecar: Path | None, s3: S3Settings | None) -> None:
    from boto3.exceptions import S3UploadFailedError
    from botocore.exceptions import BotoCoreError, ClientError

    from geocairn.sources.objects import SHA256_METADATA, failure_of, s3_client

    client = s3_client(s3)
    if path.suffix.lower() in GEOPACKAGE.extensions:  # a log of the old one would be applied to the new one
        try:
            for suffix in GEOPACKAGE.suffixed:
                client.delete_object(Bucket=place.bucket, Key=place.key + suffix)
        except (ClientError, BotoCoreError) as error:
            raise failure_of(error, place, "removing what belongs to the old one") from error
    folder = place.key[: -len(place.name)]
    ordered = sorted(found, key=lambda part: part[0] == "")
    files = [(path.parent / name, folder + name, sha256) for _, name, _, sha256 in ordered]
    if sidecar is not None:
        files.append((sidecar, folder + sidecar.name, ""))
    for file, key, sha256 in files:
        extra = {"Metadata": {SHA256_METADATA: sha256}} if sha256 else {"ContentType": "application/json"}
        try:
            client.upload_file(str(file), place.bucket, key, ExtraArgs=extra)
        except S3UploadFailedError as error:
            cause = error.__cause__ or error.__context__
            raise failure_of(cause if isinstance(cause, Exception) else error, place, "writing it") from error
        except (ClientError, BotoCoreError) as error:
            raise failure_of(error, place, "writing it") from error
