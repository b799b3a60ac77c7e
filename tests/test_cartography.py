"""The map: what is on it, judged by its pixels; awkward layers; the same bytes again; lengths on the ground."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import warnings

import geopandas
import numpy
import pandas
import pytest
import shapely
from matplotlib.image import imread
from pydantic import ValidationError
from pyproj import CRS, Geod

from geocairn.cartography import MapStyle, draw_map
from geocairn.failure import InputFailure
from geocairn.map_frame import coordinate_text, crs_text, frame_round, scale_bar
from geocairn.map_labels import text_of
from geocairn.map_legend import MISSING, OTHER, PALETTE, colours_of


def squares(count: int = 4, crs: object = "EPSG:27700", **columns: object) -> geopandas.GeoDataFrame:
    """A row of squares of 100 units, each beside the last."""
    shapes = [shapely.box(529000 + 100 * i, 181000, 529100 + 100 * i, 181100) for i in range(count)]
    return geopandas.GeoDataFrame(columns, geometry=shapes, crs=crs)


def drawn(layer: geopandas.GeoDataFrame, **style: object) -> numpy.ndarray:
    """The picture's pixels, red, green and blue from 0 to 255."""
    buffer = io.BytesIO()
    draw_map(layer, buffer, **style)  # type: ignore[arg-type]
    assert buffer.getvalue().startswith(b"\x89PNG")
    buffer.seek(0)
    return (imread(buffer)[:, :, :3] * 255).round().astype(int)


def count_of(pixels: numpy.ndarray, colour: str) -> int:
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return int((numpy.abs(pixels - wanted).max(axis=2) <= 2).sum())


def test_each_class_has_its_colour_in_equal_shares_and_in_the_legend() -> None:
    pixels = drawn(squares(kind=["a", "b", "a", "b"]), column="kind")
    first, second = count_of(pixels, PALETTE[0]), count_of(pixels, PALETTE[1])
    assert first > 10_000
    assert first == pytest.approx(second, rel=0.02)
    # The legend stands to the right of the map: its patches lie beyond the last square, which is of the second class.
    rightmost = {
        colour: numpy.nonzero((numpy.abs(pixels - rgb).max(axis=2) <= 2).any(axis=0))[0].max()
        for colour, rgb in (("first", [230, 159, 0]), ("second", [86, 180, 233]))
    }
    assert rightmost["first"] == pytest.approx(rightmost["second"], abs=2)


def test_a_scale_runs_from_pale_to_dark_and_missing_values_are_grey() -> None:
    pixels = drawn(squares(n=[0.0, 10.0, None, numpy.inf]), column="n")
    pale, dark, grey = (count_of(pixels, colour) for colour in ("#fff7dc", "#7a2a05", MISSING))
    assert pale > 10_000
    assert dark > 10_000
    assert grey == pytest.approx(pale + dark, rel=0.1)


def test_labels_are_written_inside_and_left_out_where_there_is_no_room() -> None:
    plain, labelled = drawn(squares()), drawn(squares(name=["one", "two", "three", "four"]), label="name")
    changed = numpy.nonzero((plain != labelled).any(axis=2).any(axis=0))[0]
    # Four groups of columns change, one inside each square.
    assert (numpy.diff(changed) > 30).sum() == 3
    crowded = squares(400, name=[f"a rather long name {i}" for i in range(400)])
    assert (drawn(crowded) != drawn(crowded, label="name")).any()


def test_missing_labels_leave_no_mark() -> None:
    assert (drawn(squares()) == drawn(squares(name=[None, float("nan"), pandas.NA, ""]), label="name")).all()


def test_title_and_attribution_take_dollars_literally() -> None:
    pixels = drawn(squares(), title="cost in $ and $x_{", attribution="$\\frac{")
    assert pixels.shape[0] > drawn(squares()).shape[0]


def test_the_same_layer_gives_the_same_bytes_and_no_date() -> None:
    layer = squares(n=[1, 2, 3, 4], name=list("abcd"))
    buffers = [io.BytesIO(), io.BytesIO()]
    for buffer in buffers:
        draw_map(layer, buffer, column="n", label="name", title="t")
    assert buffers[0].getvalue() == buffers[1].getvalue()
    for chunk in (b"tIME", b"Software", b"Creation"):
        assert chunk not in buffers[0].getvalue()


def test_the_users_matplotlib_settings_change_neither_bytes_nor_are_changed() -> None:
    import matplotlib

    layer = squares(n=[1, 2, 3, 4])
    first = io.BytesIO()
    draw_map(layer, first, column="n")
    with matplotlib.rc_context({"font.size": 30.0, "axes.facecolor": "red"}):
        second = io.BytesIO()
        draw_map(layer, second, column="n")
        assert matplotlib.rcParams["font.size"] == 30.0
    assert first.getvalue() == second.getvalue()


def test_drawing_warns_of_nothing_whatever_the_script() -> None:
    code = (
        "import geopandas, shapely, io\n"
        "from geocairn.cartography import draw_map\n"
        "squares = [shapely.box(0, 0, 1, 1)] * 2\n"
        "layer = geopandas.GeoDataFrame({'東': ['北京', 'a\\tb\\x00']}, geometry=squares, crs=4326)\n"
        "draw_map(layer, io.BytesIO(), column='東', label='東', title='京都 \\x07', attribution='서울')\n"
    )
    found = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr == ""


def test_threads_draw_the_same() -> None:
    layer, found = squares(n=[1, 2, 3, 4]), []

    def draw() -> None:
        buffer = io.BytesIO()
        draw_map(layer, buffer, column="n")
        found.append(buffer.getvalue())

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1


def test_the_layer_is_not_changed() -> None:
    layer = squares(n=[1, 2, 3, 4])
    before = layer.copy(deep=True)
    draw_map(layer, io.BytesIO(), column="n")
    pandas.testing.assert_frame_equal(layer, before)


KINDS = {
    "no rows": [],
    "null": [None, None],
    "empty": [shapely.Polygon(), shapely.Point()],
    "one point": [shapely.Point(529000, 181000)],
    "points": [shapely.Point(529000, 181000), shapely.MultiPoint([(529100, 181000), (529100, 181100)])],
    "a flat line": [shapely.LineString([(529000, 181000), (529900, 181000)])],
    "an upright line": [shapely.LineString([(529000, 181000), (529000, 181900)])],
    "with Z and M": [
        shapely.Point(529000, 181000, 5),
        shapely.from_wkt("LINESTRING ZM (529000 181000 1 2, 529100 181100 3 4)"),
    ],
    "mixed": [
        shapely.Point(529000, 181000),
        None,
        shapely.LineString([(529000, 181000), (529300, 181100)]),
        shapely.GeometryCollection(
            [
                shapely.box(529000, 181000, 529100, 181100),
                shapely.GeometryCollection([shapely.MultiPoint([(529200, 181200)])]),
                shapely.LinearRing([(529000, 181000), (529100, 181000), (529100, 181100)]),
            ]
        ),
        shapely.Polygon(),
    ],
    "a bow tie": [shapely.Polygon([(529000, 181000), (529100, 181100), (529100, 181000), (529000, 181100)])],
    "smaller than a pixel": [shapely.box(529000, 181000, 529000.001, 181000.001), shapely.Point(529900, 181900)],
    "infinite": [shapely.Point(numpy.inf, 181000), shapely.Point(529000, 181000)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("crs", ["EPSG:27700", None])
def test_any_kind_of_geometry_is_drawn(kind: str, crs: str | None) -> None:
    shapes = KINDS[kind]
    layer = geopandas.GeoDataFrame({"n": range(len(shapes)), "name": ["x"] * len(shapes)}, geometry=shapes, crs=crs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = drawn(layer, column="n", label="name", title=kind)
    assert (pixels < 200).any()


def test_what_is_smaller_than_a_pixel_does_not_vanish() -> None:
    far = shapely.box(539000, 191000, 539000.01, 191000.01)
    tiny = geopandas.GeoDataFrame(
        {"kind": ["dot", "square"]}, geometry=[far, shapely.box(529000, 181000, 530000, 182000)], crs="EPSG:27700"
    )
    pixels = drawn(tiny, column="kind")
    upper_right = pixels[: pixels.shape[0] // 4, pixels.shape[1] // 2 : -240]
    assert (numpy.abs(upper_right - [230, 159, 0]).max(axis=2) <= 60).any()


def test_holes_are_open_whichever_way_their_rings_run() -> None:
    shell, hole = shapely.box(0, 0, 1000, 1000).exterior, shapely.box(250, 250, 750, 750).exterior
    counts = []
    for ring in (list(hole.coords), list(hole.coords)[::-1]):
        layer = geopandas.GeoDataFrame(geometry=[shapely.Polygon(shell, [ring])], crs="EPSG:27700")
        counts.append(count_of(drawn(layer), "#a9cbe0"))
    whole = count_of(
        drawn(geopandas.GeoDataFrame(geometry=[shapely.Polygon(shell)], crs="EPSG:27700")),
        "#a9cbe0",
    )
    assert counts[0] == counts[1] == pytest.approx(0.75 * whole, rel=0.02)


def test_context_is_brought_to_the_layers_crs_and_named_in_the_legend() -> None:
    line = geopandas.GeoDataFrame(geometry=[shapely.LineString([(529000, 181050), (529400, 181050)])], crs="EPSG:27700")
    direct = drawn(squares(), context={"way": line})
    through = drawn(squares(), context={"way": line.to_crs("EPSG:4326")})
    assert (direct != through).any(axis=2).mean() < 0.001
    assert count_of(direct, "#7d7d7d") > 300
    assert direct.shape == drawn(squares(), context={"way": line}, names={"way": "road"}).shape
    # Without a name there is no legend, so the map takes its room.
    assert count_of(drawn(squares(), context=[line]), "#a9cbe0") > count_of(direct, "#a9cbe0")


def test_points_of_the_context_lie_above_and_polygons_below() -> None:
    below = geopandas.GeoDataFrame(geometry=[shapely.box(528000, 180000, 530000, 182000)], crs="EPSG:27700")
    above = geopandas.GeoDataFrame(geometry=[shapely.Point(529150, 181050)], crs="EPSG:27700")
    plain = drawn(squares())
    pixels = drawn(squares(), context=[below, above])
    assert count_of(pixels, "#ececec") > 1000
    assert count_of(pixels, "#111111") > 5
    assert count_of(pixels, "#a9cbe0") == pytest.approx(count_of(plain, "#a9cbe0"), rel=0.02)


def test_the_extent_takes_in_the_context_where_asked() -> None:
    below = geopandas.GeoDataFrame(geometry=[shapely.box(528000, 180000, 530000, 182000)], crs="EPSG:27700")
    close = count_of(drawn(squares(), context=[below]), "#a9cbe0")
    whole = count_of(drawn(squares(), context=[below], fit="all"), "#a9cbe0")
    assert 0 < whole < close / 4


def test_an_empty_layer_shows_its_context() -> None:
    line = geopandas.GeoDataFrame(geometry=[shapely.LineString([(0, 0), (900, 900)])], crs="EPSG:27700")
    assert count_of(drawn(squares(0), context=[line]), "#7d7d7d") > 100


@pytest.mark.parametrize(
    ("style", "named"),
    [({"column": "deths"}, "deaths"), ({"label": "pmup"}, "pump"), ({"column": "geometry"}, "deaths")],
)
def test_a_column_that_is_not_there_is_refused_with_the_nearest(style: dict[str, str], named: str) -> None:
    with pytest.raises(InputFailure, match=named):
        draw_map(squares(deaths=[1] * 4, pump=["x"] * 4), io.BytesIO(), **style)  # type: ignore[arg-type]


def test_a_table_and_an_unknown_crs_are_refused_with_a_remedy() -> None:
    with pytest.raises(InputFailure, match="without geometry"):
        draw_map(pandas.DataFrame({"a": [1]}), io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(InputFailure, match=r"map context way.*assign_crs"):
        draw_map(squares(), io.BytesIO(), context={"way": squares(crs=None)})


def test_a_refused_map_leaves_the_file_as_it_was(tmp_path) -> None:  # type: ignore[no-untyped-def]
    target = tmp_path / "map.png"
    draw_map(squares(), target)
    before = target.read_bytes()
    with pytest.raises(InputFailure):
        draw_map(squares(), target, column="none")
    assert target.read_bytes() == before


def test_a_hundred_thousand_polygons_are_drawn() -> None:
    place = numpy.random.default_rng(7).uniform(0, 100_000, (100_000, 2))
    layer = geopandas.GeoDataFrame(
        {"n": numpy.arange(len(place))}, geometry=shapely.buffer(shapely.points(place), 100), crs="EPSG:27700"
    )
    pixels = drawn(layer, column="n", label="n")
    assert pixels.size < 4_000_000


@pytest.mark.parametrize("latitude", [0.0, 40.0, 60.0, -75.0])
def test_a_scale_bar_in_degrees_is_as_long_as_it_says(latitude: float) -> None:
    frame = frame_round((10.0, latitude - 0.5, 12.0, latitude + 0.5), CRS("EPSG:4326"))
    bar = scale_bar(frame, CRS("EPSG:4326"))
    assert bar is not None
    x, y = frame.middle
    _, _, metres = Geod(ellps="WGS84").inv(x - bar.units / 2, y, x + bar.units / 2, y)
    assert metres == pytest.approx(bar.metres, rel=0.001)
    assert 0.1 * frame.width < bar.units <= 0.25 * frame.width
    # A square of the ground is drawn as a square.
    _, _, north = Geod(ellps="WGS84").inv(x, y - 0.01, x, y + 0.01)
    _, _, east = Geod(ellps="WGS84").inv(x - 0.01, y, x + 0.01, y)
    assert frame.stretch == pytest.approx(north / east, rel=0.01)


@pytest.mark.parametrize(
    ("crs", "units_in_metre"),
    [("EPSG:27700", 1.0), ("EPSG:2263", 3937 / 1200), ("EPSG:3857", 1.6062)],
    ids=["metres", "feet", "stretched"],
)
def test_a_scale_bar_is_true_on_the_ground(crs: str, units_in_metre: float) -> None:
    middle = {
        "EPSG:27700": (529400.0, 181000.0),
        "EPSG:2263": (985000.0, 200000.0),
        "EPSG:3857": (-15200.0, 6712600.0),
    }[crs]
    bar = scale_bar(
        frame_round((middle[0] - 500, middle[1] - 500, middle[0] + 500, middle[1] + 500), CRS(crs)), CRS(crs)
    )
    assert bar is not None
    assert bar.units / bar.metres == pytest.approx(units_in_metre, rel=0.002)
    assert str(bar.metres)[0] in "125"


def test_a_scale_that_varies_says_where_it_holds() -> None:
    world, town = (-170.0, -80.0, 170.0, 80.0), (10.0, 50.0, 10.1, 50.1)
    crs = CRS("EPSG:4326")
    texts = [bar.text for bounds in (world, town) if (bar := scale_bar(frame_round(bounds, crs), crs)) is not None]
    assert [text.endswith("at the middle") for text in texts] == [True, False]


def test_no_scale_bar_without_a_crs_nor_outside_the_projection() -> None:
    assert scale_bar(frame_round((0, 0, 1, 1), None), None) is None
    beyond = scale_bar(frame_round((1e9, 1e9, 2e9, 2e9), CRS("EPSG:27700")), CRS("EPSG:27700"))
    assert beyond is None or beyond.metres > 0
    assert crs_text(None) == "CRS unknown"
    assert crs_text(CRS("EPSG:27700")).startswith("EPSG:27700 ")


@pytest.mark.parametrize(
    "bounds",
    [(5, 5, 5, 5), (0, 0, 9, 0), (0, 0, 0, 9), (0, 0, 1000, 1), (1e15, 1e15, 1e15, 1e15), (-180, -90, 180, 90)],
)
def test_a_frame_holds_its_bounds_and_is_never_flat(bounds: tuple[float, float, float, float]) -> None:
    for crs in (CRS("EPSG:4326"), CRS("EPSG:27700"), None):
        frame = frame_round(bounds, crs)
        assert frame.west < bounds[0] <= bounds[2] < frame.east
        assert frame.south < bounds[1] <= bounds[3] < frame.north
        assert 0.29 < frame.ratio < 3.4


def test_coordinates_are_written_with_the_decimals_that_tell_them_apart() -> None:
    assert coordinate_text(-0.136, 0.002, "x", True) == "0.136° W"
    assert coordinate_text(51.514, 0.002, "y", True) == "51.514° N"
    assert coordinate_text(0.0, 20, "x", True) == "0°"
    assert coordinate_text(-30.0, 10, "y", True) == "30° S"
    assert coordinate_text(529250, 250, "x", False) == "529,250"


def test_more_than_eight_values_share_a_colour_for_the_rest() -> None:
    found = colours_of(pandas.Series(list("aabbccddeeffgghijkl")), "kind")
    assert [text for text, _ in found.classes] == [*"abcdefg", "5 others"]
    assert found.classes[-1][1] == OTHER
    assert len(set(found.classes)) == 8


@pytest.mark.parametrize(
    "column",
    [
        pandas.Series([1, None, 3], dtype="Int64"),
        pandas.Series([True, False, None], dtype="boolean"),
        pandas.Series([None, None, None], dtype="float64"),
        pandas.Series([7, 7, 7]),
        pandas.Series(pandas.Categorical(["b", "a", None], categories=["b", "a", "never"])),
        pandas.Series(pandas.to_datetime(["2020-01-01", None, "2021-01-01"])),
        pandas.Series([2**60, 1, 0], dtype="int64[pyarrow]"),
        pandas.Series([["a list"], {"a": 1}, (1, 2)]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_each_row_has_a_colour_whatever_the_type(column: pandas.Series) -> None:
    found = colours_of(column, "n")
    assert found.shades.shape == (3, 4)
    assert numpy.isfinite(found.shades).all()
    assert (drawn(squares(3, n=column), column="n") < 250).any()
    if column.isna().any():
        assert ("no value", MISSING) in found.classes


def test_categories_keep_their_order() -> None:
    column = pandas.Series(pandas.Categorical(["b", "a", "b"], categories=["b", "a", "never"]))
    assert [text for text, _ in colours_of(column, "n").classes] == ["b", "a"]


def test_a_label_is_short_and_plain() -> None:
    assert [text_of(value) for value in (None, float("nan"), pandas.NA, pandas.NaT)] == [""] * 4
    assert text_of(1234567.891) == "1,234,568"
    assert text_of("two\nlines") == "two lines"
    assert len(text_of("x" * 500)) == 40


def test_a_style_refuses_an_unknown_field() -> None:
    assert MapStyle(column="deaths").column == "deaths"
    with pytest.raises(ValidationError, match="colum"):
        MapStyle.model_validate({"colum": "deaths"})


def test_the_style_is_known_without_loading_a_drawing_library() -> None:
    code = (
        "import sys, geocairn.cartography\n"
        "heavy = ('matplotlib', 'geopandas', 'shapely', 'numpy', 'pandas', 'pyproj')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
