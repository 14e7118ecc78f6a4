"""Handler processes that do whatever a process can do to its node, among tasks that have nothing to do with it."""
import os
import random
import sys
import time
from pathlib import Path

import pytest
from cluster import wait_until
from handlers import Handlers
from rude import ACTS

MOST_KIB = 20_000  # that the node may grow by


def memory_kib(pid):
    return int(next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])


def files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.deadline(240)
def test_whatever_a_process_does_every_task_is_done_and_the_node_is_well(db, nodes, tmp_path):
    handlers = Handlers(tmp_path)
    program = f"{sys.executable} {Path(__file__).with_name('rude.py')}"
    node = nodes.start("n1", config=handlers.config(handlers.section(program, "raw", processes=3, ping_timeout="2s")))
    handlers.wait_up(db, 3)
    grown, opened = memory_kib(node.pid), files(node.pid)
    order, innocent = list(ACTS), []
    random.Random(1).shuffle(order)
    for how in order:
        db.add(kind="raw", args={"how": how}, name=how, backoff="50 ms", max_attempts=8, timeout="5 s")
        innocent += [db.add(kind="raw", max_attempts=3, backoff="50 ms") for _ in range(4)]
    db.wait("select not exists (select from pgrab.task where status <> 'parked')", timeout=180)
    assert db.query("select name, last_error from pgrab.task") == []
    assert db.one("select count(distinct task_id) from pgrab.run where outcome = 'succeeded'") == len(order) + len(innocent)
    # One that is alone in a process which another has harmed pays for it: nobody can tell.
    paid = db.one("select count(distinct task_id) from pgrab.run where task_id = any (%s) and attempt > 1", innocent)
    assert paid <= len(innocent) // 20, paid
    wait_until(lambda: files(node.pid) <= opened + 8, 10, "the files of processes that are gone to be closed")
    assert memory_kib(node.pid) < grown + MOST_KIB
    begun = time.monotonic()
    node.term()
    assert node.wait_exit(10) == 0
    assert time.monotonic() - begun < 5
