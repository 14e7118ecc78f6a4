"""What nodes cost while there is nothing to do.  With their default settings: that is what people leave running."""
import os
import time
from pathlib import Path

import pytest
from cluster import wait_until

NODES = 3
DEFAULTS = dict.fromkeys(("heartbeat", "fence_after", "dead_after", "kill_grace"))
STATEMENTS = "select sum(calls)::int from pg_stat_statements s join pg_database d on d.oid = s.dbid where datname = current_database()"


@pytest.fixture
def counted(cluster, db):
    """The server counts statements."""
    cluster.superuser("alter system set shared_preload_libraries = 'pg_stat_statements'")
    cluster.pg_stop()
    cluster.pg_start()
    cluster.superuser("create extension pg_stat_statements", db.name)
    cluster.superuser("grant execute on function pg_stat_statements_reset to public", db.name)
    yield
    cluster.superuser("alter system reset shared_preload_libraries")
    cluster.pg_stop()
    cluster.pg_start()


@pytest.mark.private_server
@pytest.mark.direct("it counts the connections of nodes")
@pytest.mark.deadline(150)
def test_idle_nodes_ask_little_from_their_start_and_keep_three_connections(db, nodes, counted):
    """There are tasks for tomorrow, and a limit that nobody waits for."""
    db.query("insert into pgrab.limit (key, max_running, per_second) values ('one', 1, 1)")
    db.query("""insert into pgrab.task (kind, command, limit_key, run_at)
        select ('{noop,shell,sql}'::text[])[1 + i % 3], 'select 1', 'one', now() + interval '1 day' from generate_series(1, 100) i""")
    for i in range(NODES):
        nodes.start(f"n{i}", wait=False, **DEFAULTS)
    for node in nodes.all:
        node.wait_up()
    db.query("select pg_stat_statements_reset()")
    since = time.monotonic()
    # A rate needs a time.  It is 0.92 to 0.94: a beat every 2 s, a look every 5.  The room above is for a node whose
    # connections a busy machine delays once; one more statement every 5 s would be 0.2 and is noticed.
    wait_until(lambda: time.monotonic() - since >= 90, 100, "a minute and a half to pass", step=0.5)
    per_node_and_second = db.one(STATEMENTS) / NODES / (time.monotonic() - since)
    most = db.query("select calls, query from pg_stat_statements order by calls desc limit 5")
    assert per_node_and_second <= 1.1, (per_node_and_second, most)
    wait_until(lambda: dict(db.query("select application_name, count(*) from pg_stat_activity where datname = current_database() "
                                     "and application_name like 'pgrab %' group by 1"))
               == {"pgrab heartbeat": NODES, "pgrab listen": NODES, "pgrab load": NODES}, 30, "three connections of each node")


def cpu_s(pid):
    """What a process has taken of the CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.private_server
@pytest.mark.deadline(90)
def test_a_node_whose_server_is_gone_rests(cluster, db, nodes):
    """It has no lease, and in hand what runs, what has ended and what is due; and a wait ends, for which it has meant to wake up."""
    node = nodes.start("n1")
    wait_s, begun = 5, time.monotonic()
    db.query("insert into pgrab.task (name, kind, wait_for, wait_timeout) values ('waits', 'noop', 'word', %s * interval '1 s')", wait_s)
    db.wait("select count(*) = 1 from pgrab.waits")
    db.query("insert into pgrab.task (kind, command) values ('shell', 'sleep 60'), ('shell', 'sleep 1'), ('sql', 'select pg_sleep(60)')")
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + i * interval '100 ms' from generate_series(1, 200) i")
    db.query("insert into pgrab.task (kind, schedule) values ('noop', '* * * * * *')")
    db.wait("select count(*) = 3 from pgrab.task where status = 'running' and kind <> 'noop'")
    cluster.pg_stop()
    try:
        node.wait_log("event=fenced")
        wait_until(lambda: time.monotonic() - begun > wait_s + 1, 10, "the end of the wait")
        before, since = cpu_s(node.proc.pid), time.monotonic()
        wait_until(lambda: time.monotonic() - since >= 5, 10, "the time in which it is counted", step=0.5)
        # It is some 10 ms; a thread whose next round is always due takes all that the machine has.
        assert cpu_s(node.proc.pid) - before < 0.25
    finally:
        cluster.pg_start()
    db.wait("select count(*) > 210 from pgrab.run where outcome = 'succeeded'", timeout=30)
    db.wait("select outcome = 'timed_out' from pgrab.run where name = 'waits'")


@pytest.mark.private_server
@pytest.mark.direct("it counts the statements of a node that hears its doorbell")
@pytest.mark.deadline(60)
def test_a_ring_for_many_shards_is_none_for_new_lanes(db, nodes, counted):
    """Such a ring names no shard.  It comes with each larger INSERT, and with the ends of many parents of links."""
    nodes.start("n", **DEFAULTS)
    db.query("insert into pgrab.task (kind) values ('noop')")  # a new lane
    db.wait("select count(*) = 1 from pgrab.run")
    db.query("select pg_stat_statements_reset()")
    for i in range(1, 11):
        db.wait("select bell from pgrab.node")
        db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 100)")
        db.wait("select count(*) = %s from pgrab.run", 1 + 100 * i)
    asked = db.one("select coalesce(sum(calls), 0)::int from pg_stat_statements where query like '-- A text that is another one when lanes%%'")
    assert asked <= 2, "they are asked for every 30 s, too"
    db.query("insert into pgrab.task (kind, priority) values ('noop', 100)")  # another lane
    db.wait("select count(*) = 1002 from pgrab.run", timeout=10)


@pytest.mark.private_server
@pytest.mark.direct("it counts statements")
@pytest.mark.deadline(120)
def test_among_many_nodes_rings_for_all_are_gathered(db, nodes, counted):
    """Nobody looks more often than once in 2 ms and 3 more for each other node, nor asks for the lanes each time."""
    many, gap_s = 12, 0.035
    db.add(kind="noop", run_at="tomorrow")
    for i in range(many):
        nodes.start(f"n{i}", wait=False, **DEFAULTS)
    for node in nodes.all:
        node.wait_up()
    db.wait("select count(*) = %s from pg_stat_activity where datname = current_database() and query ~ 'listen \"pgrab\"' and state = 'idle'", many)
    db.wait("select count(shards) = %s from pgrab.node", many)
    db.query("select pg_stat_statements_reset()")
    began, next_ring, rings = time.monotonic(), 0.0, 0

    def ring():
        nonlocal next_ring, rings
        if time.monotonic() >= next_ring:
            db.query("select pg_notify('pgrab', '')")
            next_ring, rings = time.monotonic() + 0.01, rings + 1
        return time.monotonic() >= began + 10

    wait_until(ring, 30, "ten seconds of rings", step=0.002)
    spent = time.monotonic() - began
    looks, prints = [db.one("select coalesce(sum(calls), 0)::int from pg_stat_statements where query like %s", f"%{part}%")
                     for part in ("as l(lane, key, first, last", "hash_record_extended(o,")]
    # Beside them one a second at what is due in the shards of others, and a few after the start.  Each ring: 60 to 75 a second.
    assert many * 10 < looks <= many * (1.1 * spent / gap_s + 3 * spent), (looks, rings, spent)
    assert prints <= 3 * many, (prints, rings)
