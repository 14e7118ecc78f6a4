"""scripts/chaos --figures: how long what a fault has interrupted waits until it runs again, with the defaults."""
import ctypes
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import ROOT, Cluster, Db, Node, end_by_signals, end_leftovers, wait_until  # noqa: E402
from probe import Probe  # noqa: E402
from wire import Wire  # noqa: E402

DEFAULTS = {key: None for key in ("heartbeat", "fence_after", "dead_after", "kill_grace", "drain_timeout")}
ROUNDS = int(os.environ.get("ROUNDS", "20"))
CUTS = int(os.environ.get("CUTS", "300"))


def shown(name, seconds):
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"| {name} | {statistics.median(ordered):.2f} s | {p99:.2f} s | {len(ordered)} |", flush=True)


class Bench:
    def __init__(self, cluster, folder):
        self.db = Db(cluster, cluster.create_database())
        self.folder = folder
        self.probe = Probe(folder)
        self.serial = 0
        self.nodes = {name: self.node(name) for name in ("a", "b")}

    def node(self, name, **options):
        return Node(self.db, name, self.folder, **{**DEFAULTS, "allow": "sql,shell,noop", **options}).wait_up()

    def anew(self, **options):
        for name in self.nodes:
            self.nodes[name].end(40)
            self.nodes[name] = self.node(name, **options)

    def task(self, seconds=30, **columns):
        self.serial += 1
        tag = f"t{self.serial}"
        self.db.add(name=tag, **self.probe.shell(tag, seconds=seconds), **columns)
        return tag

    def holder(self, tag):
        return self.db.wait("select n.name from pgrab.task t join pgrab.node n on n.id = t.node_id where t.name = %s and t.status = 'running'", tag)

    def started(self, tag, count):
        return float(self.probe.wait("start", tag, count=count, timeout=60)[count - 1].at)

    def end_task(self, tag):
        self.db.query("select pgrab.cancel(id) from pgrab.task where name = %s", tag)
        self.db.wait("select not exists (select from pgrab.task where name = %s)", tag, timeout=30)


def interrupted(bench, how):
    """From the signal to the moment another attempt begins, on whichever node."""
    times = []
    for _ in range(ROUNDS):
        tag = bench.task()
        bench.started(tag, 1)
        name = bench.holder(tag)
        begun = time.time()
        how(bench.nodes[name])
        times.append(bench.started(tag, 2) - begun)
        bench.nodes[name].wait_exit(30)
        bench.end_task(tag)
        bench.nodes[name] = bench.node(name, **({"drain_timeout": "0s"} if how is term else {}))
    return times


def kill(node):
    node.kill9()


def term(node):
    node.term()


def lateness(bench):
    """Of a task that is due now, from its insert to its start."""
    task = bench.db.add(kind="noop")
    run = bench.db.wait_run(task)
    return (run.started_at - run.created_at).total_seconds()


def restarts(bench):
    """From the moment the server takes connections until a new task starts within 0.1 s."""
    times = []
    for i in range(max(3, ROUNDS // 4)):
        bench.db.cluster.pg_stop(("immediate", "fast")[i % 2])
        threading.Event().wait(2)  # so long it is away
        bench.db.cluster.pg_start()
        begun = time.monotonic()
        wait_until(lambda: lateness(bench) < 0.1, 60, "normal lateness")
        times.append(time.monotonic() - begun)
    return times


def cut_storm(bench):
    """Every statement that commits something is cut, before or after the server has it, until there were CUTS of them."""
    cuts = []
    wires = [Wire(bench.db.dsn, lambda what, **more: cuts.append((more["word"], more["before"]))) for _ in range(2)]
    for name, wire in zip(("a", "b"), wires):
        bench.nodes[name].end(20)
        bench.nodes[name] = bench.node(name, dsn=wire.dsn)
    bench.db.query("create table public.effect (n bigint)")
    made = 0
    words = [(w, before) for w in ("commit", "finish", "claim", "start", "finish", "commit") for before in (False, True)]
    until = time.monotonic() + 150
    while len(cuts) < CUTS and time.monotonic() < until:
        bench.db.query("insert into pgrab.task (kind, command, backoff, max_attempts) select 'sql', 'insert into public.effect values (' || i || ')', '10 ms', 1000 "
                       "from generate_series(%s::int, %s::int) i", made + 1, made + 20)
        made += 20
        for wire in wires:
            with wire.lock:
                wire.cuts = list(words)
        bench.db.wait("select count(*) < 40 from pgrab.task", timeout=60)
    for wire in wires:
        wire.heal()
    bench.db.wait("select not exists (select from pgrab.task)", timeout=60)
    lost, doubled = bench.db.query("""select (select count(*) from generate_series(1, %s::int) i where not exists (select from public.effect where n = i)) as lost,
        (select count(*) from (select from public.effect group by n having count(*) > 1) d) as doubled""", made)[0]
    print(f"| cuts around COMMIT survived | {len(cuts)} ({sum(not b for _, b in cuts)} of them with the answer lost) | | {made} tasks: {lost} lost, {doubled} doubled |", flush=True)
    return lost + doubled


def main():
    end_by_signals()
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)
    (ROOT / ".pgrab").mkdir(exist_ok=True)
    wanted = sys.argv[1:] or ["kill", "term", "restart", "cuts"]
    cluster = Cluster(stoppable=True)
    folder = tempfile.mkdtemp(prefix="figures.", dir=ROOT / ".pgrab")
    bad = 1
    try:
        bench = Bench(cluster, folder)
        print("| | p50 | p99 | n |\n|---|---|---|---|", flush=True)
        if "kill" in wanted:
            shown("KILL of a node to the next start of its run", interrupted(bench, kill))
        if "term" in wanted:
            bench.anew(drain_timeout="0s")  # else it takes as long as the drain
            shown("TERM of a node (`drain_timeout = 0`) to the next start", interrupted(bench, term))
        if "restart" in wanted:
            shown("restart of the database to normal lateness", restarts(bench))
        bad = cut_storm(bench) if "cuts" in wanted else 0
        print(json.dumps({"overlaps": len(bench.probe.events("overlap"))}))
        bad += len(bench.probe.events("overlap"))
        for node in bench.nodes.values():
            node.end(20)
    finally:
        end_leftovers(20)
        cluster.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
