"""Backfills: what the past fires of a schedule run with, in which order, and what becomes of them when nodes die."""
import json

from cluster import run_pgrab, wait_until

AT_ONCE = """
select max(n) from (
  select sum(step) over (order by at, step) as n
  from (select started_at as at, 1 as step from pgrab.run r join member m using (task_id)
    union all select finished_at, -1 from pgrab.run r join member m using (task_id)) e) s"""


def backfill(db, *args):
    done = run_pgrab("backfill", *args, "--json", dsn=db.dsn)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)[0]
    if made["batch"] is not None:
        db.query("create table if not exists member (task_id bigint)")
        db.query("insert into member select id from pgrab.task where batch = %s", made["batch"])
    return made


def schedule(db, **columns):
    """It is paused, so that it does not fire while the test runs."""
    return db.add(key="report", kind="shell", schedule="0 3 * * *", paused=True, **columns)


def ended(db, made):
    return f"select ended from pgrab.run where task_id = {made['batch']} and ended is not null"


def test_each_fire_is_told_its_time_and_they_run_in_order(db, nodes, tmp_path):
    for name in "ab":
        nodes.start(name, workers=4)
    schedule(db, command=f'echo "$PGRAB_FIRE_AT" >> {tmp_path}/told')
    before = db.one("select to_jsonb(t) from pgrab.task t where key = 'report'")
    dry = backfill(db, "report", "2025-01-01", "2025-01-21", "--dry-run")
    assert dry["batch"] is None and dry["fires"] == 20
    made = backfill(db, "report", "2025-01-01", "2025-01-21")
    assert made["fires"] == 20
    db.wait(f"select ({ended(db, made)}) = 'done'", timeout=60)
    told = (tmp_path / "told").read_text().split("\n")[:-1]
    assert [t[:10] for t in told] == [f"2025-01-{d:02}" for d in range(1, 21)]
    assert all("T03:00:00" in t for t in told)
    assert db.one(AT_ONCE) == 1
    assert db.one("select to_jsonb(t) from pgrab.task t where key = 'report'") == before, "the schedule is as it was"
    assert db.one("select bool_and(waited < 60) from pgrab.history h join member m using (task_id)"), "not late for a year"


def test_a_node_dies_in_the_middle(db, nodes, tmp_path):
    first = nodes.start("a", workers=4)
    db.add(key="report", kind="sql", schedule="0 * * * *", paused=True, command="select pg_sleep(0.02)")
    made = backfill(db, "report", "2025-01-01", "2025-01-05", "--max-running", "3")
    assert made["fires"] == 96
    db.wait("select count(*) > 20 from pgrab.run r join member m using (task_id)", timeout=60)
    first.kill9()
    nodes.start("b", workers=4)
    db.wait(f"select ({ended(db, made)}) = 'done'", timeout=90)
    assert db.one("select count(*) = 96 and count(distinct r.fire_at) = 96 from pgrab.run r join member m using (task_id) where r.outcome = 'succeeded'")
    assert db.one(AT_ONCE) <= 3


def test_cancelled_paused_and_parked(db, nodes):
    node = nodes.start("a", workers=2)
    schedule(db, command="case $PGRAB_FIRE_AT in 2025-01-02*) test -e /nowhere;; esac", max_attempts=1)
    made = backfill(db, "report", "2025-01-01", "2025-01-04")
    db.wait("select count(*) = 3 from pgrab.run r join member m using (task_id)", timeout=30)
    wait_until(lambda: db.one("select status from pgrab.task where batch = %s", made["batch"]) == "parked")
    run_pgrab("cancel", str(made["batch"]), dsn=db.dsn)
    db.wait(f"select ({ended(db, made)}) = 'cancelled'", timeout=30)
    node.term()
    node.wait_exit()
    made = backfill(db, "report", "2025-02-01", "2025-02-11")
    run_pgrab("pause", str(made["batch"]), dsn=db.dsn)
    assert db.one("select bool_and(paused) and count(*) = 10 from pgrab.task where batch = %s", made["batch"])
    run_pgrab("cancel", str(made["batch"]), dsn=db.dsn)
    assert db.one("select count(*) from pgrab.task where batch = %s", made["batch"]) == 0
    assert db.one("select status from pgrab.task where key = 'report'") == "scheduled"


def test_refusals(db):
    one = db.add(kind="noop", run_at="2030-01-01", key="once")
    done = run_pgrab("backfill", "once", "2025-01-01", "2025-02-01", dsn=db.dsn, check=False)
    assert done.returncode != 0 and f"task {one} (once) cannot be backfilled: it has no schedule" in done.stderr
    assert "Only the fires of a schedule can be made up for." in done.stderr


def test_the_api(db, nodes, serving):
    serve = serving()
    nodes.start("a")
    task = db.add(key="report", kind="noop", schedule="0 3 * * *", paused=True)
    wish = {"from": "2025-01-01T00:00:00Z", "until": "2025-01-11T00:00:00Z"}
    dry = serve.api("POST", "/tasks/report/backfill", {**wish, "dry_run": True})[0]
    assert dry == {"batch": None, "fires": 10, "first_fire": "2025-01-01T03:00:00+00:00", "last_fire": "2025-01-10T03:00:00+00:00"}
    made = serve.api("POST", f"/tasks/{task}/backfill", {**wish, "max_running": 3})[0]
    db.wait(f"select ({ended(db, made)}) = 'done'", timeout=30)
    for wrong in ({**wish, "dryrun": True}, {"from": wish["from"]}, {**wish, "max_running": "many"}, [1]):
        assert serve.ask("POST", "/api/v1/tasks/report/backfill", wrong).status in (400, 422), wrong
