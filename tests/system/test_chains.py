"""Chains on real nodes: released once, never early, skipped when they can never start; through failures and killed nodes."""
import random
import threading

import psycopg
import pytest
from cluster import stays, wait_until

CONDITIONS = ["success"] * 6 + ["failure"] + ["always"] * 2


def random_graph(rng, first_id):
    """Tasks in an order in which parents come first: (id, fails, [(parent, run_if), ...])."""
    graph = []
    for i in range(rng.randint(2, 12)):
        earlier = [t[0] for t in graph]
        count = min(len(earlier), rng.choice([0, 1, 1, 1, 2, 2, 3])) if i else 0
        parents = [(p, rng.choice(CONDITIONS)) for p in rng.sample(earlier, count)]
        graph.append((first_id + i, rng.random() < 0.2, parents))
    return graph


def oracle(graph):
    """What each task's end has to be: succeeded, failed or skipped."""
    result = {}
    for task, fails, parents in graph:
        never = any((c == "success" and result[p] != "succeeded") or (c == "failure" and result[p] != "failed") for p, c in parents)
        alone = parents and all(result[p] == "skipped" for p, _ in parents)
        result[task] = "skipped" if never or alone else "failed" if fails else "succeeded"
    return result


def insert_graph(conn, graph):
    with conn.transaction():
        for task, fails, parents in graph:
            ids = "{" + ",".join(str(p) for p, _ in parents) + "}"
            command = (f"insert into ran select {task}, count(distinct r.task_id) from pgrab.run r where r.task_id = any('{ids}') "
                       f"and (r.ended is not null or r.attempt >= 4)" + ("; select 1/0" if fails else ""))
            first = parents[0] if parents else (None, "success")
            conn.execute("insert into pgrab.task (id, kind, command, max_attempts, backoff, parent_id, run_if) overriding system value values (%s, 'sql', %s, 4, '10 ms', %s, %s)",
                         [task, command, *first])
            for parent, condition in parents[1:]:
                conn.execute("insert into pgrab.edge values (%s, %s, %s)", [parent, task, condition])


@pytest.mark.deadline(150)
def test_500_random_graphs_with_failures_and_killed_nodes_end_as_the_oracle_says(db, nodes):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    db.query("create table ran (task bigint, parents_ended bigint)")
    graphs = [random_graph(rng, 100 * n) for n in range(1, 501)]
    want = {task: end for graph in graphs for task, end in oracle(graph).items()}
    for name in ("a", "b", "c"):
        nodes.start(name, dead_after="4s")
    with db.connect() as conn:
        for n, graph in enumerate(graphs):
            insert_graph(conn, graph)
            if n in (150, 300):
                nodes.all[n // 150 - 1].kill9()
                nodes.start(f"after{n}", dead_after="4s")
    db.wait("select not exists (select from pgrab.task where status in ('waiting', 'scheduled', 'claimed', 'running'))", timeout=90)
    got = {r.task_id: r.ends for r in db.query("""
        select task_id, case (array_agg(outcome order by finished_at desc, attempt desc))[1] when 'succeeded' then 'succeeded' when 'skipped' then 'skipped' else 'failed' end as ends
        from pgrab.run group by task_id""")}
    assert got == want
    assert db.query("select task_id from pgrab.run where outcome in ('succeeded', 'skipped') group by 1 having count(*) > 1") == []
    # The effect of each success is there once, and was made when all its parents had ended.
    assert sorted(r.task for r in db.query("select task from ran")) == sorted(t for t, end in want.items() if end == "succeeded")
    parents = {task: len(p) for graph in graphs for task, _, p in graph}
    assert [r.task for r in db.query("select task, parents_ended from ran") if r.parents_ended != parents[r.task]] == []
    # What is left hangs together with something parked.
    assert not db.query("select from pgrab.task t where not exists (select from pgrab.task p where p.chain = t.chain and p.status = 'parked') and t.chain is not null")
    assert not db.query("select from pgrab.chain where pending <> 0")


def test_two_transactions_that_would_close_a_circle_together_do_not(db):
    """For every pair of edges of a ring of four chains: one of the two is refused, or waits and is refused."""
    for trial in range(10):
        a, b, c, d = (db.add(kind="noop", run_at="2100-01-01") for _ in range(4))
        db.query("insert into pgrab.edge values (%s, %s)", a, b)
        db.query("insert into pgrab.edge values (%s, %s)", c, d)
        refused = []

        def close(parent, child):
            try:
                with db.connect() as conn:
                    conn.execute("insert into pgrab.edge values (%s, %s)", [parent, child])
            except (psycopg.errors.InvalidParameterValue, psycopg.errors.DeadlockDetected) as e:
                refused.append(e)

        threads = [threading.Thread(target=close, args=pair) for pair in ((b, c), (d, a))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(refused) == 1, (trial, refused)
        db.query("select pgrab.delete_chain(id) from (select min(t.id) as id from pgrab.task t where not exists (select from pgrab_internal.parents_of(t.id))) r")
        db.query("select pgrab.delete_chain(id) from (select min(t.id) as id from pgrab.task t) r where id is not null")


def test_a_recurring_chain_never_overlaps_itself_and_goes_on_after_failures(db, nodes):
    nodes.start("a")
    nodes.start("b")
    root = db.add(name="root", kind="noop", schedule="@every 1s")
    slow = db.add(name="slow", kind="sql", command="select pg_sleep(0.4)", parent_id=root)
    db.add(name="bad", kind="sql", command="select 1/0", parent_id=root, max_attempts=1)
    last = db.add(name="last", kind="noop", parent_id=slow)
    db.wait("select count(*) >= 3 from pgrab.chain_runs where result = 'failed' and links = 4", timeout=20)
    runs = db.query("select * from pgrab.chain_runs where result <> 'running' order by chain_id")
    assert all(b.fire_at > a.fire_at for a, b in zip(runs, runs[1:]))
    spans = db.query("select chain_id, min(started_at) as a, max(finished_at) as z from pgrab.run where chain_id is not null group by 1 order by 1")
    assert all(x.z <= y.a for x, y in zip(spans, spans[1:]))
    assert db.one("select count(*) from pgrab.run where task_id = %s", last) >= 3


def test_a_line_of_links_waits_for_no_poll(db, nodes):
    nodes.start(poll="20s", lookahead="1s")
    first = db.add(kind="noop", paused=True)
    link = first
    for _ in range(30):
        link = db.add(kind="noop", parent_id=link)
    db.query("select pgrab.resume(%s)", first)
    db.wait("select count(*) = 31 from pgrab.run", timeout=5)
    assert db.one("select max(finished_at) - min(started_at) < interval '2 s' from pgrab.run")


def test_output_goes_down_the_chain(db, nodes):
    nodes.start()
    insert = "insert into pgrab.task (name, kind, command, args, parent_id) values (%s, %s, %s, %s, %s) returning id"
    with db.connect() as conn, conn.transaction():
        (a,) = conn.execute(insert, ["a", "shell", "printf '%s' 'a  b'", "{}", None]).fetchone()
        (b,) = conn.execute(insert, ["b", "shell", "printf '[%s]' \"$PGRAB_PARENT_OUTPUT\"", "{}", a]).fetchone()
        (c,) = conn.execute(insert, ["c", "sql", "select $1", '{"params": ["<{{parent_output}}>"]}', b]).fetchone()
    assert db.wait_run(c).output == "<[a  b]>"
    assert db.runs(b)[0].output == "[a  b]"


def test_cancel_of_a_root_stops_what_runs_below_it(db, nodes, probe):
    nodes.start()
    with db.connect() as conn, conn.transaction():
        (root,) = conn.execute("insert into pgrab.task (kind) values ('noop') returning id").fetchone()
        spec = probe.shell("t", seconds=60)
        (child,) = conn.execute("insert into pgrab.task (kind, command, args, parent_id) values (%s, %s, %s, %s) returning id",
                                [spec["kind"], spec["command"], psycopg.types.json.Jsonb(spec["args"]), root]).fetchone()
        conn.execute("insert into pgrab.task (kind, parent_id, run_if) values ('noop', %s, 'always')", [child])
    probe.wait("start", "t")
    db.query("select pgrab.cancel(%s)", root)
    wait_until(lambda: not db.query("select from pgrab.task"), 5)
    assert db.one("select array_agg(outcome order by task_id) from pgrab.run") == ["succeeded", "cancelled", "cancelled"]


def test_a_running_task_that_is_deleted_is_stopped(db, nodes, probe):
    """And until then its place under a limit is taken."""
    nodes.start()
    db.query("insert into pgrab.limit (key, max_running) values ('one', 1)")
    task = db.add(**probe.shell("t", seconds=60), limit_key="one")
    probe.wait("start", "t")
    second = db.add(kind="noop", limit_key="one")
    db.query("delete from pgrab.task where id = %s", task)
    db.wait("select exists (select from pgrab.run where task_id = %s and outcome = 'succeeded')", second, timeout=10)
    wait_until(lambda: not db.query("select from pgrab.cancel_request"), 5)
    assert [(r.outcome, r.ended) for r in db.runs(task)] == [("cancelled", "cancelled")]
    stopped = db.one("select started_at from pgrab.run where task_id = %s", second)
    assert stopped > db.one("select finished_at from pgrab.run where task_id = %s", task)


def test_no_link_waits_for_a_poll_when_nodes_fall_asleep(db, nodes):
    """Many short lines, so that nodes are busy and idle by turns: whoever frees a link just as a node asks for the bell has not rung."""
    for name in ("a", "b"):
        nodes.start(name, poll="15s")
    for lot in range(5):
        db.query(f"insert into pgrab.task (id, kind, parent_id) overriding system value select {lot * 10000} + i, 'noop', case when i % 10 <> 1 then {lot * 10000} + i - 1 end from generate_series(1, 4000) i")
        db.wait("select not exists (select from pgrab.task)", timeout=8)


def test_a_parked_link_is_retried_and_its_chain_goes_on(db, nodes, tmp_path):
    nodes.start()
    flag = tmp_path / "mended"
    with db.connect() as conn, conn.transaction():
        (root,) = conn.execute("insert into pgrab.task (kind, command, max_attempts) values ('shell', %s, 1) returning id", [f"test -e {flag}"]).fetchone()
        (child,) = conn.execute("insert into pgrab.task (kind, parent_id) values ('noop', %s) returning id", [root]).fetchone()
    db.wait("select status = 'skipped' from pgrab.task where id = %s", child)
    stays(lambda: db.one("select status = 'parked' from pgrab.task where id = %s", root), 0.5)
    flag.touch()
    flag.chmod(0o644)
    db.query("select pgrab.retry(%s)", root)
    wait_until(lambda: not db.query("select from pgrab.task"), 5)
    assert [r.outcome for r in db.runs(child)] == ["skipped", "succeeded"]


def test_a_wide_fan_out_and_a_deep_line(db, nodes):
    nodes.start("a")
    nodes.start("b")
    wide = db.add(kind="noop", paused=True)
    db.query("insert into pgrab.task (kind, parent_id) select 'noop', %s from generate_series(1, 5000)", wide)
    deep = db.add(id=1_000_000, kind="noop", paused=True)
    db.query("insert into pgrab.task (id, kind, parent_id) overriding system value select 1000000 + i, 'noop', 1000000 + i - 1 from generate_series(1, 300) i")
    db.query("select pgrab.resume(%s)", [wide, deep])
    db.wait("select count(*) = 5302 from pgrab.run where outcome = 'succeeded'", timeout=40)
    wait_until(lambda: not db.query("select from pgrab.task"), 5)
    assert db.one("select count(distinct task_id) from pgrab.run") == 5302


def test_a_long_line_whose_root_fails_holds_up_nobody(db, nodes):
    """What can never start is skipped in slices: in one statement it would take longer than a node waits."""
    root = db.add(id=1_000_000, command="select 1/0", max_attempts=1, paused=True)
    db.query("insert into pgrab.task (id, kind, parent_id) overriding system value select 1000000 + i, 'noop', 1000000 + i - 1 from generate_series(1, 20000) i")
    nodes.start()
    db.query("select pgrab.resume(%s)", root)
    db.wait("select count(*) > 1000 from pgrab.run where outcome = 'skipped'", timeout=20)
    db.query("insert into pgrab.task (kind, name, run_at) select 'noop', 'other', clock_timestamp() + i * interval '10 ms' from generate_series(1, 500) i")
    db.wait("select count(*) = 20000 from pgrab.run where outcome = 'skipped'", timeout=60)
    db.wait("select count(*) = 500 from pgrab.run where name = 'other'")
    late = db.one("select percentile_cont(0.99) within group (order by extract(epoch from finished_at - fire_at)) from pgrab.run where name = 'other'")
    assert late < 1, late
    assert not db.query("select from pgrab.skipping") and len(db.query("select from pgrab.task where status = 'skipped'")) == 20000
    db.query("select pgrab.retry(%s)", root)  # its run is settled


@pytest.mark.deadline(120)
def test_one_locked_link_puts_off_only_its_own_chain(db, nodes):
    """Below a link that has failed much is to be skipped, of which a node does a part at a time."""
    for first in (100_000, 200_000):
        db.query("""insert into pgrab.task (id, kind, command, parent_id, max_attempts, key) overriding system value
            select g.i, case when g.i = %s then 'shell' else 'noop' end, case when g.i = %s then 'false' else '' end, nullif(g.i - 1, %s), 1, g.i::text
            from generate_series(%s, %s) g(i) order by g.i""", first, first, first - 1, first, first + 2500)

    def waiting(first):
        return db.one("select count(*) from pgrab.task where status = 'waiting' and id between %s and %s", first, first + 2500)

    with db.connect(autocommit=False) as person:
        person.execute("update pgrab.task set slots = 1 where id = 101500")
        nodes.start()
        wait_until(lambda: waiting(200_000) == 0, 20, "the other chain to be skipped")
        assert waiting(100_000) > 0
        person.rollback()
    wait_until(lambda: waiting(100_000) == 0, 20, "the first chain to be skipped")
