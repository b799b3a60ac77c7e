"""The examples' data are what their READMEs say: counts, defects, and where the Broad Street pump stands."""

from __future__ import annotations

from pathlib import Path

import geopandas
import pandas
import pyogrio
import pytest
import shapely

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SOHO = EXAMPLES / "soho" / "data"
COUNTIES = EXAMPLES / "counties" / "data"


def test_the_counties_come_with_their_defects_and_without_a_crs() -> None:
    counties = geopandas.read_file(COUNTIES / "us-counties.gpkg", layer="counties")
    assert len(counties) == 3231
    assert counties.crs is None
    assert int((~counties.is_valid).sum()) == 22
    assert counties.loc[counties.is_empty, "county"].tolist() == ["Falls Church"]
    assert not counties.geometry.isna().any()
    assert counties["fips"].is_unique
    assert counties["state"].nunique() == 56
    assert counties["state"].notna().all()


def test_the_counties_lie_where_they_should() -> None:
    counties = geopandas.read_file(COUNTIES / "us-counties.gpkg", layer="counties")
    # Alaska and Guam reach across the antimeridian, American Samoa south of the equator.
    west, south, east, north = counties.total_bounds
    assert (-180 <= west < -179, -15 < south < -14, 179 < east <= 180, 71 < north < 72) == (True,) * 4
    manhattan = counties.set_index("fips").geometry["36061"]
    assert shapely.Point(-73.97, 40.78).within(manhattan)


def test_the_cities_are_those_of_the_united_states_largest_first() -> None:
    cities = pandas.read_csv(COUNTIES / "us-cities.csv")
    assert list(cities.columns) == ["geonameid", "city", "state", "population", "x", "y"]
    assert len(cities) == 3407
    assert int((cities["population"] >= 250_000).sum()) == 94
    assert cities["population"].is_monotonic_decreasing
    assert cities["geonameid"].is_unique
    assert cities[["x", "y"]].notna().all().all()
    assert cities.iloc[0]["city"] == "New York City"


def test_soho_has_the_layers_of_the_map() -> None:
    sizes = {"SohoPeople": (324, "Point"), "SohoWater": (13, "Point"), "Soho_Network": (118, "LineString")}
    for name, (rows, kind) in sizes.items():
        layer = geopandas.read_file(SOHO / f"{name}.shp")
        assert (len(layer), set(layer.geom_type), layer.crs.to_epsg()) == (rows, {kind}, 3857)
    deaths = geopandas.read_file(SOHO / "SohoPeople.shp")["Count"]
    assert int(deaths.sum()) == 392
    assert int((deaths > 0).sum()) == 133


def test_each_pump_has_one_name_and_each_name_one_pump() -> None:
    names = pandas.read_csv(SOHO / "pump_names.csv")
    pumps = geopandas.read_file(SOHO / "SohoWater.shp")
    assert names["pump"].is_unique
    assert len(names) == len(pumps) == 13
    places = geopandas.points_from_xy(names["x"], names["y"], crs="EPSG:3857")
    nearest, metres = pumps.sindex.nearest(places, return_distance=True)
    assert sorted(nearest[1]) == list(range(13))
    assert metres.max() < 0.001


def test_the_broad_street_pump_is_where_it_stood() -> None:
    names = pandas.read_csv(SOHO / "pump_names.csv").set_index("pump")
    place = geopandas.points_from_xy(names["x"], names["y"], crs="EPSG:3857").to_crs("EPSG:27700")
    stood = geopandas.points_from_xy([-0.13667], [51.51334], crs="EPSG:4326").to_crs("EPSG:27700")
    metres = dict(zip(names.index, place.distance(stood[0]), strict=True))
    assert min(metres, key=lambda name: metres[name]) == "Broad Street"
    assert metres["Broad Street"] < 15


def test_neighbouring_names_are_in_the_right_order() -> None:
    names = pandas.read_csv(SOHO / "pump_names.csv").set_index("pump")
    east = ["Crown Chapel", "Broad Street", "So Soho", "Dean Street"]
    assert names.loc[east, "x"].is_monotonic_increasing
    north = ["Coventry Street", "Warwick Street", "Broad Street", "Oxford Street 1"]
    assert names.loc[north, "y"].is_monotonic_increasing


@pytest.mark.parametrize("example", ["soho", "counties"])
def test_an_example_is_small(example: str) -> None:
    files = [path for path in (EXAMPLES / example).rglob("*") if path.is_file()]
    committed = [path for path in files if not {"out", "__pycache__", ".geocairn"} & set(path.parts)]
    assert 0 < sum(path.stat().st_size for path in committed) < 3_000_000


def test_a_shapefile_has_the_parts_that_it_needs_and_no_more() -> None:
    names = {path.name for path in SOHO.iterdir()}
    expected = {
        f"{name}.{part}"
        for name in ("SohoPeople", "SohoWater", "Soho_Network")
        for part in ("shp", "shx", "dbf", "prj")
    }
    assert names == expected | {"pump_names.csv"}


def test_the_geopackage_holds_one_layer() -> None:
    assert pyogrio.list_layers(COUNTIES / "us-counties.gpkg")[:, 0].tolist() == ["counties"]
