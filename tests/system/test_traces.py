"""A request followed: from its insert through the links of a chain to what they run, and into the history."""
import json

import pytest
from handlers import Handlers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def handlers(tmp_path):
    return Handlers(tmp_path)


def test_what_a_chain_runs_belongs_to_the_trace_of_its_insert(db, nodes, handlers):
    handlers.start(nodes, """
@task("follow")
def follow(ctx):
    return ctx.traceparent
""", "follow", node={"allow": "sql,shell,noop"})
    handlers.wait_up(db)
    with db.connect() as conn, conn.transaction():
        conn.execute("select set_config('pgrab.traceparent', %s, true)", [PARENT])
        add = lambda *row: conn.execute("insert into pgrab.task (kind, command, parent_id, backoff) values (%s, %s, %s, '0') returning id", row).fetchone()[0]
        shell = add("shell", "echo $TRACEPARENT; test $PGRAB_ATTEMPT = 2", None)
        follow = add("follow", "", shell)
        sql = add("sql", "insert into pgrab.task (kind, name) values ('noop', 'made'); select current_setting('pgrab.traceparent')", follow)
    db.wait("select exists (select from pgrab.run where name = 'made')")
    runs = [*db.runs(shell), *db.runs(follow), *db.runs(sql)]
    assert [r.traceparent for r in runs] == [PARENT] * 4
    own = [r.output.strip() for r in runs]
    own[2] = json.loads(own[2])
    spans = [db.one("select pgrab_internal.span_of(%s, %s)", r.task_id, r.version) for r in runs]
    assert own == [f"00-{TRACE}-{span}-01" for span in spans] and len(set(spans)) == 4, "each attempt is a span of its own"
    assert db.one("select traceparent from pgrab.run where name = 'made'") == own[3], "what the sql task inserts is its child"
    db.wait_run(db.add(command="insert into pgrab.task (kind, name) values ('noop', 'next')"))
    assert db.one("select traceparent from pgrab.task where name = 'next' union all select traceparent from pgrab.run where name = 'next'") is None
