"""How does a table look as a picture? Bars as SVG, written by hand: no library that draws is needed for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 760, 150, 110
BAR, GAP, TOP, BOTTOM = 18, 8, 62, 34
OWN, OTHER, LIMIT, TEXT, FAINT = "#0a6c74", "#9aa7b0", "#c2571a", "#20262b", "#66707a"
_FONT = "font-family='system-ui, sans-serif'"


def bar_chart(found: dict[str, Any]) -> str:
    """Megabytes a second of each contender, longest first, with a line at the sequential read."""
    rows = found["summary"]["rows"]
    line = next((row["rate"] for row in rows if row["contender"] == "sequential"), None)
    right = [row for row in rows if not row["limit"] and row["rate"] is not None]
    wrong = [row for row in rows if not row["limit"] and row["rate"] is None]
    bars = [*sorted(right, key=lambda row: -float(row["rate"])), *wrong]
    most = max([row["rate"] for row in right] + ([line] if line else []), default=1.0)
    scale = (WIDTH - LEFT - RIGHT) / most
    height = TOP + len(bars) * (BAR + GAP) + BOTTOM
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' "
        f"role='img' aria-label='{escape(_title(found), _QUOTES)}'>",
        "<rect width='100%' height='100%' fill='white'/>",
        _text(16, 24, _title(found), size=14, weight="600"),
    ]
    for number, row in enumerate(bars):
        parts += _bar(row, TOP + number * (BAR + GAP), scale)
    if line is not None:
        parts += _limit(line, LEFT + line * scale, height - BOTTOM)
    parts.append(_text(LEFT, height - 12, "MB/s from open to last batch", size=11, fill=FAINT))
    return "\n".join([*parts, "</svg>"]) + "\n"


_QUOTES = {"'": "&apos;", '"': "&quot;"}


def _title(found: dict[str, Any]) -> str:
    data = found["dataset"]
    size = data["nbytes"] / max(data["samples"], 1)
    return f"{found['condition']}: {data['samples']:,} samples of {size:,.0f} bytes, {data['format']}"


def _bar(row: dict[str, Any], y: float, scale: float) -> Sequence[str]:
    middle = y + BAR * 0.72
    name = _text(LEFT - 8, middle, row["contender"], anchor="end")
    if row["rate"] is None:
        return [name, _text(LEFT, middle, row["verdict"].partition(":")[0], fill=LIMIT)]
    length = max(row["rate"] * scale, 1.0)
    colour = OWN if row["contender"] == "headrace" else OTHER
    ratio = "" if row["to_sequential"] is None else f"  ({row['to_sequential']:.2f})"
    return [
        name,
        f"<rect x='{LEFT}' y='{y}' width='{length:.1f}' height='{BAR}' rx='2' fill='{colour}'/>",
        _text(LEFT + length + 6, middle, f"{row['rate'] / 1e6:,.0f}{ratio}"),
    ]


def _limit(rate: float, x: float, bottom: float) -> Sequence[str]:
    return [
        f"<line x1='{x:.1f}' y1='{TOP - 10}' x2='{x:.1f}' y2='{bottom}' stroke='{LIMIT}' stroke-dasharray='4 3'/>",
        _text(x, TOP - 16, f"sequential read {rate / 1e6:,.0f}", anchor="end", size=11, fill=LIMIT),
    ]


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, fill: str = TEXT, weight: str = "400"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {_FONT} font-size='{size}' font-weight='{weight}' fill='{fill}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )
