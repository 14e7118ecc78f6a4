"""Why it does not run: each cause is provoked, and explain, pgrab.late and status must name it, and agree."""
import re

import pytest
from cluster import run_pgrab, wait_until
from handlers import Handlers
from test_owners import roles  # noqa: F401 (a fixture)

PAST, FUTURE = "2001-01-01", "2100-01-01"
WAITS = "@task('%s')\ndef f():\n    doze(120)"


@pytest.fixture
def handlers(tmp_path):
    return Handlers(tmp_path)


def gates(db, task):
    return {g.gate: (g.verdict, g.detail) for g in db.query("select * from pgrab.explain(%s)", task)}


def check(db, cause, task, gate, detail, late=None):
    """detail: 'verdict: a regular expression'; late: what pgrab.late says, None: it is not late."""
    verdict, pattern = detail.split(": ", 1)
    said = gates(db, task)
    if gate not in said or said[gate][0] != verdict or not re.search(pattern, said[gate][1]):
        return f"{cause}: explain should say {gate} {detail}: {said}"
    why = db.one("select why from pgrab.late where id = %s", task)
    if (why is None) != (late is None) or late and not re.search(late, why):
        return f"{cause}: late should say {late}, not {why}"
    attention = run_pgrab("status", dsn=db.dsn, check=False).stdout
    if late and f"late: {why} (" not in attention:
        return f"{cause}: status should say {why}: {attention}"
    return None


def check_all(db, causes):
    wrong = [wrong for cause, row in causes.items() if (wrong := check(db, cause, *row))]
    assert not wrong, "\n\n".join(wrong)


def parked(db, **columns):
    task = db.add(kind="shell", command="exit 3", **columns)
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    return task


def busy(db, kind, n, **columns):
    tasks = [db.add(kind=kind, command="sleep 120" if kind == "shell" else "", **columns) for _ in range(n)]
    db.wait("select count(*) = %s from pgrab.task where id = any (%s) and status = 'running'", n, tasks, timeout=20)
    return tasks


@pytest.mark.deadline(90)
def test_what_a_task_itself_waits_for(db, nodes):
    """A free node, and tasks that it does not start all the same."""
    db.query("insert into pgrab.limit (key, max_running, per_second) values ('one', 1, null), ('none', 0, null), ('seldom', null, 0.001)")
    early = db.add(kind="noop", run_at=PAST)
    check_all(db, {"no node": (early, "nodes", "blocked: No node is up. Start one: pgrab run", "no node is up")})
    nodes.start("n1", workers=4, allow="shell,noop,sql", labels="zone=a")
    db.wait_run(db.add(kind="noop", limit_key="seldom"))
    holds, = busy(db, "shell", 1, limit_key="one")
    failed, once = parked(db, max_attempts=1), parked(db, delivery="at_most_once")
    later = db.add(kind="shell", command="exit 3", backoff="1 hour")
    ended = db.add(kind="noop", schedule="@every 1h", max_runs=1)
    db.query("select pgrab.run_now(%s)", ended)
    last = db.add(kind="noop", schedule="@every 1h", run_at=PAST, ends_at="2001-01-01 00:30")
    missed = db.add(kind="noop", schedule="@every 1h", misfire="skip", run_at=db.one("select now() - interval '90 min'"))
    for task in later, ended, last, missed:
        db.wait_run(task)
    fails = db.add(kind="shell", command="exit 4", schedule="@every 1h", max_attempts=1)
    db.query("select pgrab.run_now(%s)", fails)
    db.wait_run(fails)
    asleep = db.add(kind="noop", run_at=PAST, paused=True)
    cancelled, deleted = db.add(kind="noop", run_at=FUTURE), db.add(kind="noop", schedule="@daily")
    db.query("select pgrab.cancel(%s)", cancelled)
    db.query("delete from pgrab.task where id = %s", deleted)
    root = db.add(kind="shell", command="sleep 120", schedule="@every 1h")
    link = db.add(kind="noop", parent_id=root)
    db.query("select pgrab.run_now(%s)", root)
    db.wait("select status = 'running' from pgrab.task where id = %s", root)
    joins = db.add(kind="noop", parent_id=root)
    bad = db.add(kind="shell", command="exit 3", max_attempts=2, backoff="1 hour")
    after_bad = db.add(kind="noop", parent_id=bad)
    db.wait_run(bad)
    db.query("update pgrab.task set max_attempts = 1, run_at = now() where id = %s; select pgrab.run_now(%s)" % (bad, bad))
    db.wait("select status = 'parked' from pgrab.task where id = %s", bad)
    zero, full, rate = (db.add(kind="noop", limit_key=key, run_at=PAST) for key in ("none", "one", "seldom"))
    exec_, label = db.add(kind="exec", command="/bin/true", run_at=PAST), db.add(kind="noop", require={"zone": "b"}, run_at=PAST)
    db.wait("select count(*) = 3 from pgrab.task where due_at is null and limit_key is not null and status = 'scheduled'")
    locked = db.add(kind="noop", run_at=FUTURE)
    with db.connect(autocommit=False, application_name="somebody") as person:
        person.execute("select from pgrab.task where id = %s for update", [locked])
        person.execute("update pgrab.task set run_at = %s where id = %s", [PAST, locked])
        wait_until(lambda: "row" in gates(db, locked), 10, "the lock to be older than a moment")
        check_all(db, {"row locked": (locked, "row", rf"blocked: Session {person.info.backend_pid} \(\w+, somebody\)", None)})
        person.rollback()
    db.wait("select count(*) = 5 from pgrab.late where id = any (%s)", [zero, full, rate, exec_, label])
    check_all(db, {
        "paused": (asleep, "paused", r"blocked: pgrab.resume\(\d+\)", None),
        "due later": (locked, "due", "waits: Planned for 2100-01-01", None),
        "out of attempts": (failed, "parked", r"blocked: Out of attempts \(1 of 1\): exit code 3. select pgrab.retry", None),
        "at most once": (once, "parked", "blocked: It is at_most_once, and has been tried: exit code 3", None),
        "backing off": (later, "due", "waits: Attempt 2 is due in 0.*exit code 3", None),
        "max_runs reached": (ended, "ended", r"blocked: It has ended: done, succeeded .*No fire of its schedule is left \(max_runs 1\)", None),
        "ends_at passed": (last, "ended", r"blocked: It has ended: done.* No fire of its schedule is left \(ends_at 2001-01-01", None),
        "missed": (missed, "missed", r"waits: Its fire of .* was missed: no node could run it within misfire_after[^(]*\(\S+; misfire: skip\)", None),
        "its last run failed": (fails, "schedule", r"ok: @every 1h \(UTC\), carried out 1 times; the last run: failed, exit code 4$", None),
        "cancelled": (cancelled, "ended", "blocked: It has ended: cancelled", None),
        "deleted": (deleted, "deleted", r"blocked: \w+ deleted it at .*pgrab.undelete\(%s\)" % deleted, None),
        "parent running": (link, f"parent #{root}", "waits: Starts after its success; it is running", None),
        "joins the chain later": (joins, "chain", "waits: The chain is running; this link joins it at its next fire", None),
        "parent failed": (after_bad, f"parent #{bad}", "blocked: It failed: exit code 3. select pgrab.retry", None),
        "limit that lets nothing run": (zero, "limit", "blocked: none lets nothing run", r"limit none lets nothing run \(max_running 0\)"),
        "limit full": (full, "limit", "waits: one: 1 run of 1. It has been in line since", "waits for a place under limit one"),
        "rate": (rate, "limit", r"waits: seldom: .* at most 0.001 starts per second.* The next start is at 20", "waits for a place under limit seldom"),
        "kind of no node": (exec_, "nodes", "blocked: No live node runs kind exec", "no live node runs kind exec"),
        "labels of no node": (label, "nodes", "blocked: No live node that runs kind noop has labels", "no live node has labels"),
    })
    assert gates(db, holds)["running"][0] == "ok"
    db.query("select pgrab.pause_all()")
    check_all(db, {"all paused": (label, "all paused", r"blocked: All tasks .*resume_all\(\)", "all tasks are paused")})
    assert "missed its fire" in (said := run_pgrab("status", dsn=db.dsn, check=False).stdout) and f"noop ({missed}) missed" in said, said


def scale(db):
    return db.query("select workers, nodes, slots, running, due from pgrab.scale()")[0]


@pytest.mark.deadline(90)
def test_what_the_nodes_are_short_of(db, nodes, handlers, roles):  # noqa: F811
    """One node with its workers and a pool busy, another pool down: then draining, frozen, dead, and a copy."""
    alice = roles("alice")
    pools = [handlers.python(WAITS % "full", "full", name="one"), handlers.section("/bin/false", "down", name="two"),
             handlers.python(WAITS % "free", "free", name="three", processes=3)]
    node = nodes.start("n1", workers=2, allow="shell,noop,sql", lookahead="60s",
                       config=handlers.config(*pools, f"[owner {alice}]\nallow = shell\n"))
    db.wait("select count(*) = 2 from pgrab.pool where up = processes", timeout=20)
    ahead = db.add(kind="shell", command="true", run_at=db.one("select now() + interval '50 s'"))
    db.wait("select status = 'claimed' from pgrab.task where id = %s", ahead)
    running = busy(db, "shell", 2)
    busy(db, "full", 1)
    db.query("insert into pgrab.limit (key, max_running) values ('none', 0)")
    worker, pool, down = (db.add(kind=kind, command="true" if kind == "shell" else "", run_at=PAST) for kind in ("shell", "full", "down"))
    low, zero = db.add(kind="noop", run_at=PAST, priority=-100), db.add(kind="noop", run_at=PAST, limit_key="none")
    not_hers, no_login = db.add_as(alice, kind="noop", run_at=PAST), db.add_as(alice, kind="sql", command="select 1", run_at=PAST)
    locked = db.add(kind="noop", run_at=PAST)
    db.wait("select (crews -> '' ->> 0)::int = 2 and (crews -> 'one' ->> 0)::int = 1 from pgrab.node")
    with db.connect(autocommit=False, application_name="somebody") as person:
        person.execute("select from pgrab.task where id = %s for update", [locked])
        wait_until(lambda: "row" in gates(db, locked), 10, "the lock to be older than a moment")
        pid = person.info.backend_pid
        check_all(db, {
            "workers busy": (worker, "node n1", "waits: Busy: 2 of 2", "all nodes busy"),
            "pool busy": (pool, "node n1", "waits: Busy: 1 of 1", "all nodes busy"),
            "pool down": (down, "pool two", "blocked: On n1, 0 of 1 processes are up. Last fault: /bin/false: exit code 1",
                          "no handler process for kind down is up"),
            "low priority": (low, "node n1", "waits: Busy: 2 of 2", "all nodes busy"),
            "a limit that lets nothing run, and busy": (zero, "limit", "blocked: none lets nothing run", r"limit none lets nothing run"),
            "row locked": (locked, "row", rf"blocked: Session {pid} \(\w+, somebody\).*pg_terminate_backend\({pid}\)", f"its row is locked by session {pid}"),
            "owner may not, by the node's file": (not_hers, "nodes", f"blocked: No live node runs kind noop for owner {alice}: see allow in",
                                                  f"no live node runs kind noop for owner {alice}"),
            "owner without a connection": (no_login, "nodes", f"blocked: No live node has a connection for owner {alice}",
                                           f"no live node has a connection for owner {alice}"),
            "claimed, waits for its time": (ahead, "claim", "ok: Claimed by n1 at", None),
        })
    before = scale(db)
    assert (before.slots, before.running, before.nodes) == (2, 3, 1), "slots are the workers'"
    db.query("insert into pgrab.task (kind) select 'down' from generate_series(1, 500)")
    assert (scale(db).nodes, scale(db).workers) == (1, before.workers), "more nodes do not help a pool that does not come up"
    db.query("insert into pgrab.task (kind) select 'free' from generate_series(1, 3); insert into pgrab.task (kind) select 'full' from generate_series(1, 150)")
    assert (scale(db).nodes, scale(db).workers) == (3, before.workers), "a second each: three places, and a node has one"
    db.query("delete from pgrab.task where run_at > '2002-01-01' and status = 'scheduled'")
    db.query("select pgrab.drain('n1')")
    db.wait("select state = 'draining' from pgrab.node")
    check_all(db, {"draining": (worker, "node n1", r"blocked: Draining, by order of \w+; select pgrab.undrain\('n1'\)", "all nodes are draining")})
    said = run_pgrab("status", dsn=db.dsn, check=False).stdout
    assert "no node is up" not in said and "node n1 is draining" in said, said
    db.query("select pgrab.undrain('n1')")
    db.wait("select state = 'up' from pgrab.node")
    node.stop()
    db.wait("select state = 'silent' from pgrab.nodes", timeout=20)
    check_all(db, {
        "node frozen": (worker, "node n1", "blocked: It has been silent for 00:00", "no node is up; silent: n1"),
        "the only node frozen": (worker, "nodes", "blocked: No node is up. Silent: n1. Start one: pgrab run", "no node is up; silent: n1"),
        "runs on a frozen node": (running[0], "node", "waits: Its node has died or is silent", None),
    })
    assert scale(db).slots == 0, "nobody counts on a frozen node"
    node.cont()
    node.kill9()
    other = nodes.start("n2", allow="noop")
    db.wait("select state = 'down' from pgrab.nodes where name = 'n1'", timeout=20)
    check_all(db, {"kind of no live node": (worker, "nodes", "blocked: No live node runs kind shell", "no live node runs kind shell")})
    other.end()


def test_of_two_runs_that_began_together_neither_is_said_to_be_the_one_that_waits(db, nodes):
    db.query("create table public.contested (n int); insert into public.contested values (1)")
    nodes.start("n1", allow="sql")
    with db.connect(autocommit=False, application_name="somebody") as person:
        person.execute("update public.contested set n = 2")
        innocent, blocked = (row[0] for row in db.query(
            "insert into pgrab.task (kind, command) values ('sql', 'select pg_sleep(60)'), ('sql', 'update public.contested set n = 3') returning id"))
        for task in (innocent, blocked):
            db.wait("select detail like '%%, which runs it or another that began then, has waited since %%' from pgrab.explain(%s) where gate = 'lock'", task)
        db.query("select pgrab.cancel(%s)", innocent)
        db.wait("select detail like '%%, which runs it, has waited since %%' from pgrab.explain(%s) where gate = 'lock'", blocked)
