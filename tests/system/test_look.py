"""What a look costs: the same with few tasks and with very many."""
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src/db"))
from embed import expand  # noqa: E402

SESSION = "set enable_seqscan = off; set enable_sort = off; set enable_material = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off"


def look(db, ahead_us=5_000_000, limit=8):
    """Runs look.sql as a node that runs noop, with all shards, does; returns its rows and the buffers it touched."""
    text = expand(ROOT / "src/db/sql/look.sql")
    lanes = db.query("select id, lane from pgrab.lane where kind = 'noop' and require = '{}' order by id")
    n = len(lanes)
    values = {1: f"array{[r.id for r in lanes]}", 14: f"(select array_agg(decode(x, 'hex') order by n) from unnest(array{[r.lane.hex() for r in lanes]}) with ordinality u(x, n))",
              2: f"array{[i * 1024 + 1 for i in range(n)]}", 3: f"array{[i * 1024 + 1024 for i in range(n)]}",
              4: f"(select array_agg(s %% 1024)::smallint[] from generate_series(0, {n * 1024 - 1}) s)".replace("%%", "%"),
              5: f"array_fill(null::bigint, array[{n * 1024}])", 6: f"array{[ahead_us] * n}::bigint[]", 7: "'{noop}'", 8: "'{}'", 9: "true",
              10: f"array{[limit] * n}::bigint[]", 11: "array[current_user::text]", 12: "'{}'",
              13: f"array{[limit // 8 + 1] * n}::bigint[]", 15: "true"}
    statement = re.sub(r"\$(\d+)", lambda m: values[int(m[1])], re.sub(r"^--.*$", "", text, flags=re.M))
    with db.connect() as conn:
        conn.execute(SESSION)
        rows = conn.execute(statement).fetchall()
        plan = conn.execute("explain (analyze, buffers, format json) " + statement).fetchone()[0]
    plan = plan if isinstance(plan, list) else json.loads(plan)
    top = plan[0]["Plan"]
    return rows, top["Shared Hit Blocks"] + top["Shared Read Blocks"]


@pytest.mark.deadline(120)
def test_future_tasks_cost_a_look_nothing(db):
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + interval '1 hour' + i * interval '1 s' from generate_series(1, 2000) i")
    db.query("vacuum analyze pgrab.task")
    few = look(db)[1]
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + interval '2 hours' + i * interval '1 s' from generate_series(1, 200000) i")
    db.query("vacuum analyze pgrab.task")
    rows, many = look(db)
    assert rows == []
    # One more level in an index is one more page per shard.
    assert many <= few + 1024 + 100, (few, many)


@pytest.mark.deadline(120)
def test_a_look_into_a_deep_backlog_of_mixed_priorities_reads_heads_only(db):
    insert = ("insert into pgrab.task (id, kind, priority, run_at) overriding system value select %s + i, 'noop', i %% 11 - 5, now() - interval '1 minute' * random() from generate_series(1, %s) i")
    db.query(insert, 0, 5000)
    db.query("vacuum analyze pgrab.task")
    few = look(db, limit=100)[1]
    db.query(insert, 1_000_000, 150000)
    db.query("insert into pgrab.task (id, kind, priority) overriding system value values (17000000, 'noop', 100)")
    db.query("vacuum analyze pgrab.task")
    rows, many = look(db, limit=100)
    assert 17000000 in [r.id for r in rows], "the highest priority is among the first"
    assert many <= 3 * few + 2000, (few, many)


def statement(name, *values):
    """A statement of a node, with its parameters filled in as SQL."""
    text = re.sub(r"^--.*$", "", expand(ROOT / f"src/db/sql/{name}.sql"), flags=re.M)
    return re.sub(r"\$(\d+)", lambda m: values[int(m[1]) - 1], text)


def registered(db, name, n, down, labels="{}", kinds="{noop}", beat=1):
    """n nodes that are down, or up; no process belongs to them."""
    db.query("with r as (insert into pgrab.registration (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after, started_at,"
             " kinds, labels, down) select %s || i, 'h', 1, '0', 'id_hash', 8, '1 s', '20 s', now(), %s, %s, %s from generate_series(1, %s) i returning id)"
             " insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state) select id, %s, id, now(), %s from r",
             name, kinds, labels, down, n, beat, "down" if down else "up")


def pages(db, text):
    with db.connect() as conn:
        conn.execute(SESSION)
        plan = conn.execute("explain (analyze, buffers, format json) " + text).fetchone()[0]
    top = (plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]


def test_a_beat_that_does_not_ask_for_the_others_does_not_read_them(db):
    """With the plan that nodes have: it is made once and knows no parameter."""
    def beat(others):
        values = ["1", "1", "'up'", "true", "'{0}'", "'{0}'", "false", "false", "true", "null", "null", "null", "null", "null"]
        text = statement("node_beat_all" if others else "node_beat", *[f"${i}" for i in range(1, 15)])
        with db.connect() as conn:
            conn.execute(SESSION + "; set plan_cache_mode = force_generic_plan")
            conn.execute("prepare beat as " + text)
            rows = conn.execute(f"execute beat({', '.join(values)})").fetchall()
            plan = conn.execute(f"explain (analyze, buffers, format json) execute beat({', '.join(values)})").fetchone()[0][0]["Plan"]
        return len(rows), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    registered(db, "up", 1, down=False)
    alone = beat(False)
    registered(db, "other", 300, down=False)
    rows, many = beat(False)
    assert rows == 1 and many < alone[1] + 30, (alone, many)
    rows, many = beat(True)
    assert rows == 301 and many > 300, (rows, many)


def test_what_a_beat_asks_of_the_server_is_asked_once_however_many_others_there_are(cluster, db):
    cluster.superuser(f"alter database {db.name} set track_functions = 'all'")
    registered(db, "up", 1, down=False)
    registered(db, "other", 300, down=False)
    values = ["1", "1", "'up'", "true", "'{0}'", "'{0}'", "true", "false", "true", "false", "null", "null", "null", "null"]
    with db.connect(autocommit=False) as conn:
        rows = conn.execute(statement("node_beat_all", *values)).fetchall()
        calls = dict(conn.execute("select funcname, calls from pg_stat_xact_user_functions where funcname in ('may_lose', 'server_life')").fetchall())
    assert len(rows) == 301 and rows[0].durable and calls["may_lose"] == 1 and calls.get("server_life", 0) <= 2, (rows[0], calls)


def test_rows_of_a_kind_without_a_schema_are_not_checked_one_by_one(cluster, db):
    cluster.superuser(f"alter database {db.name} set track_functions = 'all'")
    db.query("insert into pgrab.kind (kind, summary, schema) values ('any', '', null), ('strict', '', '{}')")
    with db.connect(autocommit=False) as conn:
        def checked(kind):
            conn.execute(f"insert into pgrab.task (kind, args) select '{kind}', '{{\"a\": 1}}' from generate_series(1, 10)")
            return conn.execute("select sum(calls) from pg_stat_xact_user_functions where funcname = 'insert_check'").fetchone()[0]
        assert checked("any") is None and checked("strict") == 10


def test_nodes_that_are_down_cost_nothing(db):
    registered(db, "up", 2, down=False)
    db.query("insert into pgrab.task (kind) values ('noop')")
    asked = {"lanes": statement("lanes", "'{noop}'", "'{}'", "'{}'", "'{}'", "1", "'{}'", "8", "null"), "node_list": statement("node_list"),
             "bell": "select exists (select from pgrab_internal.bell)"}
    few = {name: pages(db, text) for name, text in asked.items()}
    registered(db, "pod", 2000, down=True)
    db.query("vacuum analyze pgrab.registration")
    db.query("vacuum analyze pgrab.beat")
    for name, text in asked.items():
        assert pages(db, text) <= few[name] + 20, name
    for asks in ("ring(smallint[])", "task_inserted()"):
        asked = db.one("select pg_get_functiondef(%s::regprocedure)", f"pgrab_internal.{asks}")
        assert "exists (select from pgrab_internal.bell)" in asked and "SET enable_seqscan TO 'off'" in asked, f"{asks} asks as above"


def test_a_node_that_has_gone_is_marked(db, nodes):
    node = nodes.start("n1")
    assert db.query("select down, state from pgrab.node") == [(False, "up")]
    node.end()
    assert db.query("select down, state from pgrab.node") == [(True, "down")]
    node = nodes.start("n1")
    assert db.query("select down, state from pgrab.node") == [(False, "up")]
    node.kill9()
    db.wait("select down from pgrab.node where state = 'down'")


def test_who_can_run_a_lane_is_worked_out_and_sent_once(db):
    """A thousand lanes beside three hundred nodes: each node asks this twice a minute."""
    registered(db, "eu", 200, down=False, labels='{"zone": "eu"}')
    registered(db, "any", 100, down=False)
    registered(db, "sql", 10, down=False, kinds="{sql}")
    db.query("insert into pgrab.lane (lane, band, owner, kind, require, delivery, shared, slots) select int8send(i), 2, 'o' || i % 500, 'noop',"
             " case i % 3 when 0 then '{\"zone\": \"eu\"}' else '{}' end::jsonb, 'at_least_once', false, 1 from generate_series(1, 1000) i")
    rows = db.query(statement("lanes", "'{noop}'", """'{"zone": "eu"}'""", "'{}'", "'{}'", "1", "'{}'", "8", "null"))
    able = None
    for row in rows:
        able = row.able if row.able is not None else able
        want = db.query("select n.id from pgrab.node n join pgrab.lane l on n.labels @> l.require and 'noop' = any (n.kinds) where l.id = %s", row.id) \
            if row.able is not None else None
        assert want is None or sorted(r.id for r in want) == sorted(int(x) for x in able.split())
    assert len({r.id for r in rows}) == 1000
    assert sum(r.able is not None for r in rows) == 2, "sent once for each set of nodes"
