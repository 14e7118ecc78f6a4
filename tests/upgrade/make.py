"""Makes the dump of a database in which everything is under way: scripts/upgrade-dump.

Real nodes do the work.  The schema `upgrade` of the dump says what is to become of it: `act` is what the test does after
the restore, `expected` are questions whose answer has to become true.  They use what users use (docs/sql.md), so that a
dump of today can be tried with every later version.
"""
import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from cluster import ROOT, Cluster, Db, Nodes, clean_env, run_pgrab  # noqa: E402

DUMPS = Path(__file__).resolve().parent / "dumps"
FROZEN = ROOT / "migrations/0001_schema.sql"


def versions():
    """Those of CHANGELOG.md, the newest first, and whether each has been released."""
    found = re.findall(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    return {version: when != "not released" for version, when in found}


def structure():
    """What says whether a dump is of this migration 1: its statements, whatever its comments are."""
    text = re.sub(r"^\s*--.*\n|\s+--.*$", "", FROZEN.read_text(encoding="utf-8"), flags=re.M)
    return hashlib.sha256(text.encode()).hexdigest()


def effect(name):
    return f"insert into upgrade.effect (name) values ('{name}')"


STUCK = '[ "$PGRAB_ATTEMPT" -gt 1 ] || exec sleep 600'
"""A shell task that runs when the dump is made, and ends when it is run again."""
GATE = "select 1 / (select count(*)::int from upgrade.gate)"
"""Fails until upgrade.gate has a row."""


class World:
    def __init__(self, db, nodes):
        self.db, self.nodes = db, nodes
        db.query("""
            create schema upgrade;
            create table upgrade.effect (name text not null, at timestamptz not null default clock_timestamp());
            create table upgrade.told (facts jsonb not null);
            create table upgrade.gate (open boolean);
            create table upgrade.act (id int generated always as identity, statement text not null);
            create table upgrade.expected (id int generated always as identity, what text not null, query text not null)""")

    def act(self, statement):
        self.db.query("insert into upgrade.act (statement) values (%s)", statement)

    def expect(self, what, query):
        self.db.query("insert into upgrade.expected (what, query) values (%s, %s)", what, query)

    def expect_end(self, key, outcome="succeeded", runs=None):
        """Its last run ends the task, and once."""
        self.expect(f"the end of {key}", "select array_agg(r.outcome order by r.finished_at) filter (where r.ended is not null) "
                    f"= '{{{outcome}}}'" + (f" and count(*) = {runs}" if runs else "") + f" from pgrab.run r where r.key = '{key}'")

    def fill(self):
        """In parts, each as a user would do it."""
        for part in (self.rules, self.history, self.schedules, self.waits, self.chains, self.batches, self.repeated, self.at_work):
            part()

    def rules(self):
        self.db.query("""
            insert into pgrab.limit (key, max_running) values ('one', 1);
            insert into pgrab.limit (key, break_after, break_for) values ('weak', 2, '2 s');
            insert into pgrab.limit (key, per_second) values ('tenant:*', 20);
            insert into pgrab.quota (owner, max_tasks, max_bytes) values (current_user, 100000, 1000000);
            insert into pgrab.quota (share_key, max_running, when_full) values ('*', 1, 'hold');
            insert into pgrab.calendar (name) values ('office');
            insert into pgrab.calendar_day (calendar, day, open, note) values ('office', '2030-01-01', false, 'new year');
            insert into pgrab.blackout (name, during, task_like, note)
              values ('works', tstzrange(now() - interval '1 hour', '2099-01-01'), 'held%', 'the power is off');
            insert into pgrab.secret (name, value) values ('api', 'open sesame');
            insert into pgrab.alert (name, events, template) values ('log', '{failed,parked,recovered,broken,mended,overdue,missed}',
              '{"kind": "sql", "command": "insert into upgrade.told values ($1::jsonb)"}');
            insert into pgrab.alert (name, events, schedule, template) values ('morning', '{digest}', '@every 1h',
              '{"kind": "sql", "command": "insert into upgrade.told values ($1::jsonb)"}')""")
        self.db.query("select pgrab.token_add('page', p_valid => '1 year')")
        self.expect("rules", """select (select count(*) = 3 from pgrab.limits where key in ('one', 'weak', 'tenant:*'))
          and (select count(*) = 2 from pgrab.quota) and (select count(*) = 1 from pgrab.calendar_day)
          and (select count(*) = 1 from pgrab.secret) and (select count(*) = 1 from pgrab.token) and (select count(*) = 2 from pgrab.alert)""")
        self.db.add(key="with secret", kind="shell", command='test "$WORD" = "open sesame"', args={"env": {"WORD": {"secret": "api"}}}, run_at="2100-01-01")
        self.act("update pgrab.task set run_at = now() where key = 'with secret'")
        self.expect_end("with secret")
        self.db.add(key="held back", command=effect("held"))
        self.act("select pgrab.delete_blackout('works')")
        self.expect_end("held back")
        self.expect("told of the mended limit", "select exists (select from upgrade.told where facts ->> 'event' = 'mended')")
        self.act("update pgrab.alert set schedule = '@every 1s' where name = 'morning'")
        self.expect("told by the clock", "select exists (select from upgrade.told where facts ->> 'event' = 'digest')")

    def history(self):
        """Some of today; the same again on each of the five days before."""
        db = self.db
        ids = [db.add(name=f"done {i}", command=f"select {i}") for i in range(8)]
        ids.append(db.add(name="said", kind="shell", command="echo said"))
        ids.append(db.add(name="told", kind="notify", command="upgrade"))
        ids.append(db.add(name="gone", kind="noop", command="", run_at="2100-01-01"))
        db.query("select pgrab.cancel(%s)", ids[-1])
        ids.append(db.add(name="in vain", kind="shell", command="exit 3", backoff="10 ms", max_attempts=2))
        db.wait("select count(*) >= %s from pgrab.run where ended is not null or outcome = 'failed'", len(ids), timeout=60)
        db.query("""insert into pgrab.run
            select (jsonb_populate_record(r, jsonb_build_object('task_id', r.task_id - 10000 * n, 'finished_at', r.finished_at - n * interval '1 day',
              'started_at', r.started_at - n * interval '1 day', 'fire_at', r.fire_at - n * interval '1 day'))).*
            from pgrab.run r, generate_series(1, 5) n where r.outcome <> 'cancelled'""")
        db.query("select pgrab.upkeep()")
        assert db.one("select count(*) from pg_inherits where inhparent = 'pgrab.run'::regclass") >= 9, "a partition for each of the days"
        self.act("select pgrab.retry(t.id) from pgrab.task t where t.name = 'in vain'")
        self.expect("one that fails again", "select t.status = 'parked' and t.runs = 4 from pgrab.task t where t.name = 'in vain'")
        self.act("insert into upgrade.gate values (true)")

    def schedules(self):
        db = self.db
        db.add(key="tick", command=effect("tick"), schedule="@every 1s", expect_within="1 hour")
        db.wait("select fires >= 2 from pgrab.task where key = 'tick'", timeout=30)
        db.query("create table upgrade.fires as select id, key, fires from pgrab.task where key = 'tick'")
        self.expect("a schedule goes on", "select t.fires > f.fires + 1 from pgrab.task t join upgrade.fires f using (id)")
        self.expect("each fire once", "select count(*) = count(distinct r.fire_at) from pgrab.run r where r.key = 'tick' and r.outcome = 'succeeded'")
        db.add(key="each day", command=effect("each day"), schedule="@every 1d", misfire="all", misfire_limit=3)
        self.expect("a schedule of days has its next", "select t.due_at > now() from pgrab.task t where t.key = 'each day'")
        db.add(key="resting", command=effect("resting"), schedule="* * * * *")
        db.query("select pgrab.pause('resting')")
        self.expect("paused", "select t.paused and t.status = 'scheduled' from pgrab.task t where t.key = 'resting'")
        db.add(key="office hours", kind="noop", command="", schedule="0 9 * * *", timezone="Europe/Berlin", calendar="office", on_closed="next")
        self.expect("the calendar is kept to", """select extract(isodow from t.fire_at) < 6 and t.fire_at > now()
          from pgrab.task t where t.key = 'office hours'""")
        db.add(key="edited", kind="noop", command="", run_at="2100-01-01", priority=3)
        db.query("update pgrab.task set run_at = '2101-01-01', priority = 4 where key = 'edited'")
        self.expect("left alone", "select t.due_at = '2101-01-01' and t.priority = 4 from pgrab.task t where t.key = 'edited'")

    def waits(self):
        db = self.db
        db.add(key="asked", kind="shell", command="""test "$PGRAB_SIGNAL" = '{"by": "ann"}'""", wait_for="approved")
        self.act("select pgrab.signal('asked', 'approved', '{\"by\": \"ann\"}')")
        self.expect_end("asked", runs=1)
        db.add(key="answered early", kind="shell", command="""test "$PGRAB_SIGNAL" = '{"by": "bob"}'""", wait_for="approved", run_at="2100-01-01")
        db.query("select pgrab.signal('answered early', 'approved', '{\"by\": \"bob\"}')")
        self.act("update pgrab.task set run_at = now() where key = 'answered early'")
        self.expect_end("answered early", runs=1)
        db.add(key="in steps", backoff="1 day", backoff_max="1 day", args={"steps": [
            {"name": "pay", "command": effect("pay")}, {"name": "pack", "command": GATE + "; " + effect("pack")}]})
        db.wait("select steps = 1 and attempt = 1 and status = 'scheduled' from pgrab.task where key = 'in steps'", timeout=30)
        self.expect_end("in steps")

    def chains(self):
        db = self.db
        head = db.add(key="build", command=effect("build"), run_at="2100-01-01")
        two = db.add(key="test", kind="shell", command=STUCK, parent_id=head)
        three = db.add(key="deploy", command=effect("deploy"), parent_id=two)
        db.add(key="alarm", command=effect("alarm"), parent_id=two, run_if="failure")
        db.query("insert into pgrab.edge (parent_id, child_id) values (%s, %s)", head, three)
        db.query("select pgrab.run_now('build')")
        for key in ("build", "test", "deploy"):
            self.expect_end(key)
        self.expect("no alarm", "select array_agg(r.ended) = '{skipped}' from pgrab.run r where r.key = 'alarm'")
        head = db.add(key="nightly", command=effect("nightly"), schedule="0 0 1 1 *")
        bad = db.add(key="nightly bad", kind="noop", command="", parent_id=head, run_if="failure")
        db.add(key="nightly given up", kind="noop", command="", parent_id=head, wait_for="nobody")
        db.add(key="nightly asks", kind="noop", command="", parent_id=head, wait_for="approved")
        assert bad
        db.query("select pgrab.run_now('nightly')")
        db.wait("select count(*) = 2 from pgrab.waits where name like 'nightly%%'", timeout=30)
        db.query("select pgrab.cancel('nightly given up')")
        db.wait("select array_agg(status order by key) = '{done,waiting,skipped,cancelled}' from pgrab.task where key like 'nightly%%'", timeout=30)
        self.act("select pgrab.signal('nightly asks', 'approved')")
        self.expect("a chain comes round", """select t.status = 'scheduled' and t.due_at > now() and t.fires = 1
          from pgrab.task t where t.key = 'nightly'""")

    def batches(self):
        db = self.db
        b = db.add(key="load", kind="batch", command="")
        db.add(key="after load", command=effect("after load"), parent_id=b)
        for i in range(4):
            db.add(name=f"member {i}", command=effect(f"member {i}"), batch=b)
        db.add(name="member x", command=GATE + "; " + effect("member x"), batch=b, max_attempts=1)
        db.add(name="member y", command=effect("member y"), batch=b, run_at="2100-01-01")
        db.wait("select succeeded = 4 and failed = 1 from pgrab.batches where id = %s", b, timeout=30)
        self.act(f"insert into pgrab.task (name, command, batch) values ('member z', 'select 1', {b})")
        self.act("update pgrab.task set run_at = now() where name = 'member y'")
        self.act("select pgrab.retry(t.id) from pgrab.task t where t.name = 'member x'")
        self.act("select pgrab.seal('load')")
        self.expect("the end of a batch", "select array_agg(r.output) = '{\"7 members, 7 succeeded\"}' from pgrab.run r where r.key = 'load' and r.ended = 'done'")
        self.expect_end("after load")

    def repeated(self):
        """What fails until the gate is open, tried again every now and then: parked, a limit that is broken."""
        db = self.db
        db.add(key="parked", command=GATE, max_attempts=1)
        for i in range(3):
            db.add(key=f"weak {i}", command=GATE + "; " + effect(f"weak {i}"), limit_key="weak", backoff="1 s", backoff_max="1 s", max_attempts=1000)
            self.expect_end(f"weak {i}")
        db.wait("select exists (select from upgrade.told where facts ->> 'event' = 'broken')", timeout=40)
        db.wait("select status = 'parked' from pgrab.task where key = 'parked'", timeout=30)
        self.act("select pgrab.retry('parked')")
        self.expect_end("parked", runs=2)
        self.expect("told that it recovered", "select exists (select from upgrade.told where facts ->> 'event' = 'recovered' and facts ->> 'key' = 'parked')")

    def at_work(self):
        """All four workers are at work, and more is due: running, claimed, in line."""
        db = self.db
        db.add(key="running", kind="shell", command=STUCK)
        db.add(key="running sql", command="select pg_sleep(case when (select true from upgrade.gate) then 0 else 600 end); " + effect("running sql"))
        db.add(key="once", command="select pg_sleep(600)", delivery="at_most_once")
        self.expect("at most once", "select t.status = 'parked' from pgrab.task t where t.key = 'once'")
        db.wait("select count(*) = 4 from pgrab.running", timeout=30)
        for i in range(3):
            db.add(key=f"one {i}", command=effect(f"one {i}"), limit_key="one")
            db.add(key=f"share {i}", command=effect(f"share {i}"), share_key="customer 1")
            db.add(key=f"due {i}", kind="shell", command="true", limit_key="tenant:1")
        for key in [f"{name} {i}" for name in ("one", "share", "due") for i in range(3)] + ["running", "running sql"]:
            self.expect_end(key)
        db.wait("select exists (select from pgrab.task where status = 'claimed')", timeout=30)

    def close(self):
        """What there is at this moment has to be there in the end."""
        self.expect("nothing is left at work but the tick", """select not exists (
          select from pgrab.task t where t.status in ('claimed', 'running') and t.key is distinct from 'tick')""")
        self.db.query("""create table upgrade.run as select * from pgrab.run;
            create table upgrade.event as select * from pgrab.event;
            create table upgrade.task as select * from pgrab.task""")
        found = self.db.one("select array_agg(distinct status) from upgrade.task")
        lacking = {"waiting", "scheduled", "claimed", "running", "parked", "done", "cancelled", "skipped"} - set(found)
        assert not lacking, f"no task is {lacking}"


def dump(db):
    done = subprocess.run(["pg_dump", "--no-owner", db.dsn], capture_output=True, text=True, env=clean_env(), check=True)
    return re.sub(r"^\\(un)?restrict .*\n", "", done.stdout, flags=re.M)


def main():
    version, released = next(iter(versions().items()))
    path = DUMPS / f"{version}.sql.gz"
    if released and path.exists():
        sys.exit(f"{version} is released: its dump stays as it is. The next version begins with a new top of CHANGELOG.md.")
    server = Cluster()
    try:
        with tempfile.TemporaryDirectory() as folder:
            db = Db(server, server.create_database())
            nodes = Nodes(db, Path(folder))
            try:
                nodes.start("old", workers=4)
                world = World(db, nodes)
                world.fill()
                world.close()
                text = dump(db)
            finally:
                for node in nodes.all:
                    node.kill9()
                db.close()
    finally:
        server.close()
    head = f"-- {run_pgrab('version').stdout.splitlines()[0]}\n-- made on {date.today()}\n-- migration 1: {structure()}\n"
    path.write_bytes(gzip.compress((head + text).encode(), 9, mtime=0))
    print(f"{os.path.relpath(path)}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
