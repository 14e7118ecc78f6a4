"""Limits that break when what they protect fails: real nodes, one run at a time that tries, and who is told."""
import json

# How many of its runs were at work at the worst moment, of those that began after a time.
AT_ONCE = """
select coalesce(max(n), 0) from (
  select sum(step) over (order by at, step) as n
  from (
    select started_at as at, 1 as step from pgrab.run where name = 'w' and started_at > %s
    union all select finished_at, -1 from pgrab.run where name = 'w' and started_at > %s) e) s"""


def breaker(db, key="api", after=3, seconds=1):
    db.query("create table up (yes boolean)")
    db.query("insert into up values (false)")
    db.query("insert into pgrab.limit (key, break_after, break_for) values (%s, %s, make_interval(secs => %s))", key, after, seconds)
    db.query("insert into pgrab.alert (name, events, template) values ('a', '{broken,mended}', %s)", json.dumps(
        {"kind": "sql", "command": "insert into told values ($1::jsonb ->> 'event', $1::jsonb ->> 'text')"}))
    db.query("create table told (event text, text text)")


def work(db, n, key="api"):
    db.query("insert into pgrab.task (name, kind, command, limit_key, max_attempts, backoff) select 'w', 'sql', "
             "'select pg_sleep(0.05), 1 / (select yes::integer from up)', %s, 1000, '1 ms' from generate_series(1, %s)", key, n)


def test_what_fails_is_tried_by_one_at_a_time_and_all_go_on_when_it_works(db, nodes):
    breaker(db)
    nodes.start("a", workers=4)
    nodes.start("b", workers=4)
    work(db, 40)
    db.wait("select broken_until is not null from pgrab.limits")
    broken = db.one("select min(finished_at) + interval '0.5 s' from pgrab.run where name = 'w'")
    db.wait("select count(*) >= 3 from pgrab.run where name = 'w' and started_at > %s", broken, timeout=30)
    assert db.one(AT_ONCE, broken, broken) == 1
    gaps = db.one("""select min(gap) from (
        select started_at - lag(finished_at) over (order by started_at) as gap from pgrab.run where name = 'w' and started_at > %s) g""", broken)
    assert gaps.total_seconds() >= 0.9, f"the next one tried after {gaps}"
    assert db.one("select event || ' ' || count(*) from told group by event") == "broken 1"
    db.query("update up set yes = true")
    db.wait("select count(*) = 40 from pgrab.run where name = 'w' and outcome = 'succeeded'", timeout=20)
    db.wait("select count(*) = 1 from told where event = 'mended'")
    assert db.one("select text from told where event = 'mended'") == "limit api is mended: a run has succeeded"
    assert db.one("select text from told where event = 'broken'").startswith("limit api is broken after ")
    db.wait("select count(*) = 0 from pgrab.limit_place")


def test_a_node_that_dies_with_the_one_that_tries_leaves_another_to_try(db, nodes, probe):
    pair = {name: nodes.start(name) for name in "ab"}
    breaker(db, after=1)
    db.add(kind="sql", command="select 1 / 0", limit_key="api", max_attempts=1)
    db.wait("select broken_until is not null from pgrab.limits")
    probe.close_gate()
    try:
        for tag in ("x", "y"):
            db.add(**probe.shell(tag, gate=True), name="t", limit_key="api", max_attempts=5)
        probe.wait("start", timeout=10)
        by = db.one("select n.name from pgrab.task t join pgrab.node n on n.id = t.node_id where t.status = 'running'")
        pair[by].kill9()
        probe.wait("start", count=2, timeout=25)
        assert db.one("select broken_until is not null from pgrab.limits"), "a run that was lost says nothing"
        assert db.one("select count(*) from pgrab.task where status = 'running'") == 1
    finally:
        probe.open_gate()
    db.wait("select count(distinct task_id) = 2 from pgrab.run where name = 't' and outcome = 'succeeded'", timeout=20)
    assert db.one("select broken_until is null from pgrab.limits")
    probe.assert_no_overlap()


def test_a_pattern_breaks_for_one_of_its_keys(db, nodes):
    breaker(db, "tenant:*")
    nodes.start(workers=4)
    work(db, 10, "tenant:a")
    db.wait("select broken_until is not null from pgrab.limits where key = 'tenant:a'")
    free = db.add(kind="noop", limit_key="tenant:b")
    assert db.wait_run(free, timeout=5).outcome == "succeeded"
    # A key of a pattern that nothing uses any more has no line, as soon as upkeep has seen it.
    assert db.one("select sum(failures) from pgrab.limits where key = 'tenant:b'") in (None, 0)
    assert db.one("select failures from pgrab.limits where key = 'tenant:a'") > 0
    db.query("delete from pgrab.limit")
    db.wait("select count(*) > 10 from pgrab.run where name = 'w'")
