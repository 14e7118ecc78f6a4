"""What the samples of a soak say: does anything grow, is anything lost or doubled; and their picture.

What grows is seen in the slope of a series after the warm-up, which is its first third: the median of the slopes between all pairs of
samples, so that a restart, a vacuum or a fault does not count.  The bound is on the growth over all that time, however long it was, so
a longer soak allows less an hour.
"""
import statistics

MB = 1 << 20
BOUNDS = {  # kind of series -> (share of its median, and so much beside it)
    "memory": (0.05, 2 * MB),
    "descriptors": (0, 4),
    "threads": (0, 2),
    "size": (0.10, MB),
    "dead": (0.20, 5000),
    "late": (0.20, 0.02),
    "backlog": (0.20, 100),
}
LEAST = 40      # samples after the warm-up; with fewer, growth is not judged
COLOURS = ["#1f5fa8", "#c8641e", "#2e8b57", "#8e44ad", "#a33", "#777", "#b8860b", "#008b8b"]


def series(samples):
    """(kind, name) -> [(at, value)]: what is measured of whoever is never restarted, and of the database."""
    found = {}
    for sample in samples:
        for kind, values in sample["values"].items():
            for name, value in values.items():
                found.setdefault((kind, name), []).append((sample["at"], value))
    return found


def slope(points):
    """A second, by Theil and Sen, of 300 points at most."""
    points = points[::max(1, len(points) // 300)]
    return statistics.median((y - v) / (x - u) for i, (x, y) in enumerate(points) for u, v in points[:i])


def growth(samples):
    """A row for each series: kind, name, median, growth after the warm-up, bound."""
    rows = []
    if not samples:
        return rows
    begin, end = samples[0]["at"], samples[-1]["at"]
    for (kind, name), points in sorted(series(samples).items()):
        points = [p for p in points if p[0] >= begin + (end - begin) / 3]
        if len(points) < LEAST:
            continue
        middle = statistics.median(value for _, value in points)
        share, beside = BOUNDS[kind]
        rows.append({"kind": kind, "name": name, "median": middle, "growth": slope(points) * (points[-1][0] - points[0][0]),
                     "bound": share * middle + beside})
    return rows


def lost_and_doubled(inserted, ended, left, effects, ticks):
    """inserted, ended: name -> tasks.  left: names that have no end.  effects: (successes of sql, rows it wrote).
    ticks: (name, fires that succeeded, fires there were by the clock, fires that succeeded twice)."""
    faults = [f"{name}: inserted {n}, ended {ended.get(name, 0)}" for name, n in sorted(inserted.items()) if n != ended.get(name, 0)]
    faults += [f"{name}: {n} ended that nobody inserted" for name, n in sorted(ended.items()) if name not in inserted]
    faults += [f"{name}: has no end ({n})" for name, n in sorted(left.items())]
    if effects[0] != effects[1]:
        faults.append(f"sql: {effects[0]} successes, {effects[1]} effects")
    for name, succeeded, planned, twice in ticks:
        if succeeded != planned or twice:
            faults.append(f"{name}: {planned} times of the schedule, {succeeded} of them succeeded, {twice} twice")
    return faults


def verdict(samples, counts):
    """(faults, rows of growth)."""
    rows = growth(samples)
    faults = lost_and_doubled(**counts)
    faults += [f"{r['kind']} of {r['name']} grows: {r['growth']:.4g} beside a median of {r['median']:.4g}, more than {r['bound']:.4g}"
               for r in rows if r["growth"] > r["bound"]]
    return faults, rows


# ------------------------------------------------------------------------------------------------------ the picture

PANELS = [("memory", "memory of n2, its keeper and handlers, MB", MB), ("descriptors", "descriptors and threads of n2", 1),
          ("size", "tables and indexes, MB", MB), ("dead", "dead rows, thousands", 1000), ("late", "lateness, s", 1),
          ("backlog", "due and not started", 1)]
WIDTH, HEIGHT, LEFT, GAP = 760, 110, 60, 46


def ticks_of(top):
    step = 10 ** len(str(int(max(top, 1)))) / 10
    step = step / 5 if top / step < 2 else step / 2 if top / step < 5 else step
    return [step * i for i in range(int(top / step) + 1)]


def panel(y, title, lines, begin, end, scale):
    """One panel: the seven series that reach highest."""
    lines = sorted(lines, key=lambda line: -max(v for _, v in line[1]))[:7]
    top = max([v / scale for _, points in lines for _, v in points] + [0.001]) * 1.05

    def place(at, value):
        return f"{LEFT + (at - begin) / (end - begin) * WIDTH:.1f},{y + HEIGHT - value / scale / top * HEIGHT:.1f}"

    out = [f'<text x="{LEFT}" y="{y - 6}" font-weight="bold">{title}</text>',
           f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    for value in ticks_of(top) if top > 1 else [0, top / 1.05]:
        at = y + HEIGHT - value / top * HEIGHT
        out.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for i, (name, points) in enumerate(lines):
        points = points[::max(1, len(points) // WIDTH)]
        out.append(f'<polyline fill="none" stroke="{COLOURS[i]}" points="{" ".join(place(*p) for p in points)}"/>')
        out.append(f'<text x="{LEFT + WIDTH + 8}" y="{y + 12 + 15 * i}" fill="{COLOURS[i]}">{name}</text>')
    return out


def plot(samples, faults, title):
    """An SVG.  faults: (at, what); each is a line through all panels, those of the server darker."""
    begin, end = samples[0]["at"], samples[-1]["at"]
    found = series(samples)
    height = 60 + len(PANELS) * (HEIGHT + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 190}" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#fff"/>', f'<text x="{LEFT}" y="20" font-size="14">{title}</text>']
    for at, what in faults:
        x = LEFT + (at - begin) / (end - begin) * WIDTH
        if LEFT <= x <= LEFT + WIDTH:
            out.append(f'<path d="M{x:.1f} 46V{height - GAP + 8}" stroke="{"#b99" if what.startswith("server") else "#e4e4e4"}"/>')
    for n, (kind, text, scale) in enumerate(PANELS):
        lines = [(f"{name}: {k}" if k == "threads" else name, points) for (k, name), points in found.items()
                 if k == kind or (kind == "descriptors" and k == "threads")]
        if lines:
            out += panel(56 + n * (HEIGHT + GAP), text, lines, begin, end, scale)
    hours = (end - begin) / 3600
    out += [f'<text x="{LEFT + WIDTH * i / 6:.0f}" y="{height - 14}" text-anchor="middle">{hours * 10 * i:.0f} min</text>' for i in range(7)]
    return "\n".join(out + ["</svg>", ""])
