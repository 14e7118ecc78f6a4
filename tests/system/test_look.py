"""What a look costs: the same with few tasks and with very many."""
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SESSION = "set enable_seqscan = off; set enable_sort = off; set enable_material = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off"


def look(db, ahead_us=5_000_000, limit=8):
    """Runs look.sql as a node that runs noop, with all shards, does; returns its rows and the buffers it touched."""
    text = (ROOT / "src/db/sql/look.sql").read_text(encoding="utf-8")
    text = text.replace(":look_rows", (ROOT / "src/db/sql/look_rows.inc").read_text(encoding="utf-8"))
    lanes = [r.lane for r in db.query("select distinct lane from pgrab.lane where kind = 'noop' and require = '{}'")]
    n = len(lanes)
    values = {1: f"array{lanes}", 2: f"array{[i * 1024 + 1 for i in range(n)]}", 3: f"array{[i * 1024 + 1024 for i in range(n)]}",
              4: f"(select array_agg(s %% 1024)::smallint[] from generate_series(0, {n * 1024 - 1}) s)".replace("%%", "%"),
              5: f"array_fill(null::bigint, array[{n * 1024}])", 6: f"array{[ahead_us] * n}::bigint[]", 7: "'{noop}'", 8: "'{}'", 9: "true",
              10: f"array{[limit] * n}::bigint[]", 11: "array[current_user::text]", 12: "'{}'",
              13: f"array{[limit // 8 + 1] * n}::bigint[]"}
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
