"""An output must not replace, or change, what the plan reads."""

from __future__ import annotations

import pytest

from geocairn.plan.check import check
from geocairn.plan.complaint import PlanError
from geocairn.plan.document import document_of


def complaints_of(source: str, output: str) -> str:
    plan = {"name": "p", "sources": {"s": {"uri": source}}, "outputs": [{"from": "s", "uri": output}]}
    with pytest.raises(PlanError) as caught:
        check(document_of(plan))
    return str(caught.value)


def test_an_output_over_its_source_through_a_link_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.gpkg").touch()
    (tmp_path / "link.gpkg").symlink_to("p.gpkg")
    assert "must not replace it" in complaints_of("link.gpkg", "p.gpkg")
    assert "must not replace it" in complaints_of("p.gpkg", "link.gpkg")


def test_an_output_in_a_folder_that_is_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts.parquet").mkdir()
    assert "lies in the folder" in complaints_of("parts.parquet", "parts.parquet/z.parquet")
