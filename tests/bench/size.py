"""What many rows that cannot run cost the few that can: lateness, recovery, people's views, and each statement of the nodes.

Beside FUTURE tasks that are due in a month and FOREIGN ones that are due now, of a kind that no node runs:
    lateness   of sql tasks inserted one by one: from the insert to the start.  The first is also shown by itself: it waits for the
               node's first look, which reads a page of each shard from the disk
    killed     four runs of a node whose process is killed: until each runs on another node
    frozen     the same, but node and keeper stop as if the machine was lost: what is beyond dead_after
    overview   and the views of people; explain of one of the foreign tasks and of one of the future
    statements of the nodes in all of this, those that read the most
"""
import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

from cluster import wait_until
from report import machine, percentile, print_machine, print_table

VIEWS = ("overview", "late", "failing", "tasks", "nodes")
DEAD_AFTER_S = 20  # the default
AT_ONCE = 250_000  # rows of an insert
STATEMENTS = 8


def add_options(command, natural):
    command.add_argument("--future", type=natural, default=2_000_000, metavar="N", help="rows due in a month (default 2,000,000)")
    command.add_argument("--foreign", type=natural, default=1_000_000, metavar="N",
                         help="rows due now of a kind that nobody runs (default 1,000,000)")
    command.add_argument("--tasks", type=natural, default=200, metavar="N", help="tasks whose lateness is measured (default 200)")


@contextlib.contextmanager
def as_nodes(st):
    """As the nodes' role, which runs no sql task of another's.  All else is asked as another, so that statements can be told apart."""
    st.query("set role app")
    yield
    st.query("reset role")


def load(st, args, progress):
    st.query("insert into pgrab.kind (kind, summary) values ('elsewhere', 'run by nobody here')")
    future = "select 'noop', now() + interval '30 days' + random() * interval '1 day' from generate_series(1, %s)"
    for what, rows, tasks in (("future", args.future, future), ("foreign", args.foreign, "select 'elsewhere', now() from generate_series(1, %s)")):
        for done in range(0, rows, AT_ONCE):
            progress.show(f"inserting {what} rows: {done:,} of {rows:,}")
            st.query(f"insert into pgrab.task (kind, run_at) {tasks}", min(AT_ONCE, rows - done))
    progress.show("vacuum")
    st.settle()


def lateness(st, count, progress):
    """Milliseconds, in the order in which they were inserted."""
    tasks = []
    with as_nodes(st):
        for i in range(count):
            time.sleep(random.uniform(0.01, 0.05))  # check-words: the pause is what is measured after
            tasks.append(st.one("insert into pgrab.task (kind, command) values ('sql', 'select 1') returning id"))
            progress.show(f"lateness: {i + 1} of {count}")
    wait_until(lambda: st.one("select count(*) from pgrab.run where task_id = any (%s)", tasks) == count, 60, "their runs")
    return [row[0] for row in st.query("select (extract(epoch from started_at - created_at) * 1000)::float8 from pgrab.run "
                                       "where task_id = any (%s) order by task_id", tasks)]


def family(pid):
    """A process and what descends from it."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def signal_all(pids, how):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)


def lost_node(st, name, how, progress):
    """Seconds from the loss of a node with four runs to the last of them running elsewhere.

    how: SIGKILL to the node's process alone, or SIGSTOP to all of them."""
    other = st.start_node(f"{name}-heir")
    loser = st.start_node(name)
    st.wait_up([other, loser])
    node = st.one("select id from pgrab.node where name = %s", name)
    with as_nodes(st):
        tasks = [row[0] for row in st.query("insert into pgrab.task (kind, command, max_attempts) "
                                            "select 'sql', 'select pg_sleep(40)', 5 from generate_series(1, 12) returning id")]

    def running(where, ids):
        return [row[0] for row in st.query(f"select id from pgrab.task where id = any (%s) and status = 'running' and node_id {where} %s", ids, node)]
    progress.show(f"{name}: waiting for its runs")
    held = wait_until(lambda: len(ids := running("=", tasks)) >= 4 and ids, 30, "its runs")
    # The others' workers are busy with pg_sleep as well; they have to have room for these.
    third = st.start_node(f"{name}-room", workers=32)
    wait_until(lambda: st.one("select count(*) from pgrab.node where state = 'up' and name like %s", f"{name}%") == 3, 20, "the third node")
    lost = family(loser.proc.pid) if how == signal.SIGSTOP else [loser.proc.pid]
    since = time.monotonic()
    signal_all(lost, how)
    progress.show(f"{name}: waiting for the heirs")
    wait_until(lambda: len(running("<>", held)) == len(held), 120, "the heirs", 0.02)
    took = time.monotonic() - since
    signal_all(lost, signal.SIGCONT)
    st.query("delete from pgrab.task where id = any (%s)", tasks)
    for process in (loser, other, third):
        if process.poll() is None:
            process.end() if process is not loser else process.kill()
    return took


def statements(st):
    """The nodes' statements that read the most pages in a call, and those that took the longest once."""
    return st.query("""
        select regexp_replace(query, '\\s+(-- )?|^-- ', ' ', 'g'), calls,
          (shared_blks_hit + shared_blks_read)::float8 / calls as pages, mean_exec_time, max_exec_time
        from (
          select *, rank() over (order by (shared_blks_hit + shared_blks_read)::float8 / calls desc) as wide,
            rank() over (order by max_exec_time desc) as slow
          from pg_stat_statements
          where userid = 'app'::regrole and dbid = (select oid from pg_database where datname = current_database())) s
        where wide <= %s or slow <= %s order by pages desc, query""", STATEMENTS, STATEMENTS)


def views(st, args):
    """Milliseconds of each, the second time."""
    future = st.one("select min(id) from pgrab.task")
    foreign = future + args.future  # in the order in which they were inserted
    asked = {**{view: f"select * from pgrab.{view} limit 100" for view in VIEWS},
             "explain, foreign": f"select * from pgrab.explain({foreign})", "explain, future": f"select * from pgrab.explain({future})"}
    took = {}
    with as_nodes(st):
        for what, statement in asked.items():
            for _ in range(2):
                since = time.monotonic()
                st.query(statement)
                took[what] = (time.monotonic() - since) * 1e3
    return took


def run(st, args, progress):
    st.count_statements()
    load(st, args, progress)
    node = st.start_node("alone")
    st.wait_up([node])
    late = lateness(st, args.tasks, progress)
    first = late[0]
    late.sort()
    node.end()
    killed = lost_node(st, "killed", signal.SIGKILL, progress)
    frozen = lost_node(st, "frozen", signal.SIGSTOP, progress)
    dear = statements(st)
    progress.show("views")
    node = st.start_node("watched")
    wait_until(lambda: st.query("select id from pgrab.node where name = 'watched' and state = 'up'"), 20, "the node to be up")
    took = views(st, args)
    node.end()
    progress.end()
    found = {"first_ms": first, "lateness_ms": {"p50": percentile(late, 50), "p99": percentile(late, 99), "max": late[-1]},
             "killed_s": killed, "frozen_s": frozen, "views_ms": took, "statements": dear}
    about = machine(st)
    if args.json:
        print(json.dumps({"benchmark": "size", "future": args.future, "foreign": args.foreign, "figures": found, "machine": about}))
        return 0
    print(f"beside {args.future:,} future rows and {args.foreign:,} due rows of a kind that nobody runs\n")
    print_table(["", "is", "should be"],
                [["lateness of the first task", f"{first:.1f} ms", ""],
                 ["lateness p50", f"{percentile(late, 50):.1f} ms", ""],
                 ["lateness p99", f"{percentile(late, 99):.1f} ms", "< 100 ms"],
                 ["node killed: its runs elsewhere", f"{killed:.1f} s", "<= 3 s"],
                 ["machine lost: its runs elsewhere", f"{frozen:.1f} s", f"<= {DEAD_AFTER_S + 3} s"],
                 *([f"pgrab.{what}", f"{ms:.0f} ms", "<= 100 ms" if what == "overview" else ""] for what, ms in took.items())])
    print()
    print_table(["what the nodes asked (widest and slowest)", "calls", "pages each", "ms each", "ms at most"],
                [[text.strip()[:80], calls, f"{pages:.0f}", f"{mean:.1f}", f"{most:.1f}"] for text, calls, pages, mean, most in dear])
    print()
    print_machine(about)
    return 0
