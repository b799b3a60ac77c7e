"""The nearest right name to a wrong one."""

from __future__ import annotations

import pytest

from geocairn.nearest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("bufer", ["buffer", "clip"], "buffer"),
        ("BUFFER", ["buffer", "clip"], "buffer"),
        ("conv", ["convex_hull", "clip"], "convex_hull"),
        ("counties.gpkg", ["counties", "cities"], "counties"),
        ("x", ["buffer"], None),
        ("", ["buffer"], None),
        ("buffer", [], None),
    ],
)
def test_nearest(name, known, found):
    assert nearest(name, known) == found


def test_what_is_said():
    assert did_you_mean("bufer", ["clip", "buffer"]) == "; did you mean 'buffer'?"
    assert did_you_mean("zzz", ["clip", "buffer"]) == "; there is buffer, clip"
    assert did_you_mean("zzz", []) == ""
    many = did_you_mean("zzz", [f"name{n:02}" for n in range(20)])
    assert many.endswith("name11, …")
