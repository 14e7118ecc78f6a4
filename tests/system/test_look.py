"""What a look costs: the same with few tasks and with very many."""
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SESSION = "set enable_seqscan = off; set enable_sort = off; set enable_material = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off"


def look(db, ahead_us=5_000_000, limit=8):
    """Runs look.sql as a node with all shards does; returns its rows and the buffers it touched."""
    text = (ROOT / "src/db/sql/look.sql").read_text(encoding="utf-8")
    values = {1: "(select array_agg(s)::smallint[] from generate_series(0, 1023) s)", 2: "(select array_agg('-infinity'::timestamptz) from generate_series(0, 1023))", 3: str(ahead_us),
              4: "'{noop}'", 5: "'{}'", 6: "true", 7: str(limit), 8: "10000000"}
    statement = re.sub(r"\$(\d)", lambda m: values[int(m[1])], re.sub(r"^--.*$", "", text, flags=re.M))
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
    db.query("insert into pgrab.task (kind, run_at, priority) select 'noop', now() + interval '2 hours' + i * interval '1 s', case when i % 4 = 0 then i % 7 else 0 end from generate_series(1, 200000) i")
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
