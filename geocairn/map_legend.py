"""The colours of a map by a column's values, and the legend that explains them.

Numbers go on a scale from pale to dark in one family of colours; anything else gets up to eight colours, chosen by
Okabe and Ito to be told apart without red and green: the most frequent values have one each, the rest share one. What
always holds: each row has a colour, a missing value has one of its own, and the legend names every colour that is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from geocairn.map_labels import text_of

MISSING = "#d4d4d4"
OTHER = "#777777"
PALETTE = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#4d4d4d")
_INK = "#222222"
_SCALE = ("#fff7dc", "#fee08f", "#fdb94f", "#ee8422", "#c2500b", "#7a2a05")


@dataclass(frozen=True)
class Colours:
    """The colour of each row, and what the colours stand for."""

    name: str
    shades: Any
    """One RGBA colour a row, an array."""
    numbers: Any = None
    """The values where they are numbers on a scale: floats, NaN where missing."""
    whole: bool = False
    """Whether all numbers are whole."""
    classes: Sequence[tuple[str, str]] = ()
    """Text and colour of each class that is not on a scale."""

    def explain(self, figure: Any, left: float, top: float, inches: tuple[float, float]) -> float:
        """Draw the legend with its upper left corner at (left, top) of the figure; return where it ends."""
        width, height = inches
        figure.text(left, top, self.name, ha="left", va="top", fontsize=8.5, color=_INK, parse_math=False)
        top -= 0.22 / height
        if self.numbers is not None and self._limits() is not None:
            tall = min(2.2, max(0.8, 0.45 * height)) / height
            self._bar(figure, (left, top - tall, 0.16 / width, tall))
            top -= tall + 0.14 / height
        return self._patches(figure, left, top, inches)

    def _limits(self) -> tuple[float, float] | None:
        import numpy

        known = self.numbers[numpy.isfinite(self.numbers)]
        return (float(known.min()), float(known.max())) if len(known) and known.min() < known.max() else None

    def _bar(self, figure: Any, box: tuple[float, float, float, float]) -> None:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        low, high = self._limits() or (0.0, 1.0)
        axes = figure.add_axes(box, label="legend")
        bar = figure.colorbar(ScalarMappable(Normalize(low, high), scale_colours()), cax=axes)
        bar.locator = MaxNLocator(nbins=5, integer=self.whole)
        bar.formatter = FuncFormatter(lambda value, _: number_text(value, (high - low) / 5))
        bar.update_ticks()
        bar.outline.set(linewidth=0.5, edgecolor=_INK)
        axes.tick_params(labelsize=7.5, colors=_INK, length=2.5, width=0.5)

    def _patches(self, figure: Any, left: float, top: float, inches: tuple[float, float]) -> float:
        from matplotlib.patches import Patch

        if not self.classes:
            return top
        handles = [Patch(facecolor=colour, edgecolor="#5b5b5b", linewidth=0.5) for _, colour in self.classes]
        texts = [text if len(text) <= 20 else text[:19] + "…" for text, _ in self.classes]
        legend = figure.legend(
            handles,
            texts,
            loc="upper left",
            bbox_to_anchor=(left - 0.06 / inches[0], top),
            frameon=False,
            fontsize=8,
            labelcolor=_INK,
            borderaxespad=0.0,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        return top - (0.06 + 0.175 * len(handles)) / inches[1]


def number_text(value: float, step: float) -> str:
    """Return a number of a scale, with the decimals that tell values `step` apart, and powers of ten only at need."""
    if value == 0:
        return "0"
    if not 1e-4 <= step < 1e9:
        return f"{value:.3g}"
    return f"{value:,.{max(0, math.ceil(-math.log10(step)))}f}"


def scale_colours() -> Any:
    """Return the colour map of numbers: pale to dark, falling in lightness all the way."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("geocairn", _SCALE)


def colours_of(column: Any, name: str) -> Colours:
    """Return the colours of a column (a Series, at least one row)."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        return _on_scale(column, name)
    return _in_classes(column, name)


def _on_scale(column: Any, name: str) -> Colours:
    import numpy
    from matplotlib.colors import to_rgba
    from pandas.api.types import is_integer_dtype

    numbers = column.to_numpy(dtype="float64", na_value=numpy.nan)
    numbers = numpy.where(numpy.isfinite(numbers), numbers, numpy.nan)
    known = numpy.isfinite(numbers)
    shades = numpy.empty((len(numbers), 4))
    shades[~known] = to_rgba(MISSING)
    classes: list[tuple[str, str]] = []
    if known.any():
        low, high = numbers[known].min(), numbers[known].max()
        if low < high:
            shades[known] = scale_colours()((numbers[known] - low) / (high - low))
        else:
            shades[known] = to_rgba(_SCALE[2])
            classes.append((text_of(float(low)), _SCALE[2]))
    if not known.all():
        classes.append(("no value", MISSING))
    return Colours(name, shades, numbers, bool(is_integer_dtype(column.dtype)), tuple(classes))


def _in_classes(column: Any, name: str) -> Colours:
    import numpy
    from matplotlib.colors import to_rgba

    texts = [text_of(value) for value in column]
    counts: dict[str, int] = {}
    for text in texts:
        if text:
            counts[text] = counts.get(text, 0) + 1
    # The most frequent get a colour; the legend names them in the order of the categories, or of the alphabet.
    frequent = sorted(counts, key=lambda text: (-counts[text], text))
    if len(frequent) > len(PALETTE):
        frequent = frequent[: len(PALETTE) - 1]
    categories = getattr(column.dtype, "categories", None)
    ordered = sorted(frequent) if categories is None else [t for t in map(text_of, categories) if t in frequent]
    colour = dict(zip(ordered, PALETTE, strict=False))
    chosen = [MISSING if not text else colour.get(text, OTHER) for text in texts]
    table = {one: to_rgba(one) for one in set(chosen)}
    shades = numpy.array([table[one] for one in chosen])
    classes = list(colour.items())
    rest = len(counts) - len(colour)
    if rest:
        classes.append((f"{rest:,} others", OTHER))
    if MISSING in table:
        classes.append(("no value", MISSING))
    return Colours(name, shades, classes=tuple(classes))
