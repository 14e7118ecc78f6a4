"""A request followed: from its insert through the links of a chain to what they run, and into the history."""
import json

import pytest
from cluster import wait_until
from collector import Collector
from handlers import Handlers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def handlers(tmp_path):
    return Handlers(tmp_path)


@pytest.fixture
def collector():
    one = Collector()
    yield one
    one.close()


def test_what_a_chain_runs_belongs_to_the_trace_of_its_insert(db, nodes, handlers):
    node = handlers.start(nodes, """
@task("follow")
def follow(ctx):
    return ctx.traceparent
""", "follow", node={"allow": "sql,shell,noop"})
    handlers.wait_up(db)
    with db.connect() as conn, conn.transaction():
        conn.execute("select set_config('pgrab.traceparent', %s, true)", [PARENT])
        add = lambda *row: conn.execute("insert into pgrab.task (key, kind, command, parent_id, backoff) values (%s, %s, %s, %s, '0') returning id", row).fetchone()[0]
        shell = add("a \"key\"", "shell", "echo $TRACEPARENT; test $PGRAB_ATTEMPT = 2", None)
        follow = add(None, "follow", "", shell)
        sql = add(None, "sql", "insert into pgrab.task (kind, name) values ('noop', 'made'); select current_setting('pgrab.traceparent')", follow)
    db.wait("select exists (select from pgrab.run where name = 'made')")
    node.wait_log(rf'event=run task={shell} kind=shell attempt=1 .* key="a \\"key\\"" trace={TRACE} error=')
    runs = [*db.runs(shell), *db.runs(follow), *db.runs(sql)]
    assert [r.traceparent for r in runs] == [PARENT] * 4
    own = [r.output.strip() for r in runs]
    own[2] = json.loads(own[2])
    spans = [db.one("select pgrab_internal.span_of(%s, %s)", r.task_id, r.version) for r in runs]
    assert own == [f"00-{TRACE}-{span}-01" for span in spans] and len(set(spans)) == 4, "each attempt is a span of its own"
    assert db.one("select traceparent from pgrab.run where name = 'made'") == own[3], "what the sql task inserts is its child"
    db.wait_run(db.add(command="insert into pgrab.task (kind, name) values ('noop', 'next')"))
    assert db.one("select traceparent from pgrab.task where name = 'next' union all select traceparent from pgrab.run where name = 'next'") is None


def test_the_api_takes_the_trace_of_the_request(db, serving):
    serve = serving()
    add = lambda trace=PARENT, **task: db.one("select traceparent from pgrab.task where id = %s", serve.api(
        "POST", "/tasks", {"kind": "noop", "run_at": "2099-01-01", **task}, status=201, headers={"traceparent": trace})["id"])
    assert add() == PARENT and add(trace="nonsense") is None and add(schedule="@yearly") is None
    assert add(traceparent=PARENT.replace("4bf", "5bf")) == PARENT.replace("4bf", "5bf") and add(traceparent=None) is None


def metric(serve, name):
    return next(float(line.split()[-1]) for line in serve.get("/metrics").text.splitlines() if line.startswith(name))


def end_run(db, task, ago="4.9 s", **columns):
    """A run in the history, as if it had ended a while ago: what has just ended is left for the next look, five seconds later."""
    row = {"task_id": task, "version": 1, "attempt": 1, "outcome": "succeeded", "kind": "noop", "owner": "o", "traceparent": PARENT, **columns}
    db.query(f"insert into pgrab.run ({', '.join(row)}, created_at, claimed_at, finished_at) select {', '.join(['%s'] * len(row))}, "
             "c.at - interval '2 s', c.at - interval '1 s', c.at from (select clock_timestamp() - %s::interval as at) c", *row.values(), ago)


def test_runs_are_sent_as_spans(db, serving, collector):
    """To a collector that first is busy, then does not want a part of what it gets, then all of it, and then takes it."""
    collector.answers = [(503, {}), (200, {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "no"}}), (400, {"long": "x" * 100_000})]
    serve = serving(otlp=collector.url + "/", otlp_headers="x-key=se=cret, x-other=1")
    db.wait("select exists (select from pg_stat_activity where application_name = 'pgrab serve otlp' and state = 'idle')")
    end_run(db, 1, name='first \u00fc"', exit_code=7, outcome="failed", error="why\nnot")
    wait_until(lambda: collector.requests == 2 and metric(serve, 'pgrab_otlp_runs_total{result="refused"}') == 1, 10, "an answer that refuses one")
    end_run(db, 2)
    wait_until(lambda: metric(serve, 'pgrab_otlp_runs_total{result="refused"}') == 2, 10, "an answer that refuses all")
    end_run(db, 3)
    wait_until(lambda: metric(serve, 'pgrab_otlp_runs_total{result="sent"}') == 1, 10, "a run that is taken")
    assert collector.faults == [] and [s["name"] for s in collector.spans] == ['first \u00fc" waits', 'first \u00fc"', "noop waits", "noop"]
    assert collector.spans[1]["status"] == {"code": 2, "message": "why\nnot"} and collector.headers[0]["x-key"] == "se=cret"
    assert "se=cret" not in serve.log() and serve.log().count("answered 503") == 1


def test_what_is_too_far_behind_is_dropped_and_counted(db, serving, collector):
    serve = serving(otlp=collector.url, otlp_behind="100ms")
    db.wait("select exists (select from pg_stat_activity where application_name = 'pgrab serve otlp' and clock_timestamp() - backend_start > interval '500 ms')")
    end_run(db, 1, ago="5.2 s")
    wait_until(lambda: metric(serve, 'pgrab_otlp_runs_total{result="dropped"}') == 1, 10, "a run that is dropped")
    assert collector.requests == 0
    wait_until(lambda: metric(serve, "pgrab_otlp_behind_seconds") == 0, 10, "it has all that there is")
