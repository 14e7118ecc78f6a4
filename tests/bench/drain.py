"""How fast preloaded tasks that do nothing are drained, by nodes and by the floor in turn.

Each round begins with empty tables, tasks inserted by one statement, a vacuum and a checkpoint.  The rate is what the
history says: from the first start to the last finish.  A round in which a task is lost, or run twice, ends the benchmark.

The floor runs the node's SQL with no scheduler.  It gets two connections per node, because a node has two busy ones.
"""
import json
import statistics
import time

from process import Failed
from report import machine, print_machine, print_table
from stage import Reading

POLL_S = 0.02


def add_options(command, natural):
    command.add_argument("--tasks", type=natural, default=100_000, metavar="N", help="preloaded tasks (default 100000)")
    command.add_argument("--nodes", type=natural, default=2, metavar="N", help="nodes side by side (default 2)")
    command.add_argument("--connections", type=natural, metavar="N", help="connections of the floor (default: 2 per node)")
    command.add_argument("--rounds", type=natural, default=3, metavar="N", help="rounds of each (default 3)")
    command.add_argument("--timeout", type=natural, default=300, metavar="S", help="longest time of one round (default 300 s)")


def preload(st, tasks):
    st.reset()
    st.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, %s)", tasks)
    st.settle()


def wait_empty(st, processes, began, args, say):
    """Returns when pgrab.task is empty, and how many queries that took.  The costly question is asked only when the history stands still."""
    queries, size, before = 0, 0, -1
    while True:
        time.sleep(POLL_S)  # check-words: the pace of the measurement, waits for nothing
        size, before = st.history_bytes(), size
        queries += 1
        say(time.time() - began, size)
        if size == before and size > 0:
            queries += 1
            if not st.one("select exists (select from pgrab.task)"):
                return time.time(), queries
        for process in processes:
            if process.poll() not in (None, 0):
                process.must_run()
        if time.time() - began > args.timeout:
            raise Failed(f"{st.one('select count(*) from pgrab.task')} tasks are left after {args.timeout} s:\n{processes[0].log()}")


def check_exactly_once(st, tasks):
    runs, distinct, good = st.query("select count(*), count(distinct task_id), count(*) filter (where outcome = 'succeeded') from pgrab.run")[0]
    left = st.one("select count(*) from pgrab.task")
    if (runs, distinct, good, left) != (tasks, tasks, tasks, 0):
        raise Failed(f"not exactly once: {tasks} tasks gave {runs} runs of {distinct} tasks, {good} succeeded, {left} tasks are left")


def one_round(st, args, who, say):
    preload(st, args.tasks)
    reading = Reading(st)
    if who == "node":
        processes = [st.start_node(f"bench{i + 1}") for i in range(args.nodes)]
    else:
        processes = [st.start_floor(args.connections)]
    try:
        empty, queries = wait_empty(st, processes, reading.began, args, say)
        for process in processes:
            if who == "node":
                process.must_run()
                process.proc.terminate()
        for process in processes:
            process.wait(40)
    finally:
        for process in processes:
            process.kill()
    check_exactly_once(st, args.tasks)
    seconds = float(st.one("select extract(epoch from max(finished_at) - min(started_at)) from pgrab.run"))
    result = {"who": who, "rate": args.tasks / seconds, "rate_from_start": args.tasks / (empty - reading.began),
              "client_cpu_us": sum(p.cpu_s for p in processes) * 1e6 / args.tasks,
              **reading.per_task(args.tasks, queries + 5)}
    result["history_bytes"] = st.history_bytes()
    return result


def rounds(st, args, progress):
    results, expected = [], 130 * args.tasks
    for number in range(1, args.rounds + 1):
        for who in ("node", "floor"):
            label = f"round {number} of {args.rounds}, {who}"
            progress.show(f"{label}: loading {args.tasks} tasks")
            result = one_round(st, args, who,
                               lambda s, size, label=label, of=expected: progress.show(f"{label}: {s:.1f} s, {min(99, 100 * size // of)} %"))
            expected = result.pop("history_bytes")
            results.append(result)
            progress.note(f"{label}: {result['rate']:.0f} tasks/s")
    return results


COLUMNS = [("rate", "tasks/s", 0), ("rate_from_start", "from start", 0), ("client_cpu_us", "client us", 2), ("server_cpu_us", "server us", 2),
           ("wal_bytes", "WAL B", 0), ("wal_image_bytes", "of it images", 0), ("commits", "commits", 4)]


def cells(values):
    return [f"{values[key]:.{digits}f}" for key, _, digits in COLUMNS]


def run(st, args, progress):
    args.connections = args.connections or 2 * args.nodes
    results = rounds(st, args, progress)
    progress.end()
    medians = {who: {key: statistics.median(r[key] for r in results if r["who"] == who) for key, _, _ in COLUMNS}
               for who in ("node", "floor")}
    # Each node round against the floor round next to it: what the machine did to one it did to the other.
    ratio = statistics.median(a["rate"] / b["rate"] for a, b in zip(results[::2], results[1::2]))
    about = machine(st)
    if args.json:
        print(json.dumps({"benchmark": "drain", "tasks": args.tasks, "nodes": args.nodes, "connections": args.connections,
                          "rounds": results, "median": medians, "node_to_floor": ratio, "machine": about}))
        return 0
    print(f"drain: {args.tasks} noop tasks, {args.nodes} nodes; floor: {args.connections} connections; every task exactly once")
    print("per task: CPU of the clients and of the server, WAL and full-page images in it, commits\n")
    names = {"node": f"{args.nodes} nodes", "floor": "floor"}
    print_table(["", *(title for _, title, _ in COLUMNS)],
                [[names[r["who"]], *cells(r)] for r in results] + [[f"median {names[who]}", *cells(medians[who])] for who in medians])
    print(f"\nnode/floor: {ratio:.2f}\n")
    print_machine(about)
    return 0
