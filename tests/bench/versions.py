"""The same workloads on two versions of PostgreSQL: what the server does for a task on each, and the ratio.

Both servers are those of scripts/pg-versions, built alike, and run all the time; the turns of one workload alternate between them.  A ratio
is the median of the ratios of neighbouring turns.  What single statements cost, whatever else the machine does: scripts/bench statements.
"""
import contextlib
import json
import statistics
import subprocess
from pathlib import Path

import compare
from arena import Arena
from process import Failed
from report import ROOT, machine, print_machine, print_table
from workloads import Sizes

OURS = ("pgrab", "pgrab-js", "pgrab-python")
# Those of which the server's time is a figure.
USUAL = ("drain", "drain-args", "insert", "insert-8", "sql", "sql-group", "shell", "http", "handlers", "recurring-burst", "chain")


def majors(text):
    return text.split(",")


def add_options(command, natural):
    compare.add_options(command, natural)
    command.add_argument("--postgres", type=majors, default=["15", "18"], metavar="MAJOR,MAJOR", help="which two (default 15,18)")


def server_folder(major):
    """Of its programs; it is fetched when it is not there."""
    done = subprocess.run([ROOT / "scripts/pg-versions", major], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"there is no server of version {major} (see above)")
    return done.stdout.strip()


def play(workload, arenas, args, progress):
    """(side, us on each version, ratio of the last to the first)"""
    who = [name for name in workload.who if name in OURS and name not in args.without]
    with contextlib.ExitStack() as stack:
        each = {major: stack.enter_context(workload.sides(arena, Sizes(args.scale, args.tiny), who)) for major, arena in arenas.items()}
        labels = list(next(iter(each.values())))
        found = compare.in_turn(workload, {(f"{label}, PostgreSQL {major}"): sides[label] for label in labels for major, sides in each.items()},
                                args, progress)
    for label in labels:
        us = [[r["server_us"] for r in found[f"{label}, PostgreSQL {major}"]] for major in arenas]
        yield label, *map(statistics.median, us), statistics.median(b / a for a, b in zip(us[0], us[-1]))


def run(args, progress):
    if args.tiny:
        args.runs = 1
    args.workload = args.workload or list(USUAL)
    workloads = compare.chosen(args)
    names = sorted({name for workload in workloads for name in workload.who if name in OURS} - set(args.without))
    rows = []
    with contextlib.ExitStack() as stack:
        arenas = {major: stack.enter_context(Arena(args, progress, names, pg_bin=server_folder(major))) for major in args.postgres}
        about = machine(next(iter(arenas.values())).server)
        for workload in workloads:
            rows += [[workload.name, label, *(f"{v:,.1f}" for v in us), f"{ratio:.2f}"]
                     for label, *us, ratio in play(workload, arenas, args, progress)]
    progress.end()
    head = ["workload", "side", *(f"server us on {major}" for major in args.postgres), "ratio"]
    print_table(head, rows)
    print()
    print_machine(about)
    if args.json:
        Path(args.json).write_text(json.dumps({"benchmark": "versions", "runs": args.runs, "scale": args.scale, "machine": about,
                                               "head": head, "rows": rows}, indent=1) + "\n")
    return 0
