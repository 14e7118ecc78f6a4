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
    for verb in ("pause", "resume", "retry", "run-now"):
        done = run_pgrab(verb, "4711", dsn=db.dsn, check=False)
        assert done.returncode == 3 and "4711" in done.stderr, (verb, done)
        done = run_pgrab(verb, "seven", dsn=db.dsn, check=False)
        assert done.returncode == 2
