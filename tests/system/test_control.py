"""What a person does to tasks, by SQL and by command, with a node at work."""
import json

from cluster import run_pgrab, stays


def test_a_parked_task_is_retried_with_all_its_attempts(db, nodes, tmp_path):
    nodes.start()
    flag = tmp_path / "mended"
    task = db.add(kind="shell", command=f"test -e {flag}", max_attempts=2, backoff="10 ms")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    done = run_pgrab("run-now", str(task), dsn=db.dsn, check=False)
    assert done.returncode == 1 and "parked" in done.stderr and "retry" in done.stderr
    flag.touch()
    flag.chmod(0o644)
    assert json.loads(run_pgrab("retry", str(task), "--json", dsn=db.dsn).stdout)[0]["attempt"] == 0
    db.wait("select exists (select from pgrab.run where task_id = %s and outcome = 'succeeded' and attempt = 1)", task)


def test_pause_and_resume_by_command(db, nodes):
    nodes.start()
    tasks = [db.one("insert into pgrab.task (kind, run_at) values ('noop', now() + interval '1 s') returning id") for _ in range(3)]
    run_pgrab("pause", *map(str, tasks), dsn=db.dsn)
    stays(lambda: not db.query("select from pgrab.run"), 1.5, "no run of paused tasks")
    run_pgrab("resume", str(tasks[0]), str(tasks[1]), dsn=db.dsn)
    assert {db.wait_run(t).outcome for t in tasks[:2]} == {"succeeded"}
    assert db.runs(tasks[2]) == []


def test_run_now_does_not_wait_for_the_plan(db, nodes):
    nodes.start()
    task = db.add(kind="noop", run_at="2100-01-01")
    db.query("select pgrab.run_now(%s)", task)
    assert db.wait_run(task, timeout=3).outcome == "succeeded"


def test_ids_that_are_not_there_exit_3(db):
    for verb in ("pause", "resume", "cancel", "retry", "run-now", "skip-next"):
        done = run_pgrab(verb, "4711", dsn=db.dsn, check=False)
        assert done.returncode == 3 and "4711" in done.stderr, (verb, done)
        done = run_pgrab(verb, "seven", dsn=db.dsn, check=False)
        assert done.returncode == 3 and done.stderr.startswith(f"pgrab {verb}: no task has the key or name 'seven'. ")


def test_cancel_by_command(db, nodes):
    later, daily = db.add(kind="noop", run_at="2126-01-01"), db.add(kind="noop", schedule="@daily")
    rows = {r["id"]: r for r in json.loads(run_pgrab("cancel", str(later), str(daily), "--json", dsn=db.dsn).stdout)}
    assert (rows[later]["status"], rows[daily]["status"]) == ("cancelled", "scheduled")
    assert [r.outcome for r in db.runs(later)] == ["cancelled"]
    nodes.start(allow="shell")
    task = db.add(kind="shell", command="sleep 60")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    assert "running" in run_pgrab("cancel", str(task), dsn=db.dsn).stdout
    assert db.wait_run(task).outcome == "cancelled"


def test_skip_next_by_command(db):
    task, once = db.add(kind="noop", schedule="@daily"), db.add(kind="noop", run_at="2126-01-01")
    before = db.one("select due_at from pgrab.task where id = %s", task)
    row = json.loads(run_pgrab("skip-next", str(task), "--json", dsn=db.dsn).stdout)[0]
    assert row["status"] == "scheduled" and [r.outcome for r in db.runs(task)] == ["skipped"]
    assert (db.one("select due_at from pgrab.task where id = %s", task) - before).days == 1
    done = run_pgrab("skip-next", str(once), dsn=db.dsn, check=False)
    assert done.returncode == 1 and "no schedule" in done.stderr


def test_drain_and_undrain_by_command(db, nodes):
    node = nodes.start("n1")
    row = json.loads(run_pgrab("drain", "n1", "--json", dsn=db.dsn).stdout)[0]
    assert (row["name"], row["state"]) == ("n1", "draining")
    node.wait_log("event=drain")  # the command asks for it, and the node obeys with its next heartbeat
    task = db.add(kind="noop")
    stays(lambda: not db.runs(task), 1, "no run on a drained node")
    assert "up" in run_pgrab("undrain", "n1", dsn=db.dsn).stdout
    assert db.wait_run(task).outcome == "succeeded"
    for verb in ("drain", "undrain"):
        done = run_pgrab(verb, "nobody", dsn=db.dsn, check=False)
        assert done.returncode == 3 and "nobody" in done.stderr and "n1" in done.stderr
