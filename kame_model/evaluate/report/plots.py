"""Shared code of the plots: matplotlib without a display, fixed colours, and the same bytes for the same rows."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from data_schemas.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""The colours of Okabe and Ito, which colour-blind readers can distinguish."""


def create_figure(width: float, height: float) -> "Figure":
    """Creates an empty figure; the size is in inches.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # no pyplot: it keeps figures and wants a display
    except ModuleNotFoundError as error:
        raise ConfigError("Plots need matplotlib.", "Install it: pip install 'kame-pipeline[report]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def render_png(figure: "Figure") -> bytes:
    """Renders the figure as a PNG file."""
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=110, metadata={"Software": None})
    return sink.getvalue()


def compute_error_bars(
    values: Sequence[float], intervals: Sequence[Sequence[float | None] | None]
) -> tuple[list[float], list[float]]:
    """Returns the distances from values to interval bounds, for `errorbar`; 0 if there is no interval."""
    below, above = [], []
    for value, interval in zip(values, intervals, strict=True):
        low, high = interval or (None, None)
        below.append(0.0 if low is None else max(0.0, value - low))
        above.append(0.0 if high is None else max(0.0, high - value))
    return below, above
