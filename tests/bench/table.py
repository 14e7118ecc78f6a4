"""The tables of docs/performance.md, from what `compare --json FILE` has written; several files make one pair of tables.

A figure of several rounds is the median.
"""
import json
from pathlib import Path

from compare import COLUMNS, summary

HEADS = {"rate": "/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "clear_ms": "cleared ms", "client_us": "node us", "server_us": "server us",
         "wal_b": "WAL B", "images_b": "of it images", "commits": "commits", "statements": "statements"}


def add_options(command, natural):
    command.add_argument("files", nargs="+", metavar="FILE", help="what compare --json has written")


def row(cells):
    return "| " + " | ".join(cells) + " |"


def text(figures, key, digits):
    if key not in figures:
        return ""
    return f"{figures[key]:,.{digits}f}"


def markdown(reports):
    merged, rounds = {}, {}
    for report in reports:
        merged |= report["workloads"]
        rounds |= {name: report["runs"] for name in report["workloads"]}
    lines = [row(["", "of", "is", "should be"]), row(["---", "---", "--:", "---"])]
    lines += [row([name, HEADS.get(measure, measure), value, verdict]) for name, measure, value, verdict in summary(merged)]
    columns = [column for column in COLUMNS if column[0] in HEADS]
    lines += ["", row(["workload", "side", "rounds", *(HEADS[key] for key, _, _ in columns)]),
              row(["---", "---", "--:", *("--:" for _ in columns)])]
    for name, entry in merged.items():
        lines += [row([name, side, str(rounds[name]), *(text(figures, key, digits) for key, _, digits in columns)])
                  for side, figures in entry["medians"].items()]
    return lines


def run(args, progress):
    print("\n".join(markdown([json.loads(Path(path).read_text()) for path in args.files])))
    return 0
