"""What operating a cluster takes: alerts that arrive, the switch for all, files of tasks, a crontab, a doctor."""
import http.server
import json
import os
import pwd
import queue
import re
import signal
import subprocess
import threading

import psycopg
import pytest
from cluster import clean_env, pgrab_bin, process_table, run_pgrab, stays, wait_until


def pgrab(db, *args, **options):
    return run_pgrab(*args, dsn=db.dsn, **options).stdout


def as_json(db, *args):
    return json.loads(pgrab(db, *args, "--json"))


def fails(status, db, *args):
    done = run_pgrab(*args, dsn=db.dsn, check=False)
    assert done.returncode == status, done
    return done.stderr


@pytest.fixture
def webhook():
    """A local HTTP server; .url, and .got: a queue of (headers, body)."""
    got = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.put((self.headers, self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.got = got
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


# ------------------------------------------------------------------------------------------------------------ alerts

def test_a_webhook_hears_once_of_a_failure_and_once_of_the_recovery(db, nodes, webhook, tmp_path):
    nodes.start(allow="shell,http")
    flag = tmp_path / "mended"
    db.query("insert into pgrab.alert (name, template) values ('chat', %s)", json.dumps(
        {"kind": "http", "command": webhook.url, "args": {"body": {"text": "{{text}}", "node": "{{node}}"}}}))
    task = db.add(kind="shell", command=f"test -e {flag} || {{ echo 'no \"flag\"' >&2; exit 3; }}", key="nightly", schedule="@every 1s", max_attempts=1)
    first = json.loads(webhook.got.get(timeout=20)[1])
    assert first["text"].startswith("nightly failed: ") and first["node"] == "n1", first
    db.wait("select failures >= 3 from pgrab.failing where name = 'nightly'", timeout=20)
    assert webhook.got.empty()
    flag.touch()
    flag.chmod(0o644)
    second = json.loads(webhook.got.get(timeout=20)[1])["text"]
    assert re.match(r"nightly has recovered: \d+ failures since ", second)
    assert db.query("select * from pgrab.failing") == [] and db.one("select count(*) from pgrab.incident") == 0
    db.wait("select count(*) = 2 from pgrab.run where task_id <> %s and outcome = 'succeeded' and kind = 'http'", task)


def test_an_alert_that_meets_a_lock_is_sent_when_the_lock_is_gone(db, nodes, webhook):
    nodes.start(allow="http,noop,shell")
    db.query("insert into pgrab.limit (key, max_running) values ('hooks', 2)")
    db.wait("select count(*) = 1 from pgrab.node where state = 'up'")
    task = db.add(kind="shell", command="sleep 1; exit 7", name="load", max_attempts=1, on_failure={"kind": "http", "command": webhook.url, "limit_key": "hooks"})
    with psycopg.connect(db.dsn) as other:
        other.execute("lock table pgrab.limit in access exclusive mode")
        db.wait("select exists (select from pgrab.run where task_id = %s)", task, timeout=30)
        db.wait("select coalesce(max(tries), 0) > 0 from pgrab_internal.notice", timeout=20)
    facts = json.loads(webhook.got.get(timeout=20)[1])
    assert facts["task"] == "load" and webhook.got.empty() and db.one("select count(*) from pgrab_internal.notice") == 0


def test_on_failure_posts_the_facts(db, nodes, webhook):
    nodes.start(allow="http,noop,shell")
    task = db.add(kind="shell", command="exit 7", name="load", max_attempts=1, source="etl", on_failure={"kind": "http", "command": webhook.url})
    facts = json.loads(webhook.got.get(timeout=20)[1])
    assert (facts["event"], facts["task"], facts["id"], facts["source"], facts["outcome"], facts["failures"]) == ("parked", "load", str(task), "etl", "failed", "1")


def test_a_wait_that_is_too_long_is_told_of_once(db, nodes, webhook):
    nodes.start(allow="http,noop")
    db.query("insert into pgrab.alert (name, events, after, template) values ('late', '{waiting}', '1 s', %s)",
             json.dumps({"kind": "http", "command": webhook.url}))
    task = db.add(kind="noop", key="release", wait_for="approved")
    # Else the duty may be done before the wait is too long, and is due again only in a minute.
    db.wait("select since < clock_timestamp() - interval '1 s' from pgrab.wait where task_id = %s", task)
    db.query("update pgrab.duty set done_at = '-infinity' where duty = 'waiting'")
    db.wait("select told > '0' from pgrab.wait where task_id = %s", task, timeout=40)
    facts = json.loads(webhook.got.get(timeout=20)[1])
    assert (facts["event"], facts["id"], facts["error"]) == ("waiting", str(task), "waits for signal 'approved'"), facts
    db.query("update pgrab.duty set done_at = '-infinity' where duty = 'waiting'")
    db.wait("select done_at > '-infinity' from pgrab.duty where duty = 'waiting'", timeout=20)
    db.wait("select not exists (select from pgrab_internal.notice)")
    assert webhook.got.empty()


def test_a_run_that_is_slow_is_told_of_while_it_goes_on(db, nodes, webhook, tmp_path):
    nodes.start(allow="http,shell")
    go = tmp_path / "go"
    task = db.add(kind="shell", command=f"while ! test -e {go}; do sleep 0.1; done", key="report", schedule="0 0 1 1 *", slow_after="1 s")
    db.query("insert into pgrab.alert (name, events, template) values ('slow', '{slow}', %s)", json.dumps({"kind": "http", "command": webhook.url}))
    db.query("select pgrab.run_now(%s)", task)
    facts = json.loads(webhook.got.get(timeout=30)[1])
    assert (facts["event"], facts["task"], facts["error"]) == ("slow", "report", "longer than slow_after (00:00:01)"), facts
    assert db.one("select eta is null from (select started_at + pgrab_tool.usual(durations) as eta from pgrab.task where id = %s) x", task)
    go.touch()
    db.wait("select usual > '1 s' from pgrab.tasks where id = %s", task)
    assert db.one("select count(*) from pgrab.event where what = 'slow' and task_id = %s", task) == 1


def test_alerts_by_the_clock_come_in_time(db, nodes, webhook):
    nodes.start(allow="http,sql")
    template = json.dumps({"kind": "http", "command": webhook.url, "args": {"body": {"text": "{{text}}", "all": "{{error}}"}}})
    db.add(kind="sql", command="select 1/0", key="broken", max_attempts=1)
    db.wait("select count(*) = 1 from pgrab.parked")
    db.query("insert into pgrab.alert (name, events, schedule, template) values ('pulse', '{alive}', '@every 1s', %s)", template)
    came = [json.loads(webhook.got.get(timeout=20)[1])["text"] for _ in range(3)]
    assert came == ["all is well: 1 node is up"] * 3
    db.query("delete from pgrab.alert")
    db.query("insert into pgrab.alert (name, events, schedule, template) values ('digest', '{digest}', '@every 1h', %s)", template)
    db.query("update pgrab.alert set told_at = now() - interval '1 hour', next_at = now() where name = 'digest'")
    db.query("notify pgrab, 'waits'")
    while True:
        said = json.loads(webhook.got.get(timeout=20)[1])
        if said["text"].startswith("since"):
            break
    assert said["text"].endswith(": 1 failed") and said["all"] == "broken failed once: division by zero (SQLSTATE 22012)", said


def test_what_no_node_can_do_for_all_is_a_warning(db, nodes):
    node = nodes.start(allow="noop")
    db.query("drop function pgrab_internal.clock_tick() cascade")
    db.query("notify pgrab, 'waits'")
    node.wait_log(r"warn .* event=waits error=\".*clock_tick.* hint=\"no node does this until it works")


def test_mail_by_shell(db, nodes, tmp_path):
    nodes.start(allow="shell")
    tmp_path.chmod(0o777)
    letter = tmp_path / "letter"
    mail = f"{{ echo \"Subject: $PGRAB_ALERT_TASK $PGRAB_ALERT_EVENT\"; echo; cat; }} > {letter}.new && mv {letter}.new {letter}"
    db.add(kind="shell", command="echo '$(reboot)' >&2; exit 7", key="backup", max_attempts=1, on_failure={"kind": "shell", "command": mail})
    wait_until(letter.exists, 20, "the letter")
    text = letter.read_text()
    assert text.startswith("Subject: backup parked\n\nbackup is parked after 1 of 1 attempts: ") and "\noutcome: failed\n" in text


def test_a_run_that_fails_is_a_warning_in_the_log(db, nodes):
    node = nodes.start("n1", allow="shell,noop")
    good, bad = db.add(kind="noop"), db.add(kind="shell", command="exit 3", max_attempts=1)
    db.wait("select count(*) = 2 from pgrab.run")
    node.wait_log(rf"warn .* event=run task={bad} kind=shell attempt=1 of=1 outcome=failed .*error=\"")
    assert f"task={good} " not in "".join(line for line in node.log().splitlines() if "event=run" in line)


def test_a_lost_run_is_told_of(db, nodes):
    db.query("insert into pgrab.alert (name, template) values ('chat', '{\"kind\": \"notify\", \"command\": \"c\"}')")
    node = nodes.start("n1", allow="shell")
    db.add(kind="shell", command="sleep 60", key="long", max_attempts=1)
    db.wait("select status = 'running' from pgrab.task where key = 'long'")
    node.kill9()
    nodes.start("n2", allow="noop")
    db.wait("select exists (select from pgrab.task where source = 'pgrab.alert' and args ->> 'payload' like 'long is parked%%')", timeout=30)


@pytest.mark.parametrize("how", ["killed", "with its keeper", "frozen"])
def test_a_webhook_hears_once_that_a_node_is_down_and_once_that_it_is_back(db, nodes, webhook, how):
    nodes.start("n1", allow="http,noop")
    dies = nodes.start("n2", allow="noop")
    db.query("insert into pgrab.alert (name, events, node_like, template) values ('nodes', '{node_down,node_up}', 'n2', %s)", json.dumps(
        {"kind": "http", "command": webhook.url, "args": {"body": {"event": "{{event}}", "text": "{{text}}", "node": "{{node}}"}}}))
    if how == "frozen":
        dies.stop()
    else:
        dies.stop()
        for pid, (parent, _, _) in process_table().items():
            if parent == dies.pid and how == "with its keeper":
                os.kill(pid, signal.SIGKILL)
        dies.kill9()
    down = json.loads(webhook.got.get(timeout=20)[1])
    assert (down["event"], down["node"]) == ("node_down", "n2") and re.match(r"node n2 on \S+ is down: ", down["text"]), down
    assert db.one("select count(*) from pgrab.node_incident") == 1
    if how == "frozen":
        dies.cont()
    else:
        nodes.start("n2", allow="noop")
    up = json.loads(webhook.got.get(timeout=20)[1])
    assert (up["event"], up["node"]) == ("node_up", "n2") and "is back: it was down since " in up["text"], up
    assert db.one("select count(*) from pgrab.node_incident") == 0 and webhook.got.empty()


def test_a_node_that_is_stopped_is_no_incident(db, nodes):
    db.query("insert into pgrab.alert (name, events, template) values ('nodes', '{node_down,node_up}', '{\"kind\": \"noop\"}')")
    nodes.start("n1", allow="noop").end()
    nodes.start("n1", allow="noop").end()
    assert db.one("select count(*) from pgrab.node_incident") == 0 and db.one("select count(*) from pgrab.run") == 0 == db.one("select count(*) from pgrab.task")


# --------------------------------------------------------------------------------------------------- why it does not run

def test_explain_names_the_session_that_has_locked_the_row(db, nodes):
    nodes.start()
    task = db.add(kind="noop", key="k", run_at="2100-01-01")
    with psycopg.connect(db.dsn, application_name="somebody") as other:
        other.execute("select from pgrab.task where id = %s for update", (task,))
        pid = other.info.backend_pid
        wait_until(lambda: [g for g in as_json(db, "explain", "k") if g["gate"] == "row"], 10, "the gate")
        gate = [g for g in as_json(db, "explain", "k") if g["gate"] == "row"][0]
        assert gate["verdict"] == "blocked" and f"Session {pid} " in gate["detail"] and "somebody" in gate["detail"]
        assert f"pg_terminate_backend({pid})" in gate["detail"]
    assert not [g for g in as_json(db, "explain", "k") if g["gate"] == "row"]


# --------------------------------------------------------------------------------------------------- the switch for all

def test_pause_all_stops_every_start_until_resume_all(db, nodes):
    nodes.start("n1")
    nodes.start("n2")
    soon = [db.add(kind=kind, command=command, run_at=db.one("select now() + interval '2 s'"))
            for kind, command in [("noop", ""), ("shell", "true"), ("sql", "select 1")] for _ in range(5)]
    db.wait("select exists (select from pgrab.task where status = 'claimed')")
    assert pgrab(db, "pause", "--all").splitlines()[1].startswith("all tasks are paused from now on")
    assert db.one("select count(*) from pgrab.task where status = 'claimed'") == 0
    db.add(kind="noop")
    stays(lambda: not db.query("select from pgrab.run"), 3.5, "no start")
    assert "were already paused" in pgrab(db, "pause", "--all")
    assert "all tasks have been paused since" in pgrab(db, "status")
    assert db.one("select why from pgrab.late limit 1") == "all tasks are paused"
    assert ("blocked", True) in [(g["verdict"], "pgrab.resume_all()" in g["detail"]) for g in as_json(db, "explain", soon[0])]
    assert "tasks are taken again" in pgrab(db, "resume", "--all")
    db.wait("select count(*) = 16 from pgrab.run where outcome = 'succeeded'", timeout=15)
    assert "nothing was paused" in pgrab(db, "resume", "--all")


def test_pause_all_stops_what_somebody_had_locked_at_that_moment_too(db, nodes):
    """It waits for nobody's lock, so such a task stays with its node: it is the start that is refused."""
    nodes.start("n1", lookahead="10s")
    task = db.add(kind="shell", command="true", run_at=db.one("select now() + interval '3 s'"))
    db.wait("select status = 'claimed' from pgrab.task where id = %s", task)
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = %s for update", [task])
        pgrab(db, "pause", "--all")
        person.rollback()
    assert db.one("select status from pgrab.task where id = %s", task) == "claimed"
    stays(lambda: not db.query("select from pgrab.run") and db.one("select status <> 'running' from pgrab.task where id = %s", task), 5, "no start")
    pgrab(db, "resume", "--all")
    assert db.wait_run(task).outcome == "succeeded"


# --------------------------------------------------------------------------------------------------------- waiting

def test_wait_ends_with_the_fire(db, nodes):
    nodes.start()
    good = db.add(kind="shell", command="sleep 0.5")
    assert pgrab(db, "wait", good) == "succeeded\n"
    assert pgrab(db, "wait", good) == "succeeded\n"  # it has ended already
    bad = db.add(kind="shell", command="exit 3", key="bad", max_attempts=2, backoff="100 ms")
    done = run_pgrab("wait", "bad", dsn=db.dsn, check=False)
    assert done.returncode == 1 and done.stdout.startswith("failed: ")
    assert db.one("select count(*) from pgrab.run where task_id = %s", bad) == 2
    again = db.add(kind="noop", schedule="@every 1s")
    assert as_json(db, "wait", again) == {"outcome": "succeeded"}
    never = db.add(kind="noop", run_at="2100-01-01")
    assert "not ended yet" in fails(1, db, "wait", never, "--timeout", "300ms")
    assert "no task 4711" in fails(3, db, "wait", "4711")


def test_run_now_can_wait_for_the_fire_that_it_makes_due(db, nodes):
    """However soon that ends."""
    nodes.start(allow="shell")
    db.add(kind="shell", command="true", key="good", schedule="0 0 1 1 *")
    db.add(kind="shell", command="exit 3", key="bad", schedule="0 0 1 1 *", max_attempts=1)
    for _ in range(5):
        assert pgrab(db, "run-now", "good", "--wait", "--timeout", "20s") == "succeeded\n"
    done = run_pgrab("run-now", "bad", "--wait", "--timeout", "20s", dsn=db.dsn, check=False)
    assert done.returncode == 1 and done.stdout.startswith("failed: exit code 3"), done
    assert "--wait is for one task" in fails(2, db, "run-now", "good", "bad", "--wait")
    assert "no task has the key" in fails(3, db, "run-now", "nobody", "--wait")


def test_drain_waits_until_nothing_runs_there(db, nodes):
    nodes.start("n1")
    task = db.add(kind="shell", command="sleep 1.5")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    assert "not ended yet" in fails(1, db, "drain", "n1", "--wait", "--timeout", "100ms")
    pgrab(db, "drain", "n1", "--wait")
    assert db.runs(task)[0].outcome == "succeeded"


# ------------------------------------------------------------------------------------------------------ files of tasks

FILE = {"source": "etl", "limits": [{"key": "api", "max_running": 2}], "tasks": [
    {"key": "extract", "kind": "noop", "schedule": "@daily"},
    {"key": "a", "kind": "noop", "parents": ["extract"]}, {"key": "b", "kind": "noop", "parents": ["extract"]},
    {"key": "load", "kind": "noop", "parents": ["a", "b"]},
    {"key": "clean", "kind": "shell", "command": "true", "schedule": "0 3 * * *", "limit_key": "api", "timeout": "5 min"}]}


def test_apply_makes_tasks_what_a_file_says(db, tmp_path):
    path = tmp_path / "tasks.json"

    def apply(tasks, *args):
        path.write_text(json.dumps({**FILE, "tasks": tasks}))
        return [(r["action"], r["name"], r["what"]) for r in as_json(db, "apply", path, *args) if r["object"] == "task"]

    tasks = FILE["tasks"]
    assert [r[:2] for r in apply(tasks, "--dry-run")] == [("add", k) for k in ("a", "b", "clean", "extract", "load")]
    assert db.one("select count(*) from pgrab.task") == db.one("select count(*) from pgrab.limit") == 0
    assert len(apply(tasks)) == 5
    versions = db.query("select id, version, updated_at from pgrab.task order by id")
    assert apply(tasks) == [] and db.query("select id, version, updated_at from pgrab.task order by id") == versions
    assert pgrab(db, "apply", path) == "Nothing changes.\n"
    assert db.query("select parent_id from pgrab_internal.parents_of(pgrab_tool.id_of('load')) order by 1") == db.query(
        "select id from pgrab.task where key in ('a', 'b') order by 1")
    changed = [*tasks[:4], {**tasks[4], "schedule": "0 4 * * *", "priority": 5}]
    del changed[4]["timeout"]
    assert apply(changed, "--dry-run") == apply(changed) == [
        ("change", "clean", "priority: 0 -> 5; schedule: 0 3 * * * -> 0 4 * * *; timeout: 00:05:00 -> 01:00:00")]
    other = db.add(kind="noop", key="mine", run_at="2100-01-01")
    assert apply(changed[:4]) == []
    assert apply(changed[:4], "--prune") == [("delete", "clean", "shell 0 4 * * * true")] and apply(changed[:4]) == []
    assert db.one("select count(*) from pgrab.task where id = %s", other) == 1
    # paused by a person it stays so
    pgrab(db, "pause", "extract")
    assert apply(changed[:4]) == [] and db.one("select paused from pgrab.task where key = 'extract'")


def test_what_export_prints_changes_nothing_when_it_is_applied(db, tmp_path):
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(FILE))
    pgrab(db, "apply", path)
    db.add(kind="http", command="http://localhost/", key="full", args={"headers": {"a": "b"}}, run_at="2100-01-01", require={"zone": "eu"}, misfire="all", source="x",
           on_failure={"kind": "noop"}, expect_within="1 day", keep="3 days", stall_after="1 min", jitter="10 s", schedule="@daily", starts_at="2090-01-01", paused=True)
    text = pgrab(db, "export")
    path.write_text(text)
    assert pgrab(db, "apply", path) == "Nothing changes.\n"
    assert [t["key"] for t in json.loads(pgrab(db, "export", "--source", "x"))["tasks"]] == ["full"]
    db.query("delete from pgrab.task where key in ('full', 'load', 'clean')")
    assert len(as_json(db, "apply", path)) == 3 and pgrab(db, "export") != "" and json.loads(pgrab(db, "export"))["limits"] == json.loads(text)["limits"]


@pytest.mark.parametrize("file, said", [
    ({"tasks": [{"kind": "noop"}]}, "it has no key. Each task in a file must be an object with a key."),
    ({"tasks": [{"key": "k", "kinds": "noop"}]}, "task 'k': kinds is not a column that can be set."),
    ({"tasks": [{"key": "k", "kind": "noop", "parents": ["p"]}]}, "task 'k': its parent 'p' does not exist."),
    ({"tasks": [{"key": "k", "kind": "ruby"}]}, "task 'k': task kind cannot be 'ruby'."),
    ({"task": []}, "the file holds no tasks."),
])
def test_apply_refuses_the_whole_file(db, tmp_path, file, said):
    path = tmp_path / "tasks.json"
    good = {"key": "good", "kind": "noop"}
    path.write_text(json.dumps({**file, "tasks": [good, *file["tasks"]]} if "tasks" in file else file))
    assert said in fails(1, db, "apply", path)
    assert db.one("select count(*) from pgrab.task") == 0


def test_apply_says_all_that_is_wrong_at_once(db, tmp_path):
    path = tmp_path / "tasks.json"
    tasks = [{"key": f"bad{n}", "kind": "noop", "schedule": f"{60 + n} * * * *"} for n in range(3)]
    path.write_text(json.dumps([*tasks, {"key": "good", "kind": "noop"}, {"key": "child", "kind": "noop", "parents": ["bad1"]}, {"key": "why", "what": 1}]))
    said = fails(1, db, "apply", path).splitlines()
    assert [re.match(r"pgrab apply: task '(\w+)': ", line)[1] for line in said[:-1]] == ["bad0", "bad1", "bad2", "why"]
    assert "task schedule cannot be '61 * * * *'. Minute 61 is out of range" in said[1] and "4 of 6 tasks of the file are refused: bad0, bad1, bad2, why" in said[-1]
    assert db.one("select count(*) from pgrab.task") == 0


def test_apply_says_where_a_file_is_no_json(db, tmp_path):
    path = tmp_path / "tasks.json"
    path.write_text('{"source": "x",\n "tasks": [\n  {"key": "a" "kind": "noop"}]}\n')
    assert f"pgrab apply: {path}, line 3, column 15: it is not JSON here: \"kind\": \"noop\"}}]}}\n" == fails(1, db, "apply", path)
    path.write_text('{"source": "x",\n')
    assert "line 2, column 1: it is not JSON here: it ends" in fails(1, db, "apply", path)


def test_a_chain_is_pruned_deleted_and_brought_back_as_a_whole(db, tmp_path):
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(FILE))
    pgrab(db, "apply", path)
    assert "other tasks wait for it" in fails(1, db, "delete", "extract", "load")
    assert len(as_json(db, "delete", "extract", "a", "b", "load")) == 4
    assert [t["name"] for t in as_json(db, "undelete", "extract", "a", "b", "load")] == ["extract", "a", "b", "load"]
    assert pgrab(db, "apply", path) == "Nothing changes.\n"
    path.write_text(json.dumps({**FILE, "tasks": FILE["tasks"][4:]}))
    assert sorted(r["name"] for r in as_json(db, "apply", path, "--prune")) == ["a", "b", "extract", "load"]
    assert "is live" in fails(1, db, "undelete", "clean") and "no task has the key or name 'nobody'" in fails(3, db, "undelete", "nobody")


def test_apply_leaves_what_belongs_to_others(db, tmp_path):
    db.add(kind="noop", key="extract", source="billing", run_at="2100-01-01")
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(FILE))
    assert "task 'extract': it belongs to source 'billing'." in fails(1, db, "apply", path)
    path.write_text(json.dumps(FILE["tasks"]))
    assert "within one source" in fails(1, db, "apply", path, "--prune")
    assert "could not open" in fails(1, db, "apply", tmp_path / "none")


def test_apply_takes_sql_too(db, tmp_path):
    path = tmp_path / "tasks.sql"
    path.write_text("insert into pgrab.task (key, kind, run_at) values ('k', 'noop', '2100-01-01') on conflict (key) do update set name = 'n'; select 1;")
    assert as_json(db, "apply", path, "--dry-run")[0]["action"] == "add" and db.one("select count(*) from pgrab.task") == 0
    pgrab(db, "apply", path)
    assert as_json(db, "apply", path) == [{"action": "change", "object": "task", "name": "k", "what": "name: null -> n"}]
    path.write_text("select no_such_function(1)")  # is no fault of our schema
    said = fails(1, db, "apply", path)
    assert "no_such_function(integer) does not exist" in said and "schema" not in said, said
    db.query("alter schema pgrab rename to elsewhere")
    assert "is not installed in database" in fails(1, db, "apply", path)
    db.query("alter schema elsewhere rename to pgrab")


def test_apply_shows_what_else_it_changes(db, tmp_path):
    path = tmp_path / "tasks.json"
    file = {"limits": [{"key": "L", "max_running": 3}], "quotas": [{"owner": "app", "max_tasks": 100}], "blackouts": [{"name": "move", "during": "[2100-01-01,2100-01-02)"}],
            "calendars": [{"name": "office", "days": [{"day": "2100-12-25", "note": "Christmas"}]}], "tasks": [{"key": "k", "kind": "noop", "run_at": "2100-01-01"}]}

    def apply(*args):
        path.write_text(json.dumps(file))
        return {(r["action"], r["object"], r["name"]): r["what"] for r in as_json(db, "apply", path, *args)}
    added = apply("--dry-run")
    assert list(added) == [("add", *what) for what in (("task", "k"), ("quota", "app"), ("limit", "L"), ("day", "office 2100-12-25"), ("calendar", "office"), ("blackout", "move"))]
    assert added["add", "limit", "L"] == "max_running: 3" and db.one("select count(*) from pgrab.limit") == 0
    assert apply() == added and apply() == {}
    file["limits"][0]["max_running"] = 4
    file["calendars"][0]["days"][0]["note"] = "yes"
    file["tasks"][0]["run_at"] = "2101-01-01"
    assert apply() == {("change", "limit", "L"): "max_running: 3 -> 4", ("change", "day", "office 2100-12-25"): "note: Christmas -> yes",
                       ("change", "task", "k"): "run_at: 2100-01-01T00:00:00+00:00 -> 2101-01-01T00:00:00+00:00"}


@pytest.mark.parametrize("end", ["commit", "rollback", "begin", "do $$ begin commit; end $$"])
def test_a_file_that_ends_the_transaction_is_refused_and_nothing_of_it_stays(db, tmp_path, end):
    path = tmp_path / "tasks.sql"
    path.write_text(f"insert into pgrab.task (key, kind, run_at) values ('k', 'noop', '2100-01-01'); {end};")
    for how in (["--dry-run"], []):
        said = fails(1, db, "apply", path, *how)
        assert ("leave out BEGIN, COMMIT" if "do" not in end else "invalid transaction termination") in said, said
        assert db.one("select count(*) from pgrab.task") == 0


def test_edit_changes_what_is_given(db):
    db.add(kind="sql", command="select 1", key="k", schedule="0 3 * * *", timeout="5 s", on_failure={"kind": "noop"})
    assert as_json(db, "edit", "k", "--schedule", "0 4 * * *", "--name", "x", "--on-failure", "", "--expect-within", "26h", "select 2")["name"] == "x"
    row = db.query("select schedule, name, on_failure, expect_within::text, command, timeout::text, extract(hour from due_at at time zone 'UTC') from pgrab.task")[0]
    assert row == ("0 4 * * *", "x", None, "26:00:00", "select 2", "00:00:05", 4)
    assert "cannot be '0 99 * * *'" in fails(2, db, "edit", "k", "--schedule", "0 99 * * *")
    assert "nothing to change: give an option" in fails(2, db, "edit", "k")
    pgrab(db, "edit", "k", "--preemptible", "--source", "etl", "--priority", "3", "--timezone", "Asia/Tokyo", "--stall-after", "5s")
    pgrab(db, "edit", "k", "--preemptible=off", "--source", "", "--priority", "", "--timezone", "", "--stall-after", "", "--timeout", "")
    assert db.query("select preemptible, source, priority, timezone, stall_after, timeout::text from pgrab.task") == [(False, "", 0, "UTC", None, "01:00:00")]
    assert '--in cannot be ""' in fails(2, db, "edit", "k", "--in", "")
    assert "no task has the key" in fails(3, db, "edit", "nope", "--name", "x")
    pgrab(db, "delete", "k")
    assert "not live" in fails(3, db, "edit", "k", "--name", "y")


def test_delete_stops_what_runs(db, nodes):
    nodes.start(allow="shell")
    task = db.add(kind="shell", command="sleep 60")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    pgrab(db, "delete", task)
    db.wait("select running = 0 from pgrab.node where name = 'n1'", timeout=15)
    assert [(r.outcome, r.ended) for r in db.runs(task)] == [("cancelled", "cancelled")]


# --------------------------------------------------------------------------------------------------------- a crontab

CRONTAB = """\
# what this machine does
MAILTO=ops@example.org
PATH = "/usr/bin:/bin"
0 2 * * 1-5 /usr/local/bin/backup --full
CRON_TZ=Europe/Berlin
*/5 * * * *  date +\\%F > /dev/null
@daily /usr/local/bin/backup --small
15 4 * * * cat%hello%you
"""


def test_import_a_crontab(db, nodes, tmp_path):
    path = tmp_path / "crontab"
    path.write_text(CRONTAB)
    done = run_pgrab("import", "crontab", path, "--user", "nobody", dsn=db.dsn)
    tasks = {t["key"]: t for t in json.loads(done.stdout)["tasks"]}
    assert list(tasks) == ["nobody/backup", "nobody/date", "nobody/backup-2", "nobody/cat"]
    assert tasks["nobody/backup"] == {"key": "nobody/backup", "kind": "shell", "command": "/usr/local/bin/backup --full", "schedule": "0 2 * * 1-5", "timezone": "UTC", "max_attempts": 1,
                               "misfire": "once", "timeout": "7 days", "args": {"env": {"PATH": "/usr/bin:/bin"}, "cwd": pwd.getpwnam("nobody").pw_dir, "umask": "022"}}
    assert done.stderr.splitlines() == [
        f"pgrab import: {path}, line 2: MAILTO=ops@example.org is left out: output is kept in the history, and an alert can send mail when a task fails",
        "pgrab import: user nobody: cron ran these jobs as this user; pgrab runs them as the node's run_as, or as that of the section [owner ROLE] of the role that applies the file"]
    assert (tasks["nobody/date"]["command"], tasks["nobody/date"]["timezone"], tasks["nobody/backup-2"]["schedule"]) == ("date +%F > /dev/null", "Europe/Berlin", "@daily")
    assert (tasks["nobody/cat"]["command"], tasks["nobody/cat"]["args"]["stdin"]) == ("cat", "hello\nyou\n")
    path.write_text(f"HOME={tmp_path}\n" + CRONTAB)
    assert len(as_json(db, "import", "crontab", path, "--apply", "--dry-run")) == 4 and db.one("select count(*) from pgrab.task") == 0
    assert len(as_json(db, "import", "crontab", path, "--apply")) == 4
    assert pgrab(db, "import", "crontab", path, "--apply") == "Nothing changes.\n"
    nodes.start(allow="shell")
    task = db.one("select id from pgrab.run_now('cat')")
    assert db.wait_run(task).output == "hello\nyou\n"


def test_import_says_what_it_leaves_out(tmp_path):
    path = tmp_path / "crontab"
    path.write_text("@reboot root x\n5 4 * *\n17 * * * * root run-parts /etc/cron.hourly\n")
    done = run_pgrab("import", "crontab", path, "--system", check=False)
    assert done.returncode == 1 and json.loads(done.stdout)["tasks"][0]["command"] == "run-parts /etc/cron.hourly"
    said = done.stderr.splitlines()
    assert said[:2] == [f"pgrab import: {path}, line 1 is left out: @reboot has no counterpart", f"pgrab import: {path}, line 2 is left out: it is not a crontab line"]
    assert said[-1] == "pgrab import: tasks: 1, left out: 2" and json.loads(done.stdout)["tasks"][0]["key"] == "root/run-parts"


# -------------------------------------------------------------------------------------------------------------- changes

def test_diff_says_who_changed_what_also_after_delete(db, nodes):
    nodes.start(allow="shell")
    task = db.add(kind="shell", command="echo one", key="nightly", schedule="@every 1h")
    assert pgrab(db, "diff", "nightly") == "its definition has not changed\n"
    db.one("select id from pgrab.run_now('nightly')")
    db.wait_run(task)
    pgrab(db, "edit", "nightly", "--timeout", "5m", "echo two")
    db.one("select id from pgrab.run_now('nightly')")
    db.wait_run(task, count=2)
    role = db.one("select current_user")
    want = [("command", "echo one", "echo two", role), ("timeout", "01:00:00", "00:05:00", role)]
    assert [(c["changed"], c["before"], c["after"], c["role"]) for c in as_json(db, "diff", "nightly")] == want
    assert as_json(db, "diff", "nightly", "--since", "0s") == [] and len(as_json(db, "diff", task, "--limit", 1)) == 1
    pgrab(db, "delete", "nightly")
    assert len(as_json(db, "diff", "nightly")) == 2
    assert [r[0] for r in db.query("select pgrab.definition_of(r.task_id, r.version) ->> 'command' from pgrab.run r where started_at is not null order by version")] == ["echo one", "echo two"]
    assert "no task has the key or name 'nobody'" in fails(3, db, "diff", "nobody")


def test_diff_does_not_say_that_nothing_changed_when_nothing_was_kept(db):
    task = db.add(kind="noop", key="once", run_at="2099-01-01")
    assert pgrab(db, "diff", task) == "its definition has not changed\n"
    pgrab(db, "edit", task, "--timeout", "5m")
    assert pgrab(db, "diff", task) == "no change is kept: edits of a task that runs once count from its first run on\n"
    pgrab(db, "delete", task)
    assert pgrab(db, "diff", task) == "no change is kept: it is not live any more, and nothing says that it was edited\n"


# ------------------------------------------------------------------------------------------------ limits, chains, doctor

def test_limit_lists_makes_and_deletes(db):
    assert pgrab(db, "limit") == "No such limits.\n"
    assert as_json(db, "limit", "api", "--max-running", "5")[0]["max_running"] == 5
    assert [(r["max_running"], r["per_second"]) for r in as_json(db, "limit", "api", "--per-second", "2")] == [(5, 2)]
    assert [(r["max_running"], r["per_second"]) for r in as_json(db, "limit", "api", "--max-running", "none")] == [(None, 2)]
    assert "limit_some_check" in fails(1, db, "limit", "api", "--per-second", "none")
    assert pgrab(db, "limit", "api", "--delete") == "It is gone.\n"
    assert "there is no limit" in fails(3, db, "limit", "api", "--delete")
    assert "which limit?" in fails(2, db, "limit", "--delete")


def test_chains_draws_the_chain_of_a_task(db):
    root = db.add(kind="noop", name="root", paused=True)
    db.add(kind="noop", name="leaf", parent_id=root)
    db.add(kind="noop", name="alone", paused=True)
    assert [(r["task"], r["root"]) for r in as_json(db, "chains", "leaf")] == [("root", root), ("  leaf", root)]
    assert pgrab(db, "chains", "alone") == "No such chains.\n" and len(as_json(db, "chains")) == 2


def test_one_node_is_no_fault(db, nodes):
    nodes.start("n1", allow="noop")
    checks = {c["name"]: c for c in as_json(db, "doctor")}
    assert checks["nodes"]["verdict"] == "note" and "only one node is up" in checks["nodes"]["detail"]
    faults = [c for c in checks.values() if c["verdict"] == "fix"]
    assert all(c["name"] == "durability" for c in faults), faults # the tests' own server may be without fsync
    assert run_pgrab("doctor", dsn=db.dsn, check=False).returncode == (1 if faults else 0)


def test_lists_say_the_kind_the_start_and_the_wait(db, nodes):
    task = db.add(kind="shell", command="exit 3", max_attempts=1, run_at="2026-01-01 03:00Z")
    nodes.start(allow="shell")
    db.wait_run(task)
    waited = lambda: [round(float(row), 1) for row in db.one("select array_agg(waited) from pgrab.history")]
    run, = as_json(db, "runs")
    assert run["kind"] == "shell" and run["started_at"] <= run["finished_at"]
    assert run["waited"] < 60 and [run["waited"]] == waited()  # since its INSERT
    db.query("update pgrab.run set created_at = fire_at")
    assert [run["waited"] for run in as_json(db, "runs")] == waited() and waited()[0] > 3600
    for args, n in ((["--started-since", "1h"], 1), (["--started-until", "1h"], 0), (["--started-since", run["started_at"], "--started-until", "2100-01-01"], 1)):
        assert len(as_json(db, "runs", *args)) == n
    assert f"shell ({task}) is parked" in pgrab(db, "status")
    assert db.query("select kind from pgrab.failing union all select kind from pgrab.history") == [("shell",), ("shell",)]


def test_doctor_says_what_to_do(db, nodes):
    def checks():
        return {c["name"]: c["detail"] for c in as_json(db, "doctor") if c["verdict"] == "fix"}
    assert "start one: pgrab run" in checks()["nodes"]
    nodes.start("n1", allow="noop")
    nodes.start("n2", allow="noop")
    assert "nodes" not in checks()
    db.add(kind="shell", command="true", run_at="2000-01-01")
    wait_until(lambda: "no live node runs kind shell" in checks().get("kinds and labels", ""), 10, "the lane")
    db.query("select pgrab.drain('n1')")
    db.query("select pgrab.pause_all()")
    assert checks()["drained nodes"].startswith("n1 drained") and "pgrab resume --all" in checks()["paused"]
    assert run_pgrab("doctor", dsn=db.dsn, check=False).returncode == 1


def test_a_node_is_silent_long_before_it_is_dead(db, nodes):
    frozen = nodes.start("frozen", allow="noop", dead_after="60s")
    nodes.start("n1", allow="noop")
    db.wait("select count(*) = 2 from pgrab.nodes where state = 'up'")
    frozen.stop()
    db.wait("select state = 'silent' from pgrab.nodes where name = 'frozen'", timeout=15)
    assert db.one("select nodes_up from pgrab.overview") == 1
    assert "node frozen has been silent for 00:00" in run_pgrab("status", dsn=db.dsn, check=False).stdout
    frozen.cont()
    db.wait("select state = 'up' from pgrab.nodes where name = 'frozen'", timeout=15)


def test_doctor_names_the_nodes_that_died_and_are_not_back(db, nodes):
    def dead():
        return {c["name"]: (c["verdict"], c["detail"]) for c in as_json(db, "doctor")}["dead nodes"]
    nodes.start("n1", allow="noop")
    lost, ended = [nodes.start(name, allow="noop") for name in ("lost", "ended")]
    db.wait("select count(*) = 3 from pgrab.nodes where state = 'up'")
    assert dead() == ("ok", "none")
    ended.end()
    lost.kill9()
    db.wait("select state = 'down' from pgrab.nodes where name = 'lost'", timeout=20)
    verdict, detail = dead()
    assert verdict == "fix" and "ended" not in detail, detail
    assert re.match(r"lost \(last heard of at 2\S+ \S+\) .*start", detail), detail
    db.query("update pgrab.node_incident set since = since - interval '25 hours'")
    assert dead() == ("ok", "none"), "by now somebody knows"
    db.query("update pgrab.node_incident set since = now()")
    assert dead()[0] == "fix"
    nodes.start("lost", allow="noop")
    db.wait("select state = 'up' from pgrab.nodes where name = 'lost'")
    assert dead() == ("ok", "none"), "it is back"


def test_a_dead_node_that_another_replaces_is_out_when_it_is_drained(db, nodes):
    nodes.start("n1", allow="noop")
    nodes.start("lost", allow="noop").kill9()
    db.wait("select exists (select from pgrab.node_incident)", timeout=20)

    def checks():
        return {c["name"]: (c["verdict"], c["detail"]) for c in as_json(db, "doctor")}
    verdict, detail = checks()["dead nodes"]
    assert verdict == "fix" and "pgrab drain NAME" in detail
    run_pgrab("drain", "lost", dsn=db.dsn)
    assert checks()["dead nodes"] == ("ok", "none")
    verdict, detail = checks()["drained nodes"]
    assert verdict == "note" and detail.startswith("lost drained, and down"), detail
    assert "node lost" not in run_pgrab("status", dsn=db.dsn, check=False).stdout
    nodes.start("lost", wait=False, allow="noop")
    db.wait("select state = 'draining' from pgrab.nodes where name = 'lost'")
    assert checks()["drained nodes"][0] == "fix", "it is up, and takes nothing"


def test_output_that_cannot_be_written_is_an_error(db):
    for args in ["export"], ["doctor"], ["status"], ["tasks"]:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([pgrab_bin(), *args, "--dsn", db.dsn], stdout=full, stderr=subprocess.PIPE, text=True, env=clean_env(), check=False)
        assert done.returncode == 1 and done.stderr == "pgrab: could not write the output: No space left on device\n"


# ---------------------------------------------------------------------------------------------------------- chain runs

def test_a_run_of_a_chain_that_is_over_can_still_be_drawn(db, nodes):
    nodes.start(allow="noop,shell")
    root = db.add(kind="noop", key="root", schedule="@every 1h", run_at="2099-01-01")
    left = db.add(kind="noop", key="left", parent_id=root)
    db.add(kind="shell", command="exit 3", key="right", parent_id=root, max_attempts=1)
    db.add(kind="noop", key="leaf", parent_id=left)

    def fires(n):
        db.one("select id from pgrab.run_now('root')")
        db.wait("select count(*) = %s from pgrab.chain_runs where finished_at is not null and links = 4 and result = 'failed'", n, timeout=20)

    fires(1)
    db.query("update pgrab.task set parent_id = %s where key = 'leaf'", root)
    db.query("delete from pgrab.task where key = 'right'")
    db.one("select id from pgrab.run_now('root')")
    db.wait("select count(*) = 2 from pgrab.chain_runs where finished_at is not null", timeout=20)
    first, second = [r[0] for r in db.query("select chain_id from pgrab.chain_runs order by chain_id")]
    drawn = [(t["task"], t["outcome"]) for t in as_json(db, "chains", "--run", first)]
    assert drawn == [("root", "succeeded"), ("  left", "succeeded"), ("    leaf", "succeeded"), ("  right", "failed")], drawn
    assert [t["task"] for t in as_json(db, "chains", "--run", second)] == ["root", "  left", "  leaf"]
    assert pgrab(db, "chains", "--run", 4711) == "No such runs.\n"
