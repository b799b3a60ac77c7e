"""Draw a layer on a map, as PNG: what an output whose name ends in .png publishes, and the picture in the Prefect UI.

What always holds: the same layer and style give the same bytes with the same matplotlib (no date, no version and no
setting of the user's goes in); nothing that a layer may hold makes drawing fail: no rows, null, empty or mixed
geometry, missing values; and colours differ in lightness too, so that they are told apart without red and green.
"""

from __future__ import annotations

import io
import math
import textwrap
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field

from geocairn.failure import InputFailure
from geocairn.map_frame import Frame, coordinate_text, crs_text, frame_round, scale_bar
from geocairn.map_labels import place_labels, printable, text_of
from geocairn.map_legend import Colours, colours_of
from geocairn.map_shapes import DOTS_PER_INCH, PAPER, Ground, bounds_of, drawable, has_dimension
from geocairn.nearest import did_you_mean

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

_INK, _GREY = "#222222", "#8c8c8c"
# One symbol for each layer of points in the context, in turn: shape, colour and area in square points.
_SYMBOLS = (("o", "#111111", 7.0), ("s", "#0b4ea2", 30.0), ("^", "#00664f", 30.0), ("D", "#7a3b8f", 24.0))
# Matplotlib's settings are global to the process; drawing sets and restores them.
_drawing = threading.Lock()


class MapStyle(BaseModel):
    """How an output is drawn: the `map` of an output in a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str | None = Field(default=None, description="a line above the map")
    column: str | None = Field(default=None, description="the column that decides the colour, told in a legend")
    label: str | None = Field(
        default=None, description="the column whose text is written on each feature, room permitting"
    )
    attribution: str | None = Field(default=None, description="who made the data, below the map")
    fit: Literal["layer", "all"] = Field(
        default="layer", description="what the map's extent takes in: the layer alone, or the context as well"
    )
    names: dict[str, str] = Field(
        default_factory=dict, description="what the legend calls the column and the layers of the context"
    )


def draw_map(
    layer: GeoDataFrame,
    target: str | Path | BinaryIO,
    *,
    title: str | None = None,
    column: str | None = None,
    label: str | None = None,
    context: Mapping[str, GeoDataFrame] | Iterable[GeoDataFrame] = (),
    attribution: str | None = None,
    fit: Literal["layer", "all"] = "layer",
    names: Mapping[str, str] | None = None,
    size: tuple[float, float] = (9.0, 7.0),
) -> None:
    """Draw `layer` as a PNG map with coordinates, scale bar and north up.

    Parameters
    ----------
    layer : the layer; the map is in its CRS.
    target : the file to write (replaced), or an open binary file.
    column : the column that decides the colour; numbers on a scale, anything else as up to eight classes.
    label : the column whose text is written at a point inside each feature, where there is room.
    context : further layers, brought to the layer's CRS: polygons below it, lines and points above its polygons.
        Given by name, they are in the legend.
    attribution : who made the data; a line below the map.
    fit : what the map's extent takes in: the layer, or the context as well.
    names : what the legend calls the column and the context's layers, by their names; by default those names.
    size : the most that the picture takes, width and height in inches (130 pixels each).

    Raises
    ------
    InputFailure : for a column that is not there, a table without geometry, or a context of unknown CRS that cannot be
        brought to the layer's.
    """
    _check(layer, column, label)
    if isinstance(context, Mapping):
        named = [(str(name), other) for name, other in context.items()]
    else:
        named = [("", other) for other in context]
    import matplotlib

    with _drawing, matplotlib.rc_context(_settings()):
        brought = [(name, _brought(other, layer, name)) for name, other in named]
        picture = _Picture(layer, brought, dict(names or {}), size, whole=fit == "all")
        picture.draw(title, column, label, attribution)
        buffer = io.BytesIO()
        picture.figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    if isinstance(target, (str, Path)):
        Path(target).write_bytes(buffer.getvalue())
    else:
        target.write(buffer.getvalue())


def _settings() -> Any:
    """Return matplotlib's own settings of how things look, in place of the user's."""
    import matplotlib

    ways = ("font.", "text.", "axes.", "xtick.", "ytick.", "lines.", "patch.", "markers.", "scatter.", "hatch.")
    more = ("legend.", "figure.", "savefig.", "path.", "agg.", "image.", "grid.", "mathtext.")
    return {name: value for name, value in matplotlib.rcParamsDefault.items() if name.startswith(ways + more)}


def _check(layer: Any, column: str | None, label: str | None) -> None:
    if getattr(layer, "_geometry_column_name", None) not in getattr(layer, "columns", ()):
        raise InputFailure(
            "a table without geometry cannot be drawn", where="map", remedy="draw a layer, or write the table as CSV"
        )
    known = [str(name) for name in layer.columns if name != layer.geometry.name]
    for field, name in (("column", column), ("label", label)):
        if name is not None and name not in known:
            raise InputFailure(
                f"{field} {name!r} is not in the layer{did_you_mean(name, known)}",
                where="map",
                remedy=f"its columns are {', '.join(known) or 'none'}",
            )


def _brought(other: Any, layer: Any, name: str) -> Any:
    """Return a context layer's geometry in the layer's CRS."""
    geometry = other.geometry
    if geometry.crs == layer.crs:
        return geometry
    if geometry.crs is None or layer.crs is None:
        raise InputFailure(
            "the CRS of the layer or of its context is unknown, so they cannot be drawn on one map",
            where=f"map context {name}".strip(),
            remedy="state it with assign_crs",
        )
    return geometry.to_crs(layer.crs)


class _Picture:
    """One figure in the making: the frame in inches, and what goes where."""

    LEFT, RIGHT, TOP, BOTTOM, LEGEND = 0.45, 0.25, 0.25, 0.85, 1.75

    def __init__(
        self,
        layer: Any,
        context: Sequence[tuple[str, Any]],
        names: dict[str, str],
        size: tuple[float, float],
        *,
        whole: bool,
    ) -> None:
        self.layer, self.context, self.names, self.size = layer, context, names, size
        self.rows = drawable(layer.geometry)
        others = [drawable(other) for _, other in context]
        bounds = bounds_of([self.rows, *others] if whole else [self.rows]) or bounds_of(others)
        self.blank = bounds is None
        self.frame: Frame = frame_round(bounds or (0.0, 0.0, 1.0, 0.4), layer.crs if bounds else None)
        self.figure: Any = None
        self.axes: Any = None

    def draw(self, title: str | None, column: str | None, label: str | None, attribution: str | None) -> None:
        """Draw everything, from the ground up."""
        colours = None
        if column is not None and len(self.layer):
            colours = colours_of(self.layer[column], self._called(column))
        handles = self._symbols()
        self._lay_out(title, legend=colours is not None or bool(handles))
        if self.blank:
            count = len(self.layer)
            text = f"nothing to draw: {count:,} rows{', none with geometry' if count else ''}"
            self.axes.text(0.5, 0.5, text, transform=self.axes.transAxes, ha="center", va="center", color=_GREY)
        for _, other in self.context:
            self.ground.polygons(drawable(other), None, face="#ececec", edge="#b5b5b5", order=1.0)
        self._layer(colours)
        for position, (_, other) in enumerate(self.context):
            rows = drawable(other)
            self.ground.lines(rows, None, "#7d7d7d", 0.7, order=3.0)
            self.ground.points(rows, None, self._symbol(position), order=5.0)
        if label is not None:
            self._labels(self.layer[label], colours)
        if colours is not None or handles:
            self._legend(colours, handles)
        self._foot(attribution)

    def _lay_out(self, title: str | None, *, legend: bool) -> None:
        """Fit the frame into the size allowed, and cut the figure to what is needed."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        right = self.LEGEND if legend else self.RIGHT
        widest = max(1.0, self.size[0] - self.LEFT - right)
        # About 12 characters to the inch at this size of type.
        lines = textwrap.wrap(printable(title or ""), max(20, int((widest + right) * 9.5)))[:3]
        top = self.TOP + 0.26 * len(lines)
        width = min(widest, max(1.0, self.size[1] - top - self.BOTTOM) / self.frame.ratio)
        height = width * self.frame.ratio
        # A tall map leaves the lines of text a width to stand in.
        spare = max(0.0, min(widest, 4.0) - width)
        total = (self.LEFT + width + spare + right, top + height + self.BOTTOM)
        self.figure = Figure(figsize=total, dpi=DOTS_PER_INCH, facecolor=PAPER)
        FigureCanvasAgg(self.figure)
        self.box = ((self.LEFT + spare / 2) / total[0], self.BOTTOM / total[1], width / total[0], height / total[1])
        self.total = total
        self.axes = self.figure.add_axes(self.box)
        self.axes.set_xlim(self.frame.west, self.frame.east)
        self.axes.set_ylim(self.frame.south, self.frame.north)
        self.ground = Ground(self.axes, self.frame, self.frame.width / (width * DOTS_PER_INCH))
        for spine in self.axes.spines.values():
            spine.set(color=_INK, linewidth=0.8, zorder=9)
        if lines:
            self.figure.text(
                self.box[0],
                1 - 0.16 / total[1],
                "\n".join(lines),
                ha="left",
                va="top",
                fontsize=12,
                fontweight="bold",
                color=_INK,
                parse_math=False,
            )
        self._coordinates(width, height)

    def _coordinates(self, width: float, height: float) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

        if self.blank:
            self.axes.set(xticks=[], yticks=[])
            return
        geographic = self.layer.crs is not None and bool(self.layer.crs.is_geographic)
        sides = (
            ("x", self.axes.xaxis, (self.frame.west, self.frame.east), width),
            ("y", self.axes.yaxis, (self.frame.south, self.frame.north), height),
        )
        for name, axis, (low, high), inches in sides:
            marks = MaxNLocator(nbins=max(2, min(6, int(inches / 1.2))), steps=[1, 2, 2.5, 5, 10]).tick_values(
                low, high
            )
            step = float(marks[1] - marks[0])
            axis.set_major_locator(FixedLocator([mark for mark in marks if low <= mark <= high]))
            axis.set_major_formatter(
                FuncFormatter(lambda value, _, step=step, name=name: coordinate_text(value, step, name, geographic))
            )
        self.axes.tick_params(labelsize=7, colors=_INK, length=3, width=0.6)
        self.axes.tick_params(axis="y", labelrotation=90)
        for text in self.axes.get_yticklabels():
            text.set_verticalalignment("center")

    def _symbol(self, position: int) -> tuple[str, str, float]:
        """Return the symbol of a context layer: in turn among those that have points."""
        earlier = sum(has_dimension(other, 0) for _, other in self.context[:position])
        marker, colour, area = _SYMBOLS[earlier % len(_SYMBOLS)]
        return marker, colour, area if len(self.context[position][1]) <= 1000 else min(area, 4.0)

    def _called(self, name: str) -> str:
        return printable(self.names.get(name, name.replace("_", " ")))

    def _symbols(self) -> list[Any]:
        """Return the legend's entries for the context layers that were given by name."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = []
        for position, (name, other) in enumerate(self.context):
            text = self._called(name)
            if not text.strip():
                continue
            if has_dimension(other, 0):
                marker, colour, area = self._symbol(position)
                style: dict[str, Any] = {"markerfacecolor": colour, "markeredgecolor": PAPER, "markeredgewidth": 0.4}
                handles.append(
                    Line2D(
                        [], [], linestyle="", marker=marker, markersize=max(4.0, math.sqrt(area)), label=text, **style
                    )
                )
            elif has_dimension(other, 1):
                handles.append(Line2D([], [], color="#7d7d7d", linewidth=1.0, label=text))
            elif has_dimension(other, 2):
                handles.append(Patch(facecolor="#ececec", edgecolor="#b5b5b5", label=text))
        return handles

    def _layer(self, colours: Colours | None) -> None:
        many = len(self.layer) > 3000
        shades = None if colours is None else colours.shades
        self.ground.polygons(self.rows, shades, face="#a9cbe0", edge="#44657d", order=2.0)
        self.ground.lines(self.rows, shades, "#0b4ea2", 0.8 if many else 1.4, order=4.0)
        self.ground.points(self.rows, shades, ("o", "#b3400f", 5.0 if many else 24.0), order=6.0)

    def _labels(self, column: Any, colours: Colours | None) -> None:
        """Write the labels, the largest values first where a column of numbers decides the colour."""
        geometry, number = self.rows
        if not len(geometry):
            return
        order = _by_weight(geometry, number, colours)
        texts = [(place, text_of(column.iloc[int(number[place])])) for place in order]
        obstacles = [self.ground.seen(drawable(other), 0)[0] for _, other in self.context]
        place_labels(self.axes, geometry, [(place, text) for place, text in texts if text], obstacles)

    def _legend(self, colours: Colours | None, handles: list[Any]) -> None:
        left = self.box[0] + self.box[2] + 0.2 / self.total[0]
        top = self.box[1] + self.box[3]
        if colours is not None:
            top = colours.explain(self.figure, left, top, self.total) - 0.15 / self.total[1]
        if handles:
            place = (left - 0.06 / self.total[0], top)
            look: dict[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": _INK, "borderaxespad": 0.0}
            legend = self.figure.legend(handles=handles, loc="upper left", bbox_to_anchor=place, **look)
            for text in legend.get_texts():
                text.set_parse_math(False)

    def _foot(self, attribution: str | None) -> None:
        """Draw scale bar, north arrow, the CRS's name and the attribution below the frame."""
        from matplotlib.lines import Line2D

        inch = 1 / self.total[1]
        left, bottom = self.box[0], self.box[1] - 0.48 * inch
        after = left
        bar = None if self.blank else scale_bar(self.frame, self.layer.crs)
        if bar is not None:
            length = bar.units / self.frame.width * self.box[2]
            tick = 0.05 * inch
            xs, ys = [left, left, left + length, left + length], [bottom + tick, bottom, bottom, bottom + tick]
            self.figure.add_artist(Line2D(xs, ys, color=_INK, linewidth=1.4, solid_joinstyle="miter", gid="scale bar"))
            self._say(left + length + 0.06 / self.total[0], bottom, bar.text, va="bottom")
            after = left + length + (0.3 + 0.065 * len(bar.text)) / self.total[0]
        if not self.blank and self.layer.crs is not None:
            self.figure.add_artist(
                Line2D([after], [bottom + 0.05 * inch], linestyle="", marker="^", markersize=5, color=_INK)
            )
            self._say(after + 0.07 / self.total[0], bottom, "N", va="bottom")
        below = bottom - 0.1 * inch
        room = max(30, int((self.total[0] - 0.5) * 16))
        text = "   ·   ".join(part for part in (crs_text(self.layer.crs), attribution) if part)
        self._say(left, below, "\n".join(textwrap.wrap(printable(text), room)[:2]), va="top", color="#555555")

    def _say(self, x: float, y: float, text: str, *, va: str, color: str = _INK) -> None:
        self.figure.text(x, y, text, ha="left", va=va, fontsize=7, color=color, parse_math=False)


def _by_weight(geometry: Any, number: Any, colours: Colours | None) -> list[int]:
    """Return the order in which features get their labels: by value, else by size, ties as the rows stand."""
    import numpy
    import shapely

    weight = shapely.area(geometry) + 1e-9 * shapely.length(geometry)
    if colours is not None and colours.numbers is not None:
        weight = numpy.nan_to_num(colours.numbers[number], nan=-numpy.inf)
    return [int(place) for place in numpy.argsort(-weight, kind="stable")]
