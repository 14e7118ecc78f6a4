"""Tasks that wait for signals: on real nodes, from SQL, the command line, the API and the page; and waits in vain."""
import http.server
import json
import threading

import pytest
from cluster import run_pgrab, stays
from handlers import Handlers


@pytest.fixture
def handlers(tmp_path):
    return Handlers(tmp_path)


def waits(db, task):
    return db.one("select waits_for from pgrab.waits where id = %s", task)


def test_a_run_gets_what_came_with_its_signal(db, nodes):
    nodes.start(allow="sql,shell,exec,http,notify,noop")
    db.query("create table got (what jsonb)")
    shell = db.add(kind="shell", command='printf %s "$PGRAB_SIGNAL"', wait_for="go")
    sql = db.add(kind="sql", command="insert into got values ($1::jsonb) -- $1", wait_for="go")
    plain = db.add(kind="sql", command="select '$1'", wait_for="go")
    several = db.add(kind="sql", command="select 1; select 2", wait_for="go")
    null = db.add(kind="sql", command="select $1::text is null", wait_for="go")
    noop = db.add(kind="noop", wait_for="go")
    for task in (shell, sql, plain, several):
        assert waits(db, task) == "go"
        db.query("select pgrab.signal(%s, 'go', %s)", task, '{"by": "ann", "n": [1, "ü"]}')
    db.query("select pgrab.signal(array[%s, %s]::bigint[], 'go')", null, noop)
    assert json.loads(db.wait_run(shell).output) == {"by": "ann", "n": [1, "ü"]}
    for task in (sql, plain, several, null, noop):
        run = db.wait_run(task)
        assert (run.outcome, run.error) == ("succeeded", None)
    assert db.one("select what ->> 'by' from got") == "ann" and db.runs(plain)[0].output.strip() == "$1" and db.runs(null)[0].output.strip() == "true"


def test_a_request_has_what_came_with_its_signal_as_its_body(db, nodes):
    class Target(http.server.BaseHTTPRequestHandler):
        got = []

        def do_POST(self):
            self.got.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        nodes.start(allow="http", http_hosts="127.0.0.1")
        task = db.add(kind="http", command=f"http://127.0.0.1:{server.server_port}/", wait_for="go")
        db.query("select pgrab.signal(%s, 'go', %s)", task, '{"by": "ann"}')
        run = db.wait_run(task)
        assert (run.outcome, run.error) == ("succeeded", None)
        assert Target.got == [("application/json", b'{"by": "ann"}')]
    finally:
        server.shutdown()
        server.server_close()


def test_handlers_find_what_came_with_the_signal(db, nodes, handlers):
    handlers.start(nodes, """
@task("approve")
def approve(ctx):
    return ctx.signal["by"]
""", "approve")
    handlers.wait_up(db)
    task = db.add(kind="approve", wait_for="go")
    db.query("select pgrab.signal(%s, 'go', %s)", task, '{"by": "ann"}')
    assert json.loads(db.wait_run(task).output) == "ann"


def test_a_wait_ends_on_time_and_never_early(db, nodes):
    """200 waits that are over at different moments within three seconds: how late each of them ends."""
    nodes.start("a")
    nodes.start("b")
    db.query("insert into pgrab.task (kind, name, wait_for, wait_timeout) select 'noop', 't', 'go', (0.3 + n * 0.015) * interval '1 s' from generate_series(1, 200) n")
    ends = {r.task_id: r.until for r in db.query("select task_id, until from pgrab.wait")}
    assert len(ends) == 200
    db.wait("select count(*) = 200 from pgrab.task where status = 'parked' and last_outcome = 'timed_out'", timeout=20)
    late = sorted((r.finished_at - ends[r.task_id]).total_seconds() for r in db.query("select task_id, finished_at from pgrab.run"))
    assert len(late) == 200 and late[0] >= 0
    print("late: median", late[100], "p99", late[197])
    assert late[100] < 0.25
    assert db.one("select count(*) from pgrab.wait") == 0


def test_a_node_that_cannot_be_told_of_a_wait_ends_it_all_the_same(db, nodes):
    """Its listening connection is ended: then it asks by itself."""
    nodes.start("a", listen_dsn="host=/nowhere")
    task = db.add(kind="noop", wait_for="go", wait_timeout="1500 ms")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task, timeout=8)


@pytest.mark.deadline(60)
def test_when_the_node_that_ends_waits_is_killed_another_does(db, nodes):
    nodes.start("a", dead_after="4s", fence_after="1s", kill_grace="200ms", heartbeat="200ms")
    nodes.start("b", dead_after="4s", fence_after="1s", kill_grace="200ms", heartbeat="200ms")
    task = db.add(kind="noop", wait_for="go", wait_timeout="2 s")
    nodes.all[0].kill9()
    db.wait("select status = 'parked' from pgrab.task where id = %s", task, timeout=20)


def test_an_approval_in_a_chain(db, nodes, serving):
    """Build, wait for a person, deploy; the refusal of a second one is an alarm."""
    nodes.start(allow="shell,noop")
    serve = serving()
    with db.connect() as conn, conn.transaction():
        build = conn.execute("insert into pgrab.task (kind, command, name) values ('shell', 'true', 'build') returning id").fetchone()[0]
        approve = conn.execute("insert into pgrab.task (kind, name, wait_for, parent_id) values ('noop', 'approve', 'approved', %s) returning id", [build]).fetchone()[0]
        deploy = conn.execute("insert into pgrab.task (kind, command, name, parent_id) values ('shell', 'echo done', 'deploy', %s) returning id", [approve]).fetchone()[0]
    db.wait("select exists (select from pgrab.waits where id = %s)", approve)
    gates = {g["gate"]: g for g in serve.api("GET", f"/tasks/{approve}/explain")}
    assert gates["signal"]["verdict"] == "waits" and f"select pgrab.signal({approve}, 'approved') sends it" in gates["signal"]["detail"]
    assert serve.api("GET", f"/tasks/{approve}")["waits_for"] == "approved"
    assert serve.ask("POST", f"/api/v1/tasks/{approve}/signals/aproved").status == 400
    stays(lambda: db.one("select status from pgrab.task where id = %s", deploy) == "waiting", 0.3)
    assert serve.api("POST", f"/tasks/{approve}/signals/approved", {"note": "fine"})[0]["id"] == approve
    assert db.wait_run(deploy).outcome == "succeeded"
    who = serve.api("GET", f"/tasks/{approve}")["signals"]
    assert [(s["name"], s["payload"], s["role"]) for s in who] == [("approved", {"note": "fine"}, db.one("select current_user"))]
    assert db.one("select detail ->> 'signal' from pgrab.event where task_id = %s and what = 'signal'", approve) == "approved"


def test_the_command_line_sends_signals(db, nodes):
    nodes.start(allow="shell")
    run_pgrab("add", "--kind", "shell", "--key", "release", "--wait-for", "go", "--wait-timeout", "1h", "echo $PGRAB_SIGNAL", dsn=db.dsn)
    assert '"wait_for": "go"' in run_pgrab("show", "release", "--json", dsn=db.dsn).stdout
    listed = json.loads(run_pgrab("waits", "--json", dsn=db.dsn).stdout)
    assert [(w["name"], w["waits_for"], w["paused"]) for w in listed] == [("release", "go", False)]
    wrong = run_pgrab("signal", "release", "stop", dsn=db.dsn, check=False)
    assert wrong.returncode == 1 and "does not wait for signal 'stop'" in wrong.stderr and "It waits for 'go'" in wrong.stderr
    assert "release" in run_pgrab("signal", "release", "go", '{"n": 1}', dsn=db.dsn).stdout
    task = db.one("select task_id from pgrab.event where what = 'signal'")
    assert json.loads(db.wait_run(task).output) == {"n": 1}


def test_an_idle_cluster_pays_nothing_for_waiting_tasks(db, nodes):
    """100,000 tasks wait: no statement of a node reads them, and none is in the index of due tasks."""
    db.query("insert into pgrab.task (kind, wait_for, wait_timeout) select 'noop', 'go', '1 day' from generate_series(1, 100000)")
    db.query("vacuum analyze pgrab.task")
    nodes.start()
    reads = "select coalesce(sum(idx_tup_fetch + seq_tup_read), 0) from pg_stat_user_tables where schemaname = 'pgrab' and relname in ('task', 'wait')"
    done = db.add(kind="noop")
    db.wait_run(done)
    db.wait("select next_id is null and done_at > 'epoch' from pgrab.duty where duty = 'strays'", timeout=30)  # reads all tasks once
    before = db.one(reads)
    stays(lambda: db.one("select count(*) from pgrab.node where live") == 1, 4)
    assert db.one(reads) - before < 1000


def test_who_holds_a_link_keeps_no_other_wait_from_ending(db, nodes):
    nodes.start()
    held, other = (db.add(kind="noop", wait_for="go", wait_timeout="1 s") for _ in range(2))
    child = db.add(kind="noop", parent_id=held)
    with db.connect() as user:
        user.execute("begin")
        user.execute("update pgrab.task set name = 'x' where id = %s", (child,))
        assert db.wait_run(other).outcome == "timed_out"
        assert db.one("select status from pgrab.task where id = %s", held) == "waiting"
        user.execute("commit")
    assert db.wait_run(held).outcome == "timed_out"
