"""What `pgrab serve` costs a drain: 200 requests a second of mixed reads beside it, and none, in turn.

Each round is a round of `drain`: preloaded tasks that do nothing, every one exactly once.  In every second round a client asks
`pgrab serve` at a steady pace: lists, tasks, each time another, the overview, the page, the metrics.  The cost is what the rate lacks.

On a machine that others use as well the rate says little.  So there is a second figure: the CPU that `pgrab serve` and its
backends took, for each request and as a share of the machine.  Where processors are what a drain is short of, that share is what
its rate loses.  (What the client of this benchmark takes is lost, too, and is in the first figure only.)
"""
import http.client
import itertools
import json
import socket
import os
import statistics
import threading
import time

import drain
from cluster import wait_until
from process import Failed
from meter import TICKS, process_times
from report import machine, print_machine, print_table

THREADS = 4
# Programs ask for lists, tasks and outputs; a page that somebody has open asks every five seconds, Prometheus every fifteen.
READS = (["/api/v1/tasks?limit=20", "/api/v1/runs?limit=20", "/api/v1/nodes", "/api/v1/tasks/{task}/runs", "/api/v1/limits",
          "/api/v1/next?schedule=@daily", "/api/v1/tasks/{task}/output", "/readyz"] * 12
         + ["/", "/tasks", "/tasks/{task}", "/api/v1/tasks/{task}/explain", "/api/v1/overview", "/metrics"])


def add_options(command, natural):
    drain.add_options(command, natural)
    command.set_defaults(tasks=300_000)
    command.add_argument("--rate", type=natural, default=200, metavar="N", help="requests per second (default 200)")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Clients:
    """Ask at a steady pace until they are ended; an answer that is late does not slow the others down."""

    def __init__(self, port, rate, task, tasks):
        self.port, self.rate, self.task, self.tasks = port, rate, task, tasks
        self.took, self.statuses, self.over = [], {}, threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(i,)) for i in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def ask(self, number):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        paths = itertools.islice(itertools.cycle(READS), number * 31, None)
        began = time.monotonic() + number / self.rate
        for n, path in enumerate(paths):
            if self.over.wait(max(0, began + n * THREADS / self.rate - time.monotonic())):
                break
            since = time.monotonic()
            conn.request("GET", path.format(task=self.task + 7919 * n % self.tasks))
            reply = conn.getresponse()
            reply.read()
            self.took.append(time.monotonic() - since)
            self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
        conn.close()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def backends_cpu_s(st):
    table = process_times()
    pids = [row[0] for row in st.query("select pid from pg_stat_activity where application_name = 'pgrab serve'")]
    return sum(table[pid][1] for pid in pids if pid in table) / TICKS


def served_round(st, args, say):
    port = free_port()
    serve = st.start("serve", st.pgrab, "serve", "--dsn", st.dsn, "--listen", f"127.0.0.1:{port}", "--log-level", "warn")
    task = st.one("select coalesce(max(task_id), 0) + 1 from pgrab.run")  # the first of this round

    def answers():
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close() is None
        except OSError:
            return serve.must_run()
    wait_until(answers, 10, "pgrab serve")
    clients, began = None, time.monotonic()
    try:
        clients = Clients(port, args.rate, task, args.tasks)
        result = drain.one_round(st, args, "node", say)
    finally:
        seconds = time.monotonic() - began
        if clients:
            clients.end()
        backends = backends_cpu_s(st)
        serve.proc.terminate()
        serve.wait(20)
    bad = {status: n for status, n in clients.statuses.items() if status not in (200, 404)}
    if bad:
        raise Failed(f"answers other than 200: {bad}")
    took = sorted(clients.took)
    return {**result, "who": "served", "request_cpu_ms": (serve.cpu_s + backends) * 1000 / len(took), "share": (serve.cpu_s + backends) / seconds / os.cpu_count(), "asked_per_s": len(took) / seconds, "p50_ms": took[len(took) // 2] * 1000,
            "p99_ms": took[len(took) * 99 // 100] * 1000, "serve_cpu_s": serve.cpu_s}


def rounds(st, args, progress):
    results = []
    for number in range(1, args.rounds + 1):
        for who in ("quiet", "served"):
            label = f"round {number} of {args.rounds}, {who}"
            progress.show(f"{label}: loading {args.tasks} tasks")
            say = lambda s, size, label=label: progress.show(f"{label}: {s:.1f} s")  # noqa: E731
            result = served_round(st, args, say) if who == "served" else {**drain.one_round(st, args, "node", say), "who": who}
            results.append(result)
            progress.note(f"{label}: {result['rate']:.0f} tasks/s")
    return results


def run(st, args, progress):
    results = rounds(st, args, progress)
    progress.end()
    # Each served round against the quiet one before it.
    pairs = list(zip(results[::2], results[1::2]))
    cost = 1 - statistics.median(b["rate"] / a["rate"] for a, b in pairs)
    share = statistics.median(b["share"] for _, b in pairs)
    about = machine(st)
    if args.json:
        print(json.dumps({"benchmark": "serve", "tasks": args.tasks, "nodes": args.nodes, "asked_per_s": args.rate,
                          "rounds": results, "cost": cost, "share": share, "machine": about}))
        return 0
    print(f"serve: {args.tasks} noop tasks, {args.nodes} nodes; {args.rate} requests a second asked for beside every second round\n")
    print_table(["", "tasks/s", "requests/s", "p50 ms", "p99 ms", "CPU ms a request", "% of the machine"],
                [[r["who"], f"{r['rate']:.0f}",
                  *([f"{r['asked_per_s']:.0f}", f"{r['p50_ms']:.1f}", f"{r['p99_ms']:.1f}", f"{r['request_cpu_ms']:.2f}",
                     f"{100 * r['share']:.1f}"] if r["who"] == "served" else [""] * 5)]
                 for r in results])
    print(f"\ncost: {100 * cost:.1f} % of the rate; {100 * share:.1f} % of the machine's CPU\n")
    print_machine(about)
    return 0
