"""Handlers in processes that stay, beside graphile-worker with as many jobs at once and a handler that does the same.

workers: tasks that do nothing are worked off by one process of each side, 24 at once: one node with one process of Node.js (pgrab-js), or
    with two of Python (pgrab-python); graphile-worker with a local queue of 500 jobs and completions gathered (graphile-worker), and as
    it is by default, a statement for each job and each completion (graphile-plain).
workers-latency: from the call of an insert to the moment the handler is called, idle; pgrab: the same of kind noop, which has no handler.
"""
import compare
import rounds
from workloads import Workload, simple

WORKLOADS = [
    Workload("workers", "40,000 handler tasks that do nothing, one process, 24 at once", simple(rounds.drain, 40_000, count=1),
             ("pgrab-js", "pgrab-python", "graphile-worker", "graphile-plain"),
             pairs=[(side, rival) for side in ("pgrab-js", "pgrab-python") for rival in ("graphile-worker", "graphile-plain")]),
    Workload("workers-latency", "insert to handler, idle", simple(rounds.latency, 300, 5),
             ("pgrab", "pgrab-js", "pgrab-python", "graphile-worker"), ("p50_ms", "p99_ms"),
             pairs=[("pgrab-js", "pgrab"), ("pgrab-python", "pgrab"), ("pgrab-js", "graphile-worker")]),
]


def add_options(command, natural):
    compare.add_options(command, natural, WORKLOADS)


def run(args, progress):
    return compare.run(args, progress, WORKLOADS)
