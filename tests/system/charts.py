"""Charts below each other over the same seconds, as one SVG. Looks like the pictures of `posthorn simulate`."""

import dataclasses
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 960, 70, 170, 48, 150, 42  # RIGHT: for the legend
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#17becf", "#bcbd22", "#e377c2", "#7f7f7f", "#aec7e8", "#ffbb78", "#98df8a")
TOTAL, LIMIT = "#222222", "#d62728"


@dataclasses.dataclass
class Line:
    """One value for each second; None where there is nothing to draw."""
    name: str
    colour: str
    values: list
    dashed: bool = False


@dataclasses.dataclass
class Span:
    """Seconds [start, end) that are shaded in all charts."""
    start: float
    end: float
    colour: str


def rounded_up(most):
    """The least of 1, 2, 4 and 5 times a power of ten that is not below `most`."""
    if most <= 0:
        return 1
    power = 10 ** math.floor(math.log10(most))
    return next((step * power for step in (1, 2, 4, 5) if step * power >= most), 10 * power)


class Picture:
    def __init__(self, title, panels, seconds, spans=(), shaded=""):
        """`panels`: (title, lines); the first one has the legend. `shaded`: what the spans are."""
        self.panels, self.seconds, self.spans, self.shaded = panels, max(1, seconds), spans, shaded
        self.parts = []
        self.text(LEFT, 18, title, 'font-size="15"')

    def x(self, second):
        return LEFT + second / self.seconds * (WIDTH - LEFT - RIGHT)

    def text(self, x, y, text, style=""):
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(text)}</text>')

    def axes(self, top, scale):
        bottom = top + PANEL
        for part in (0, 0.5, 1):
            y = bottom - part * PANEL
            self.parts.append(f'<path d="M{LEFT} {y:.0f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
            self.text(LEFT - 6, y + 4, f"{scale * part:,g}".replace(",", " "), 'text-anchor="end"')
        step = max(1, rounded_up(self.seconds / 10))
        for second in range(0, self.seconds + 1, int(step)):
            self.text(self.x(second), bottom + 14, f"{second} s", 'text-anchor="middle" fill="#555"')

    def line(self, line, top, scale):
        """A gap in the values is a gap in the line."""
        runs, run = [], []
        for second, value in [*enumerate(line.values), (len(line.values), None)]:
            if value is not None:
                run.append(f"{self.x(second + 0.5):.1f},{top + PANEL - value / scale * PANEL:.1f}")
            elif run:
                runs.append(run)
                run = []
        dashes = ' stroke-dasharray="6 3"' if line.dashed else ""
        for run in runs:
            points = run if len(run) > 1 else run * 2  # a single second is a dot
            self.parts.append(f'<polyline fill="none" stroke="{line.colour}" stroke-width="1.4" stroke-linecap="round"{dashes} '
                              f'points="{" ".join(points)}"/>')

    def panel(self, number, title, lines):
        top = TOP + number * (PANEL + GAP)
        # Lines may stand out a little, so that a sum of 1001 does not halve the picture.
        scale = rounded_up(max((value for line in lines for value in line.values if value is not None), default=0) / 1.05)
        self.text(LEFT, top - 6, title, 'font-weight="bold"')
        for span in self.spans:
            left, right = self.x(max(0, span.start)), self.x(min(self.seconds, span.end))
            self.parts.append(f'<rect x="{left:.1f}" y="{top}" width="{max(0.0, right - left):.1f}" height="{PANEL}" fill="{span.colour}" '
                              'fill-opacity="0.13"/>')
        self.axes(top, scale)
        for line in lines:
            self.line(line, top, scale)
        legend = [(line.name, line.colour) for line in lines] + [(f"shaded: {self.shaded}", "#777")] * bool(self.spans)
        for row, (name, colour) in enumerate(legend if number == 0 else ()):
            self.text(WIDTH - RIGHT + 12, top + 10 + 13 * row, name, f'fill="{colour}"')

    def draw(self):
        for number, (title, lines) in enumerate(self.panels):
            self.panel(number, title, lines)
        height = TOP + len(self.panels) * (PANEL + GAP)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">'
        return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *self.parts, "</svg>", ""])
