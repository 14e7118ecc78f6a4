"""Who is told of a task, and when: the doorbell, and what is inserted while nobody wants to hear it."""
import concurrent.futures
import re
import time

import pytest
from cluster import SCHEMA, wait_until
from proxy import Proxy


def busy(db):
    """A backlog that a node with one worker takes some seconds for; returns when it does not want the bell."""
    db.query("insert into pgrab.task (kind, command) select 'sql', 'select pg_sleep(0.05)' from generate_series(1, 80)")
    db.wait("select not bell from pgrab.node")


def late_after(db, nodes, isolation, pause):
    """How long after its commit a task starts that a transaction has inserted which was open for so long."""
    nodes.start("a", workers=1, allow="sql,noop")
    db.wait_run(db.add(kind="sql", command="select 1"))
    with db.connect(autocommit=False) as person:
        busy(db)
        person.execute(f"set transaction isolation level {isolation}")
        if isolation == "read committed":
            task = person.execute("insert into pgrab.task (kind) values ('noop') returning id").fetchone()[0]
        else:
            person.execute("select from pgrab.task limit 1")
        db.wait("select count(*) = 0 from pgrab.task", timeout=30)
        since = time.monotonic()
        wait_until(lambda: time.monotonic() - since > 9 + pause, 20, "a moment between two looks of a quiet node", step=0.5)
        if isolation == "repeatable read":
            task = person.execute("insert into pgrab.task (kind) values ('noop') returning id").fetchone()[0]
        person.commit()
    committed = time.monotonic()
    wait_until(lambda: db.query("select from pgrab.run where task_id = %s", task), 15, "the run", step=0.02)
    return time.monotonic() - committed


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_what_a_long_transaction_inserted_while_the_node_was_busy_starts_when_it_commits(three, isolation):
    """In the one the INSERT comes while nobody wants the bell; in the other it is later, and the snapshot is of that time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        late = list(pool.map(lambda place, pause: late_after(*place, isolation, pause), three, (0, 3, 6)))
    assert max(late) < 2, late


def test_a_ring_names_the_shards_of_what_was_inserted_together(db, nodes):
    """So that nodes which own none of them do not look; of more than 64 it says nothing, and all look."""
    nodes.start("a")
    db.wait_run(db.add(kind="noop"))  # so that its lane is known, which would ring as well
    with db.listen(SCHEMA) as ear:
        for rows in (40, 2000):
            db.wait("select bell from pgrab.node")
            shards = db.one("with new as (insert into pgrab.task (kind, run_at) select 'noop', now() + interval '10 s' "
                            "from generate_series(1, %s) returning id) select array_agg(distinct pgrab.shard(id)) from new", rows)
            assert {int(shard) for shard in ear.wait().split()} == (set(shards) if len(shards) <= 64 else set())


@pytest.mark.deadline(120)
def test_what_everybody_may_shout_does_not_fill_the_node(db, nodes):
    """Every role may NOTIFY, 8 kB at a time; once a minute the bell waits for an answer, here for one that does not come."""
    proxy = Proxy(db.dsn)
    node = nodes.start("a", listen_dsn=proxy.dsn)
    db.wait("select count(*) = 1 from pg_stat_activity where datname = current_database() and query ~ 'listen \"pgrab\"' and state = 'idle'")
    before = node.memory("VmHWM")
    proxy.swallow = b'listen "pgrab"'

    def shout():
        db.query("select pg_notify('pgrab', n || repeat('-', 7900)) from generate_series(1, 50) n")
        return re.search("event=doorbell state=cut", node.log())

    wait_until(shout, 90, "the bell to give up")
    assert node.memory("VmHWM") < before + 20
    proxy.close()
