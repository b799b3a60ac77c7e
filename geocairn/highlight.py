"""The rows of an output that are told with the answer, so that a reader has it without opening a file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from geocairn.failure import InputFailure
from geocairn.nearest import did_you_mean


class Highlight(BaseModel):
    """Which rows of an output are told with the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    order_by: str | None = Field(None, description="Column to order by; the order of the layer when empty")
    descending: bool = Field(True, description="Whether the greatest come first")
    columns: list[str] | None = Field(None, description="Columns to tell; all when empty")
    rows: int = Field(3, ge=1, le=100, description="Number of rows to tell")


def highlighted(layer: Any, highlight: Highlight) -> list[dict[str, Any]]:
    """Return the rows to tell, as JSON values. Rows of equal rank keep the layer's order; missing values come last.

    Raises
    ------
    InputFailure : for a column that is not there.
    """
    import json

    geometry = getattr(layer, "_geometry_column_name", None)
    known = [name for name in layer.columns if name != geometry]
    for name in [*(highlight.columns or []), *([highlight.order_by] if highlight.order_by else [])]:
        if name not in known:
            raise InputFailure(f"highlight: there is no column {name!r}{did_you_mean(name, known)}")
    table = layer
    if highlight.order_by is not None:
        table = table.sort_values(
            highlight.order_by, ascending=not highlight.descending, kind="stable", na_position="last"
        )
    rows = table[highlight.columns or known].head(highlight.rows)
    plain: list[dict[str, Any]] = json.loads(rows.to_json(orient="records", date_format="iso", double_precision=10))
    return plain
