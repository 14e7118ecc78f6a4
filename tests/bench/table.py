"""The tables of docs/performance.md, from what --json FILE of compare, statements and versions has written.

All files of compare make one set of tables: where pgrab is not the fastest, the targets, the figures.  A figure of several rounds is the
median.
"""
import json
from pathlib import Path

from compare import COLUMNS, summary

HEADS = {"rate": "/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "clear_ms": "cleared ms", "client_us": "node us", "server_us": "server us",
         "wal_b": "WAL B", "images_b": "of it images", "commits": "commits", "statements": "statements"}
OTHERS = ("graphile-worker", "graphile-plain", "pg-boss", "dbos", "duroxide")


def add_options(command, natural):
    command.add_argument("files", nargs="+", metavar="FILE", help="what --json of compare, statements or versions has written")


def row(cells):
    return "| " + " | ".join(cells) + " |"


def markdown(head, rows, texts=1):
    """The first so many columns are text, the others numbers; what should be, too."""
    return [row(head), row(["---" if i < texts or name == "should be" else "--:" for i, name in enumerate(head)]), *map(row, rows)]


def text(figures, key, digits):
    if key not in figures:
        return ""
    return f"{figures[key]:,.{digits}f}"


def slower(merged):
    """Where another is faster than pgrab: a rate that is lower, a time that is longer."""
    for name, entry in merged.items():
        for measure, a, b, value in entry["ratios"]:
            if b in OTHERS and (value < 1 if measure == "rate" else measure.endswith("_ms") and value > 1):
                digits = {key: digits for key, _, digits in COLUMNS}[measure]
                yield [name, a, b, HEADS[measure], *(text(entry["medians"][side], measure, digits) for side in (a, b)), f"{value:.2f}"]


def comparison(reports):
    merged, rounds = {}, {}
    for report in reports:
        merged |= report["workloads"]
        rounds |= {name: report["runs"] for name in report["workloads"]}
    columns = [column for column in COLUMNS if column[0] in HEADS]
    figures = [[name, side, str(rounds[name]), *(text(figures, key, digits) for key, _, digits in columns)]
               for name, entry in merged.items() for side, figures in entry["medians"].items()]
    return [*markdown(["where", "side", "beside", "of", "is", "the other", "ratio"], slower(merged), 4), "",
            *markdown(["", "of", "is", "should be"], [[name, HEADS.get(of, of), value, verdict] for name, of, value, verdict in summary(merged)], 2),
            "", *markdown(["workload", "side", "rounds", *(HEADS[key] for key, _, _ in columns)], figures, 2)]


def tables(reports):
    """One after the other, with an empty line between."""
    compared = [report for report in reports if report["benchmark"] == "compare"]
    lines = comparison(compared) if compared else []
    for report in reports:
        if report not in compared:
            lines += [*([""] if lines else []), *markdown(report["head"], report["rows"], 2 if report["benchmark"] == "versions" else 1)]
    return lines


def run(args, progress):
    print("\n".join(tables([json.loads(Path(path).read_text()) for path in args.files])))
    return 0
