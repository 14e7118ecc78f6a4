"""pgrab beside graphile-worker, pg-boss, DBOS, duroxide and a bare libpq program, workload by workload, on one server.

Everything is installed and started by itself.  The sides of a workload take turns, round after round; what is printed are medians,
and a ratio is the median of the ratios of neighbouring rounds.  Completions are counted in the database.

us: microseconds of CPU per task, of the contender's processes and of the server.  WAL B: bytes of log per task, and of it full-page
images; every round begins at a checkpoint.  ms: milliseconds.
"""
import json
import statistics
from pathlib import Path

from arena import Arena
from contenders import KINDS
from process import Failed
from report import machine, print_machine, print_table
from targets import BOUNDS, verdict
from workloads import WORKLOADS, LeftOut, Sizes

BRIEF_SCALE = 0.4  # five rounds in less than half an hour

COLUMNS = [("rate", "a second", 0), ("min_ms", "min ms", 2), ("p50_ms", "p50 ms", 2), ("p99_ms", "p99 ms", 2), ("max_ms", "max ms", 1),
           ("clear_ms", "cleared ms", 0), ("client_us", "client us", 1), ("server_us", "server us", 1), ("wal_b", "WAL B", 0),
           ("images_b", "images B", 0), ("commits", "commits", 4), ("statements", "statements", 4)]


def add_options(command, natural):
    command.add_argument("workload", nargs="*", metavar="WORKLOAD", help="which ones (default: all): " + ", ".join(w.name for w in WORKLOADS))
    command.add_argument("--runs", type=natural, default=5, metavar="N", help="rounds of each side (default 5)")
    command.add_argument("--scale", type=float, default=1.0, metavar="X", help="sizes are multiplied with this (default 1)")
    command.add_argument("--tiny", action="store_true", help="every workload once, as small as can be: does it still work?")
    command.add_argument("--brief", action="store_true", help="the workloads that have a target, without those that fill in millions of "
                         f"rows, with short rounds (--scale {BRIEF_SCALE:g}): half an hour on a quiet machine")
    command.add_argument("--without", action="append", default=[], metavar="NAME", help="leave out a contender or a workload; may be repeated")


def chosen(args):
    names = [workload.name for workload in WORKLOADS]
    unknown = sorted(set(args.workload) - set(names))
    if unknown:
        raise Failed(f"there is no workload {', '.join(unknown)}; there are: {', '.join(names)}")
    if args.brief:
        args.scale, named = BRIEF_SCALE, {name for name, *_ in BOUNDS}
        names = [workload.name for workload in WORKLOADS if workload.name in named and not workload.long]
    return [w for w in WORKLOADS if w.name in (args.workload or names) and w.name not in args.without]


def in_turn(workload, sides, args, progress):
    """label -> the figures of its rounds, in order."""
    results = {}
    for number in range(1, args.runs + 1):
        for label, play in sides.items():
            progress.show(f"{workload.name}, {label}: round {number} of {args.runs}")
            results.setdefault(label, []).append(play())
            figure = next((f"{results[label][-1][key]:.{digits}f} {title}" for key, title, digits in COLUMNS
                           if key in results[label][-1]), "")
            progress.note(f"{workload.name}, {label}: round {number} of {args.runs}: {figure}")
    return results


def measured(workload, arena, args, progress):
    who = [name for name in workload.who if name not in args.without]
    with workload.sides(arena, Sizes(args.scale, args.tiny), who) as sides:
        return in_turn(workload, sides, args, progress)


def medians(results):
    return {label: {key: statistics.median(r[key] for r in figures) for key in figures[0]} for label, figures in results.items()}


def ratios(workload, results):
    """(measure, side, to which side) -> the median of the ratios round by round: what the machine did to one, it did to the next."""
    return {(measure, a, b): statistics.median(x[measure] / y[measure] for x, y in zip(results[a], results[b]))
            for measure in workload.measures for a, b in workload.pairs if a in results and b in results and results[b][0][measure]}


def show(workload, found, scale):
    print(f"\n{workload.name}: {workload.title}{'' if scale == 1 else f'; sizes times {scale:g}' if scale else '; tiny'}\n")
    columns = [column for column in COLUMNS if any(column[0] in figures for figures in found.values())]
    print_table(["", *(title for _, title, _ in columns)],
                [[label, *(f"{figures[key]:.{digits}f}" if key in figures else "" for key, _, digits in columns)]
                 for label, figures in found.items()])


def summary(report):
    """The table of ratios, and the figures that have a bound."""
    rows = []
    for name, entry in report.items():
        for measure, a, b, value in entry["ratios"]:
            rows.append([f"{name}: {a} / {b}", measure, f"{value:.2f}", verdict((name, measure, a, b), value)])
        for key in BOUNDS:
            if key[0] == name and len(key) == 3 and key[2] in entry["medians"]:
                value = entry["medians"][key[2]][key[1]]
                rows.append([f"{name}: {key[2]}", key[1], f"{value:,.0f}" if value >= 100 else f"{value:.2f}", verdict(key, value)])
    return rows


def save(path, args, about, report):
    Path(path).write_text(json.dumps({"benchmark": "compare", "runs": args.runs, "scale": args.scale, "tiny": args.tiny,
                                      "machine": about, "workloads": report}, indent=1) + "\n")


def play_all(arena, args, progress, workloads, about):
    """What was found, and which workloads failed: the others of a long run are not lost with them."""
    report, failed = {}, []
    for workload in workloads:
        try:
            results = measured(workload, arena, args, progress)
        except LeftOut as e:
            progress.note(f"bench: {workload.name} is left out: {e}")
            continue
        except (Failed, AssertionError) as e:
            progress.note(f"bench: {workload.name}: {e}")
            failed.append(workload.name)
            continue
        found = medians(results)
        report[workload.name] = {"title": workload.title, "rounds": results, "medians": found,
                                 "ratios": [[*key, value] for key, value in ratios(workload, results).items()]}
        show(workload, found, 0 if args.tiny else args.scale)
        if args.json:
            save(args.json, args, about, report)
    return report, failed


def run(args, progress):
    if args.tiny:
        args.runs = 1
    args.without += [name for name, kind in KINDS.items() if not kind.here]
    workloads = chosen(args)
    names = sorted({name for workload in workloads for name in workload.who} - set(args.without))
    with Arena(args, progress, names) as arena:
        about = machine(arena.server)
        about["settings"] |= arena.settings
        report, failed = play_all(arena, args, progress, workloads, about)
        progress.end()
    if not args.tiny:
        print(f"\nratios, medians of {args.runs}\n")
        print_table(["", "of", "is", "should be"], summary(report))
        print()
        print_machine(about)
    if failed:
        raise Failed(f"without a result: {', '.join(failed)}")
    return 0
