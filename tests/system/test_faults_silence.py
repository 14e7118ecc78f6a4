"""A row about which the server is silent (a trigger of the user's that waits): it alone waits, whatever the node does with it."""
import pytest

TIMED = """insert into pgrab.task (kind, name, run_at) select 'noop', 'timed', now() + i * interval '100 ms' from generate_series(1, 250) i"""


WHEN = {"claimed": "new.status = 'claimed' and old.status <> 'claimed'", "running": "new.status = 'running' and old.status <> 'running'",
        "settled": "new.run_at <> old.run_at and new.status = 'scheduled' and old.status = 'scheduled'"}


def hang(db, how):
    db.query(f"""create function public.hang() returns trigger language plpgsql as $$
        begin if {WHEN[how]} then perform pg_sleep(30); end if; return new; end $$""")
    db.query("create trigger hang before update on pgrab.task for each row when (old.name = 'hangs') execute function public.hang()")


@pytest.mark.deadline(120)
@pytest.mark.parametrize("how", WHEN)
def test_a_row_that_hangs_when_it_is_taken_holds_nobody_up_for_long(db, nodes, how):
    hang(db, how)
    node = nodes.start("n1", workers=4)
    db.wait_run(db.add(kind="noop"))
    missed = {"schedule": "@every 1h", "run_at": db.one("select now() - interval '90 min'")} if how == "settled" else {}
    # the last attempt is claimed first, and started by a statement of its own
    last = {"max_attempts": 1} if how == "claimed" else {}
    hangs = db.add(kind="shell", name="hangs", command="true", **missed, **last)
    db.query(TIMED)
    db.wait("select not exists (select from pgrab.task where name = 'timed')", timeout=60)
    late = db.one("""select array[percentile_cont(0.5) within group (order by s), percentile_cont(0.99) within group (order by s), max(s)]
        from (select extract(epoch from started_at - fire_at)::float8 as s from pgrab.run where name = 'timed') r""")
    assert late[0] < 0.5 and late[1] < 2 and late[2] < 5, f"lateness p50, p99, max: {late}"
    assert "event=fault " not in node.log()
    node.wait_log(f"event=silence task={hangs} tries=1 ")
    db.wait("select why like '%%does not answer%%' from pgrab.late where id = %s", hangs)
    assert db.one("select verdict from pgrab.explain(%s) where gate = 'row' and detail like '%%n1%%'", hangs) == "blocked"
    shell = db.add(kind="shell", command="true")
    assert db.wait_run(shell, timeout=15).outcome == "succeeded"
    db.query("drop trigger hang on pgrab.task")
    assert db.wait_run(hangs, timeout=60).outcome in ("succeeded", "missed"), "it is tried again"
    db.wait("select doubts is null from pgrab.node")


@pytest.mark.deadline(120)
def test_a_row_that_hangs_when_it_is_put_back_keeps_no_other_of_a_dead_node(db, nodes):
    db.query("""create function public.hang() returns trigger language plpgsql as $$
        begin if old.status = 'running' then perform pg_sleep(30); end if; return new; end $$""")
    db.query("create trigger hang before update on pgrab.task for each row when (old.name = 'hangs') execute function public.hang()")
    first = nodes.start("n1", workers=12)
    hangs = db.add(kind="shell", name="hangs", command="sleep 60", backoff="0")
    others = [db.add(kind="shell", name="other", command="sleep 60", backoff="0") for _ in range(8)]
    db.wait("select count(*) = 9 from pgrab.task where status = 'running'")
    second = nodes.start("n2", workers=12)
    first.kill9()
    db.wait("select count(*) = 8 from pgrab.task where name = 'other' and status = 'running' and attempt = 2", timeout=20)
    second.wait_log(f"event=silence task={hangs} tries=1 ")
    assert db.one("select attempt from pgrab.task where id = %s", hangs) == 1
    db.query("drop trigger hang on pgrab.task")
    db.wait("select status = 'running' and attempt = 2 from pgrab.task where id = %s", hangs, timeout=60)
    for task in [hangs, *others]:
        db.query("select pgrab.cancel(%s)", task)


def refuse(db, when):
    db.query(f"""create function public.refuse() returns trigger language plpgsql as $$
        begin if {when} then raise 'hostile row'; end if; return new; end $$""")
    db.query("create trigger refuse before update on pgrab.task for each row when (old.name = 'hostile') execute function public.refuse()")


def test_a_row_whose_only_start_is_refused_is_left_alone_for_a_while(db, nodes):
    refuse(db, "new.status = 'running'")
    node = nodes.start("n1", log_level="debug")
    db.wait_run(db.add(kind="noop"))
    once = {"kind": "shell", "command": "true", "delivery": "at_most_once"}
    hostile = db.add(name="hostile", **once)
    node.wait_log(f"event=refused task={hostile} tries=2 ", timeout=30)
    assert node.log().count("what=start answer=bad") < 10
    assert db.wait_run(db.add(**once)).outcome == "succeeded"


def test_a_row_that_is_refused_when_it_is_handed_back_keeps_no_other(db, nodes):
    refuse(db, "new.status = 'scheduled' and old.status = 'claimed'")
    nodes.start("n1", lookahead="30s")
    db.query("insert into pgrab.task (kind, name, run_at) select 'noop', case i when 7 then 'hostile' else 'other' end, now() + '25 s' from generate_series(1, 20) i")
    db.wait("select count(*) = 20 from pgrab.task where status = 'claimed'")
    db.query("select pgrab.drain('n1')")
    db.wait("select count(*) = 19 from pgrab.task where status = 'scheduled' and name = 'other'", timeout=5)
    assert db.one("select status from pgrab.task where name = 'hostile'") == "claimed"
    db.query("drop trigger refuse on pgrab.task")
