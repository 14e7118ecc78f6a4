"""What takes several slots, or memory that is counted: it runs where there is room, and waits for it no longer than it must."""
import json
import signal

import pytest
from cluster import run_pgrab, stays, wait_until
from handlers import Handlers
from test_http_crew import slow  # noqa: F401

# As many as four workers can do, and a few more.
SMALL = """insert into pgrab.task (source, command, run_at) select 'small', 'select pg_sleep(0.2)', now() + i * interval '45 ms'
           from generate_series(1, %s) i"""


@pytest.fixture
def handlers(tmp_path):
    return Handlers(tmp_path)


def most_in_use(db, what="coalesce((definition ->> 'slots')::int, 1)", where="true"):
    """The most slots (or so) in use at any moment, by the history, which is right to some milliseconds."""
    return db.one(f"""
        with change as (
          select started_at as at, {what} as by from pgrab.run where {where}
          union all select greatest(started_at, finished_at - interval '30 ms'), -({what}) from pgrab.run where {where})
        select max(s) from (select sum(by) over (order by at, by) as s from change) x""")


def pgrab_pool_file(tmp_path, text):
    path = tmp_path / "node.conf"
    path.write_text(text)
    return path


def test_a_large_one_begins_soon_while_small_ones_keep_coming_and_alone(db, nodes):
    nodes.start("n1", workers=4)
    db.query(SMALL, 250)  # eleven seconds of them
    db.wait("select count(*) >= 8 from pgrab.run", timeout=15)
    large = db.add(command="select pg_sleep(1)", slots=4)
    db.wait("select busy = '4/68' from pgrab.nodes where exists (select from pgrab.running where id = %s)", large, timeout=10)
    crews = db.one("select crews -> '' from pgrab.node")
    run = db.wait_run(large, timeout=5)
    waited = db.one("select extract(epoch from started_at - created_at)::float8 from pgrab.run where task_id = %s", large)
    assert waited < 4, waited  # behind one second of others, and what was under way
    assert crews == [4, 4] and run.outcome == "succeeded"
    left = db.one("select count(*) from pgrab.task where source = 'small'")
    assert left > 80, left
    db.wait("select not exists (select from pgrab.task)", timeout=30)
    assert most_in_use(db) == 4


def test_many_large_and_small_ones_never_use_more_slots_than_there_are(db, nodes):
    nodes.start("n1", workers=4)
    db.query("insert into pgrab.task (command, slots) select 'select pg_sleep(0.05)', 1 + i % 4 from generate_series(1, 120) i")
    db.wait("select not exists (select from pgrab.task)", timeout=60)
    assert db.one("select count(*) from pgrab.run where outcome = 'succeeded' and attempt = 1") == 120
    assert most_in_use(db) <= 4
    assert db.one("select count(*) from pgrab.lane where slots > 1") == 3


def test_one_that_no_node_has_room_for_is_never_taken_and_explain_says_why(db, nodes, tmp_path):
    node = nodes.start("n1", workers=None, config=pgrab_pool_file(tmp_path, "workers = 4\n"))
    large = db.add(kind="noop", slots=5)
    assert db.wait_run(db.add(kind="noop", slots=4)).outcome == "succeeded"
    db.wait("select why is not null from pgrab.late where id = %s", large)
    assert db.one("select why from pgrab.late where id = %s", large) == "no node that could run it is large enough: it takes 5 slots"
    gates = {g.gate: (g.verdict, g.detail) for g in db.query("select * from pgrab.explain(%s)", large)}
    assert gates["node n1"] == ("blocked", "It has 4 slots for kind noop, and the task takes 5.")
    assert gates["nodes"][1].startswith("No node that is up and could run it is large enough. n1: It has 4 slots")
    doctor = run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert "and room for 5 slots, and 1 tasks wait for one" in doctor, doctor
    assert db.one("select status = 'scheduled' and version = (select min(version) from pgrab.task) from pgrab.task where id = %s", large)
    (tmp_path / "node.conf").write_text("workers = 6\n")
    node.proc.send_signal(signal.SIGHUP)
    assert db.wait_run(large, timeout=15).outcome == "succeeded"
    db.wait("select room = '{\"\": 6, \"http\": 64}' from pgrab.node")


def test_the_node_that_is_large_enough_takes_it_whoever_owns_its_shard(db, nodes):
    nodes.start("few", workers=2, steal_after="60s")
    nodes.start("many", workers=8, steal_after="60s")
    db.wait("select count(*) = 2 from pgrab.nodes where shards between 1 and 1023", timeout=15)
    db.query("insert into pgrab.task (kind, slots) select 'noop', 3 from generate_series(1, 200)")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert [tuple(r) for r in db.query("select node, count(*) from pgrab.run group by 1")] == [("many", 200)]


def test_those_that_do_not_fit_are_not_in_the_way_of_others(db, nodes):
    """Where a node is too small for them it does not read them; where only now there is no room, it reads a few."""
    db.query("insert into pgrab.task (kind, slots, run_at) select 'noop', 9, now() - interval '1 hour' from generate_series(1, 100000)")
    db.query("insert into pgrab.task (kind, slots, run_at) select 'noop', 2, now() - interval '1 hour' from generate_series(1, 30000)")
    db.query("analyze pgrab.task")
    db.query("insert into pgrab.task (command, source, run_at) select 'select pg_sleep(60)', 'long', '2001-01-01' from generate_series(1, 1)")
    nodes.start("n1", workers=2, steal_after="60s")
    db.wait("select count(*) = 1 from pgrab.running", timeout=20)
    small = db.add(kind="noop", run_at="2000-01-01")
    assert db.wait_run(small, timeout=20).outcome == "succeeded"


def test_what_may_use_memory_waits_until_the_limits_fit_and_the_others_do_not(db, nodes):
    nodes.start("n1", workers=8, memory="1GB")
    limits = lambda size: {"limits": {"memory": size}}
    half = [db.add(kind="shell", command="sleep 1", args=limits("600MB")) for _ in range(3)]
    huge = db.add(kind="shell", command="true", args=limits("2GB"))
    small = [db.add(kind="shell", command="sleep 1", args=limits("300MB")), db.add(kind="shell", command="sleep 1")]
    db.wait("select memory_used between 600 * 1048576 and 900 * 1048576 and memory = 1073741824 from pgrab.node")
    for task in half + small:
        assert db.wait_run(task, timeout=20).outcome == "succeeded"
    used = "coalesce(replace(definition #>> '{args,limits,memory}', 'MB', '')::int, 0)"
    assert most_in_use(db, used) <= 1024
    assert most_in_use(db, "1") >= 3
    db.wait("select why = 'no node that could run it is large enough: it takes 1 slot and 2048 MB of memory' from pgrab.late where id = %s", huge)
    assert db.one("select detail from pgrab.explain(%s) where gate = 'node n1'", huge) == \
        "Its memory is 1024 MB, and the task may use 2048 MB (args.limits.memory)."
    db.wait("select memory_used = 0 from pgrab.node")


def test_slots_of_http_are_its_own(db, nodes, slow):  # noqa: F811
    nodes.start("n1", workers=1, http_slots=4)
    tasks = [db.add(kind="http", command=slow.url("/slow"), slots=2) for _ in range(4)]
    wait_until(lambda: slow.inside == 2, 10, "two requests")
    db.wait("select crews -> 'http' = '[4, 4]' from pgrab.node")
    stays(lambda: slow.inside == 2, 1, "no third one")
    assert db.one("select detail from pgrab.explain(%s) where gate = 'node n1'", db.add(kind="http", command=slow.url("/slow"), slots=5)) == \
        "It has 4 slots for kind http, and the task takes 5."
    slow.gate.set()
    for task in tasks:
        assert db.wait_run(task, timeout=20).outcome == "succeeded"
    assert slow.most == 2


def test_slots_of_a_pool_are_its_own(db, nodes, handlers):
    body = "@task('work')\ndef work(slots: int, ctx):\n    began = time.time()\n    doze(0.05)\n    return [slots, began, time.time()]"
    handlers.start(nodes, body, "work", processes=4, node={"workers": 1})
    handlers.wait_up(db, 4)
    db.query("insert into pgrab.task (kind, slots, args) select 'work', i, jsonb_build_object('slots', i) from (select 1 + i % 4 * (i % 3) % 4 as i from generate_series(1, 150) i) x")
    db.wait("select not exists (select from pgrab.task)", timeout=40)
    assert db.one("select count(*) from pgrab.run where outcome = 'succeeded' and attempt = 1") == 150
    runs = [json.loads(run.output) for run in db.query("select output from pgrab.run")]
    changes = sorted([(began, slots) for slots, began, _ in runs] + [(ended, -slots) for slots, _, ended in runs])
    in_use = [sum(change for _, change in changes[:i]) for i in range(len(changes))]
    assert max(in_use) <= 4, in_use
    task = db.add(kind="work", slots=5, args={"slots": 5})
    assert db.one("select detail from pgrab.explain(%s) where gate = 'node n1'", task) == "It has 4 slots for kind work, and the task takes 5."


def test_a_memory_that_is_none_is_refused(db):
    done = run_pgrab("run", "--memory", "lots", dsn=db.dsn, check=False)
    assert done.returncode == 2 and "memory is a size of 1MB or more, such as 512MB" in done.stderr, done.stderr


def test_the_shell_adds_it(db):
    task = json.loads(run_pgrab("add", "--slots", "3", "--kind", "noop", "--json", dsn=db.dsn).stdout)
    assert db.one("select slots from pgrab.task where id = %s", task["id"] if isinstance(task, dict) else task[0]["id"]) == 3
