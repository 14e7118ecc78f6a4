"""Blackouts: what a window holds is not started by any node, whatever it had in hand, and comes in order behind its end."""
import json
import re

import pytest
from cluster import run_pgrab, wait_until


def shut(db, lasts, name="w", **columns):
    """A window from now on."""
    names = "".join(f", {c}" for c in columns)
    values = "".join(", %s" for _ in columns)
    db.query(f"insert into pgrab.blackout (name, during{names}) values (%s, tstzrange(clock_timestamp(), clock_timestamp() + %s::interval){values})",
             name, lasts, *columns.values())


def started_inside(db):
    """Runs that any node has started in a window; what was being started when it was committed is none."""
    return db.query("select r.name, r.started_at from pgrab.run r join pgrab.blackout b on r.started_at >= lower(b.during) + interval '100 ms'"
                    " and r.started_at < upper(b.during) where r.name like coalesce(b.task_like, '%')")


def test_what_is_claimed_is_not_started_and_comes_in_order_without_a_stampede(db, nodes):
    nodes.start("a", workers=16)
    nodes.start("b", workers=16)
    db.wait("select array_agg(distinct node) = '{a,b}' from pgrab.ownership")  # or one of them may hold nearly all
    db.query("insert into pgrab.task (name, kind, command, run_at) select 't' || i, 'sql', 'select 1', clock_timestamp() + interval '2 s' + i * interval '1 ms'"
             " from generate_series(1, 60) i")
    db.wait("select count(*) = 60 from pgrab.task where status = 'claimed'")
    shut(db, "5 s")
    db.wait("select held = 60 and state = 'on' from pgrab.blackouts", timeout=5)
    # in order, but for what one node held while the other one did
    late = db.one("select max(abs(n - planned)) from (select row_number() over (order by due_at) as n, row_number() over (order by fire_at) as planned from pgrab.task) t")
    assert late <= 40, late
    db.wait("select count(*) = 60 from pgrab.run where outcome = 'succeeded'", timeout=20)
    assert started_inside(db) == []
    # the first second behind the end, and the sixth
    first, took = db.query("select count(*) filter (where r.started_at < upper(b.during) + interval '1 s'), extract(epoch from max(r.started_at) - upper(b.during))"
                           " from pgrab.run r cross join pgrab.blackout b group by b.during")[0]
    assert first <= 2 * 11 and took > 2, (first, took)
    assert db.one("select count(*) from pgrab.run where outcome <> 'succeeded'") == 0


def test_others_in_the_same_lane_go_on_and_so_does_what_runs(db, nodes):
    nodes.start("a", workers=4)
    running = db.add(name="etl-runs", kind="sql", command="select pg_sleep(2)")
    db.wait("select status = 'running' from pgrab.task where id = %s", running)
    shut(db, "1 h", task_like="etl-%")
    db.query("insert into pgrab.task (name, kind) select case when i % 20 = 0 then 'web' else 'etl-' || i end, 'noop' from generate_series(1, 60) i")
    db.wait("select count(*) = 3 from pgrab.run where name = 'web'", timeout=20)
    assert db.wait_run(running).outcome == "succeeded"
    db.wait("select held = 57 from pgrab.blackouts", timeout=20)
    assert started_inside(db) == []
    db.query("select pgrab.delete_blackout('w')")
    db.wait("select count(*) = 61 from pgrab.run where outcome = 'succeeded'", timeout=40)
    db.wait("select not exists (select from pgrab_internal.put_off) and pgrab.delete_blackout('w')")


@pytest.mark.parametrize("columns", [{"kind": "noop"}, {"kind": "sql", "command": "select 1", "delivery": "at_most_once"},
                                     {"kind": "sql", "command": "select 1", "limit_key": "two"}], ids=["at once", "at_most_once", "limit"])
def test_every_way_to_start_asks(db, nodes, columns):
    db.query("insert into pgrab.limit (key, max_running) values ('two', 2)")
    nodes.start("a")
    shut(db, "3 s")
    tasks = [db.add(name="t", **columns) for _ in range(5)]
    db.wait("select held = 5 from pgrab.blackouts")
    assert db.one("select count(*) from pgrab.limit_place") == 0
    free = db.add(name="t", run_at="2000-01-01", **columns)
    for task in [*tasks, free]:
        assert db.wait_run(task, timeout=15).outcome == "succeeded"
    assert db.one("select bool_and(r.finished_at >= upper(b.during)) from pgrab.run r cross join pgrab.blackout b")


def test_a_node_that_dies_in_the_window_takes_nothing_with_it(db, nodes):
    first = nodes.start("a")
    shut(db, "6 s")
    db.query("insert into pgrab.task (name, kind, command) select 't' || i, 'sql', 'select 1' from generate_series(1, 15) i")
    db.query("insert into pgrab.task (name, kind, command, run_at) select 'u' || i, 'sql', 'select 1', clock_timestamp() + interval '3 s' from generate_series(1, 15) i")
    db.wait("select count(*) = 15 from pgrab.task where name like 't%' and due_at > clock_timestamp() + interval '2 s'")
    first.kill9()
    nodes.start("b")
    db.wait("select count(*) = 30 from pgrab.run where outcome = 'succeeded'", timeout=30)
    assert started_inside(db) == []
    assert db.one("select count(*) from pgrab.run") == 30


def test_skip_and_a_schedule_that_is_held(db, nodes):
    """The window is longer than misfire_after: one run at its end stands for all fires that it held."""
    nodes.start("a")
    for name in ["held", "skipped"]:
        db.add(name=name, kind="noop", schedule="* * * * * *", misfire_after="2 s")
    shut(db, "7 s", name="h", task_like="held")
    shut(db, "7 s", name="s", task_like="skipped", action="skip", note="not today")
    db.wait("select count(*) >= 2 from pgrab.run r join pgrab.blackout b on b.name = 'h' and r.fire_at > upper(b.during) where r.name = 'held'", timeout=40)
    of = "from pgrab.run r join pgrab.blackout b on b.task_like = r.name and r.fire_at > lower(b.during) + interval '1 s' and r.fire_at < upper(b.during)"
    assert db.one("select count(*) = 1 from pgrab.run r join pgrab.blackout b on b.name = 'h' and r.fire_at < upper(b.during)"
                  " where r.name = 'held' and r.outcome = 'succeeded' and r.finished_at > upper(b.during)")
    assert db.one(f"select count(*) >= 4 and bool_and(r.outcome = 'skipped' and r.error = 'blackout h; the run at its end stands for it') {of} where r.name = 'held'")
    assert db.one(f"select count(*) >= 4 and bool_and(r.outcome = 'skipped' and r.error = 'blackout s: not today') {of} where r.name = 'skipped'")
    assert db.one(f"select count(*) {of} where r.outcome = 'missed'") == 0


def test_from_the_shell(db):
    def says(*args, status=0):
        done = run_pgrab(*args, dsn=db.dsn, check=False)
        assert done.returncode == status, done
        return done.stdout + done.stderr

    assert says("blackout") == "there are no blackouts\n"
    added = json.loads(says("blackout", "add", "2h", "--task-like", "etl-%", "--note", "move to new disks", "--json"))[0]
    assert (added["state"], added["action"], added["tasks"], added["note"]) == ("on", "hold", "etl-%", "move to new disks")
    assert db.one("select upper(during) - lower(during) = '2 h' and lower(during) < now() from pgrab.blackout")
    far = db.one("select to_char(now() + interval '3 days', 'DY')")  # so that it is not on
    text = says("blackout", "add", "8h", "--schedule", f"0 22 * * {far}", "--timezone", "Europe/Berlin", "--name", "weekend", "--skip")
    assert f"0 22 * * {far} (Europe/Berlin) for 08:00:00" in text and "next" in text
    assert says("blackout", "add", "1 day", "--from", "2098-12-24 Europe/Berlin", "--owner", "nobody", "--source", "crm", "--name", "x").count("2098-12-2") == 2
    assert [row["name"] for row in json.loads(says("blackouts", "--json"))] == [added["name"], "weekend", "x"]
    assert "weekend" in says("blackout", "list", "weekend")
    assert re.search(rf"blackout {added['name']} is on until .*, for etl-%, and holds 0; pgrab blackout remove ends it", says("status"))
    assert "over" in says("blackout", "remove", added["name"]) and "It is gone." in says("blackout", "remove", added["name"])
    assert "It is gone." in says("blackout", "remove", "x")
    assert "there is no blackout \"x\"" in says("blackout", "remove", "x", status=3)
    assert [row["what"] for row in json.loads(says("events", "--json"))] == ["blackout"] * 6 + ["migrate"]
    for args, word in [(["add"], "how long?"), (["remove"], "which one?"), (["stop", "x"], "one of list, add, remove"),
                       (["add", "1h", "--from", "2098-01-01", "--schedule", "@daily"], "exclude each other"),
                       (["add", "1h", "--from", "2098-01-01", "--timezone", "Europe/Berlin"], "--timezone is of the schedule")]:
        assert word in says("blackout", *args, status=2)
    for args, word in [(["add", "soon"], "invalid input syntax for type interval"), (["add", "0h"], "blackout during cannot be 'empty'"),
                       (["add", "1d", "--schedule", "@daily"], "blackout lasts cannot be '1 day'")]:
        assert word in says("blackout", *args, status=1)


def test_files(db):
    window = {"name": "weekend", "schedule": "0 22 * * SAT", "lasts": "8 hours", "task_like": "etl-%"}
    for _ in range(2):
        db.query("select pgrab.apply(%s)", json.dumps({"blackouts": [window], "tasks": []}))
    assert db.one("select count(*) from pgrab.event where what = 'blackout'") == 1
    exported = db.one("select pgrab.export() -> 'blackouts'")
    assert exported == [window | {"lasts": "08:00:00", "timezone": "UTC", "action": "hold"}]
    db.query("select pgrab.apply(%s)", json.dumps({"blackouts": exported, "tasks": []}))
    assert db.one("select count(*) from pgrab.event where what = 'blackout'") == 1


def test_the_page(db, nodes, serving):
    nodes.start()
    serve = serving()
    assert "<h2>Blackouts" not in serve.ask("GET", "/").text
    shut(db, "1 h", name="now", note="new disks")
    task = db.add(kind="noop", name="t")
    db.wait("select held = 1 from pgrab.blackouts")
    wait_until(lambda: "new disks" in serve.ask("GET", "/").text, 5, "the first page to show it")
    assert "Blackout now holds it until" in serve.ask("GET", f"/tasks/{task}").text
