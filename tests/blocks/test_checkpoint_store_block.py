"""The checkpoint store block: what Prefect asks of a well-made block, what it saves, what it answers and refuses."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.core import Block
from prefect.client.orchestration import get_client
from prefect.results import ResultRecord
from prefect.testing.standard_test_suites import BlockStandardTestSuite
from pydantic import ValidationError

import geocairn.blocks
from geocairn.blocks import CheckpointSerializer, CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint, LayerFacts, is_fingerprint, write_record
from geocairn.failure import FatalFailure, InputFailure, TransientFailure
from geocairn.s3 import S3Settings

PRINT = "ab" * 32


def layer() -> Any:
    import geopandas
    from shapely.geometry import Point

    return geopandas.GeoDataFrame({"n": [1]}, geometry=[Point(0, 0)], crs="EPSG:4326")


def draft(fingerprint: str = PRINT) -> Checkpoint:
    facts = LayerFacts(rows=1, geometry_column="geometry", geometry_types=["Point"])
    return Checkpoint(fingerprint, "step", "buffer", "1", {"distance": 1.0}, {"layer": "cd" * 32}, facts)


class TestPrefectsStandards(BlockStandardTestSuite):
    """What Prefect asks of the blocks that it lists."""

    @pytest.fixture
    def block(self) -> type[Block]:
        return CheckpointStoreBlock

    def test_has_a_valid_image(self, block: type[Block]) -> None:
        """There is none: Prefect takes an http(s) address only, and the project has no place on the web for one."""
        assert block._logo_url is None

    def test_fields_have_a_title_and_an_order_in_the_form(self, block: type[Block]) -> None:
        properties = block.model_json_schema()["properties"]
        assert next(iter(properties)) == "url"
        assert {name for name, field in properties.items() if field.get("format") == "password"} | {
            name for name, field in properties.items() if "password" in str(field.get("anyOf"))
        } == {"secret_key", "session_token"}


def test_importing_the_package_registers_the_block() -> None:
    (entry,) = [entry for entry in entry_points(group="prefect.collections") if entry.name == "geocairn"]
    assert entry.load() is geocairn.blocks
    assert Block.get_block_class_from_key("geocairn-checkpoint-store") is CheckpointStoreBlock


@pytest.mark.prefect_server
def test_a_block_is_saved_with_its_secrets_hidden_and_loaded_with_them(prefect_api: str, tmp_path: Path) -> None:
    name = f"store-{uuid.uuid4().hex[:8]}"
    block = CheckpointStoreBlock(
        url="s3://geo/checkpoints",
        endpoint="http://127.0.0.1:8333",
        access_key="someone",
        secret_key="very-secret",
        session_token="token-secret",
        scope="team",
        time_to_live_days=None,
    )
    block.save(name)
    back = CheckpointStoreBlock.load(name)
    assert back.secret_key is not None
    assert back.secret_key.get_secret_value() == "very-secret"
    assert (back.url, back.scope, back.time_to_live_days) == ("s3://geo/checkpoints", "team", None)
    assert back.identity == block.identity
    assert isinstance(Block.load(f"geocairn-checkpoint-store/{name}"), CheckpointStoreBlock)

    with get_client(sync_client=True) as client:
        shown = client.read_block_document_by_name(name, "geocairn-checkpoint-store", include_secrets=False)
    assert shown.data["url"] == "s3://geo/checkpoints"
    assert shown.data["secret_key"] == shown.data["session_token"] == "********"
    for text in (repr(block), str(block), repr(block.s3), block.identity, repr(block.store)):
        assert "very-secret" not in text
        assert "token-secret" not in text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"url": "gs://bucket/x"}, "a store cannot have the address 'gs://bucket/x': gs is not known; use a folder"),
        ({"url": "s3://"}, "the address of an S3 store is s3://bucket/prefix"),
        ({"url": "s3://key:secret@bucket"}, "give keys by the AWS variables or a profile"),
        ({"url": __file__}, "is a file; a store is a folder"),
        ({"time_to_live_days": 0}, "greater than 0"),
        ({"scope": ""}, "at least 1 character"),
    ],
)
def test_wrong_settings_are_refused_with_what_to_do(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        CheckpointStoreBlock(**values)
    assert message in str(refused.value)


def test_an_empty_address_is_the_default_one_as_it_is_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = CheckpointStoreBlock()
    monkeypatch.delenv("GEOCAIRN_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert block.address == str(tmp_path / ".geocairn")
    first = block.store
    assert block.store is first
    monkeypatch.setenv("GEOCAIRN_STORE", str(tmp_path / "other"))
    assert block.store.url != first.url
    assert block.workspace().store is block.store


def test_settings_come_from_the_environment_unless_the_block_states_any() -> None:
    assert CheckpointStoreBlock(url="s3://geo").s3 is None
    assert CheckpointStoreBlock(url="s3://geo", region="eu-central-1").s3 == S3Settings(region="eu-central-1")
    assert CheckpointStoreBlock(url="s3://geo", session_token="t").s3 is not None


def test_two_blocks_are_one_exactly_when_they_open_the_same_store_alike(tmp_path: Path) -> None:
    def made(**values: Any) -> str:
        return CheckpointStoreBlock(**{"url": str(tmp_path), "secret_key": "s", **values}).identity

    assert made() == made()
    others = [
        made(url=str(tmp_path / "x")),
        made(scope="x"),
        made(time_to_live_days=None),
        made(secret_key="t"),
        made(session_token="s"),
        made(endpoint="http://x"),
    ]
    assert len({made(), *others}) == len(others) + 1


def test_what_is_committed_is_read_as_a_record_of_prefects_and_nothing_else_is(tmp_path: Path) -> None:
    block = CheckpointStoreBlock(url=str(tmp_path / "store"))
    with pytest.raises(TransientFailure, match=f"{PRINT}: there is no checkpoint"):
        block.read_path(PRINT)
    committed = block.store.commit(draft(), layer())
    for data in (block.read_path(PRINT), asyncio.run(block.aread_path(PRINT))):
        record: ResultRecord[Any] = ResultRecord.deserialize(data)
        assert record.result == committed
        assert isinstance(record.serializer, CheckpointSerializer)
        assert record.metadata.storage_key == PRINT
    for key in ("", "a" * 63, PRINT.upper(), f"checkpoints/ab/{PRINT}.json", "../" + PRINT, "results/x"):
        assert not is_fingerprint(key)
        with pytest.raises(InputFailure, match="is no fingerprint"):
            block.read_path(key)


def test_nothing_is_written_through_prefect(tmp_path: Path) -> None:
    block = CheckpointStoreBlock(url=str(tmp_path / "store"))
    block.write_path(PRINT, pickle.dumps({"anything": 1}))
    block.write_path("results/other", b"x")
    asyncio.run(block.awrite_path(PRINT, b"x"))
    assert not (tmp_path / "store").exists() or not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


def test_a_store_that_refuses_is_told_with_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = CheckpointStoreBlock(url=str(tmp_path / "store"))
    read = Path.open

    def refusing(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == f"{PRINT}.json":
            raise PermissionError(13, "Permission denied")
        return read(path, *args, **kwargs)

    block.store.commit(draft(), layer())
    monkeypatch.setattr(Path, "open", refusing)
    monkeypatch.setattr("os.open", lambda path, *args, **kwargs: refusing(Path(path)))
    with pytest.raises(FatalFailure):
        block.read_path(PRINT)


def test_a_block_travels_without_its_open_store(tmp_path: Path) -> None:
    block = CheckpointStoreBlock(url=str(tmp_path / "store"), secret_key="s")
    block.store.commit(draft(), layer())
    back = pickle.loads(pickle.dumps(block))
    assert back._store is None
    assert back.identity == block.identity
    assert back.store.get(PRINT) == block.store.get(PRINT)
    assert block._store is not None


def test_the_serializer_takes_checkpoints_only(tmp_path: Path) -> None:
    serializer = CheckpointSerializer()
    assert serializer.loads(serializer.dumps(draft())) == draft()
    assert serializer.dumps(draft()) == write_record(draft())
    with pytest.raises(TypeError, match="a step's result is a Checkpoint, not a dict"):
        serializer.dumps({"rows": 1})
    with pytest.raises(ValueError, match=r"not JSON|altered"):
        serializer.loads(pickle.dumps(draft()))
