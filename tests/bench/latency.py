"""How soon an idle node starts a task after its insert, and how late scheduled tasks start.

insert: one task at a time, committed on its own, with pauses of random length; the node sleeps and the doorbell wakes it.
    Measured from the call of INSERT, and from the moment its COMMIT was answered (a start may be seen before that).
    Between them a row is inserted into a plain table, in the same way: what a commit alone costs here.  A start needs two.
scheduled: tasks due at points spread over a few seconds to come, inserted by one statement.  Measured against the time they
    were due at; a start before that time is a fault and ends the benchmark.
"""
import json
import random
import time

from cluster import wait_until
from process import Failed
from report import machine, percentile, print_machine, print_table

SPREAD_S = 5


def add_options(command, natural):
    command.add_argument("--tasks", type=natural, default=200, metavar="N", help="tasks of each kind of measurement (default 200)")
    command.add_argument("--nodes", type=natural, default=1, metavar="N", help="nodes side by side (default 1)")
    command.add_argument("--kind", choices=("noop", "sql"), default="noop", help="noop is started by the claim itself, sql in a step of its own")


def wait_runs(st, nodes, count, timeout):
    def enough():
        for node in nodes:
            node.must_run()
        return st.one("select count(*) from pgrab.run") >= count
    wait_until(enough, timeout, f"{count} runs in the history", 0.05)


def inserted(st, args, nodes, progress):
    """Latencies in ms of single inserts: from the call, from the commit; and of bare inserts."""
    command, times, bare = "select 1" if args.kind == "sql" else "", {}, []
    st.query("create table if not exists bench_bare (i integer)")
    for i in range(args.tasks):
        time.sleep(random.uniform(0.02, 0.06))  # check-words: the pause is what is measured after
        called = time.time()
        st.query("insert into bench_bare values (%s)", i)
        bare.append((time.time() - called) * 1e3)
        time.sleep(random.uniform(0.02, 0.06))  # check-words: as above
        called = time.time()
        task = st.one("insert into pgrab.task (kind, command) values (%s, %s) returning id", args.kind, command)
        times[task] = (called, time.time())
        progress.show(f"single inserts: {i + 1} of {args.tasks}")
    wait_runs(st, nodes, args.tasks, 30)
    starts = dict(st.query("select task_id, extract(epoch from started_at)::float8 from pgrab.run"))
    return ([(starts[task] - called) * 1e3 for task, (called, _) in times.items()],
            [(starts[task] - committed) * 1e3 for task, (_, committed) in times.items()], bare)


def scheduled(st, args, nodes, progress):
    progress.show(f"scheduled tasks: {args.tasks} over {SPREAD_S} s")
    st.query("truncate pgrab.run")
    st.query("insert into pgrab.task (kind, command, run_at) select %s, %s, now() + interval '1 s' + random() * %s * interval '1 s' "
             "from generate_series(1, %s)", args.kind, "select 1" if args.kind == "sql" else "", SPREAD_S, args.tasks)
    wait_runs(st, nodes, args.tasks, SPREAD_S + 30)
    late = [row[0] for row in st.query("select (extract(epoch from started_at - fire_at) * 1000)::float8 from pgrab.run")]
    if min(late) < 0:
        raise Failed(f"a task started {-min(late):.3f} ms before it was due")
    return late


def shape(values):
    return {"min_ms": min(values), "p50_ms": percentile(values, 50), "p95_ms": percentile(values, 95), "p99_ms": percentile(values, 99),
            "max_ms": max(values)}


def run(st, args, progress):
    progress.show("starting the nodes")
    st.reset()
    nodes = [st.start_node(f"bench{i + 1}") for i in range(args.nodes)]
    st.wait_up(nodes)
    from_call, from_commit, bare = inserted(st, args, nodes, progress)
    late = scheduled(st, args, nodes, progress)
    for node in nodes:
        node.end()
    progress.end()
    result = {"insert to start": shape(from_call), "commit to start": shape(from_commit), "due to start": shape(late),
              "bare commit": shape(bare)}
    about = machine(st)
    if args.json:
        print(json.dumps({"benchmark": "latency", "tasks": args.tasks, "nodes": args.nodes, "kind": args.kind, **result, "machine": about}))
        return 0
    print(f"latency: {args.tasks} tasks of kind {args.kind} each, {args.nodes} idle node{'s' if args.nodes > 1 else ''}; milliseconds\n")
    print_table(["", "min", "p50", "p95", "p99", "max"],
                [[name, *(f"{v:.2f}" for v in values.values())] for name, values in result.items()])
    print()
    print_machine(about)
    return 0
