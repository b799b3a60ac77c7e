"""Whether two layers are the same answer: equal attributes, and geometries equal after normalisation."""

from __future__ import annotations

from typing import Any

TOLERANCE = 1e-6
"""In units of the CRS: two engines may differ in the last digits."""


def differences(found: Any, expected: Any) -> list[str]:
    """Return what differs between two layers, in words; nothing where they are the same."""
    import shapely

    if len(found) != len(expected):
        return [f"{len(found)} rows and not {len(expected)}"]
    name = expected.geometry.name
    said = []
    if found.crs != expected.crs or found.geometry.name != name:
        said.append(f"geometry {found.geometry.name} in {found.crs} and not {name} in {expected.crs}")
        return said
    one, other = found.drop(columns=name), expected.drop(columns=name)
    if list(one.columns) != list(other.columns) or list(one.dtypes) != list(other.dtypes):
        said.append(f"columns {dict(one.dtypes)} and not {dict(other.dtypes)}")
    elif not one.equals(other):
        said.append(f"attributes {one.to_dict('list')} and not {other.to_dict('list')}")
    a, b = (shapely.normalize(layer.geometry.to_numpy()) for layer in (found, expected))
    if not shapely.equals_exact(a, b, tolerance=TOLERANCE).all():
        said.append("geometries")
    return said
