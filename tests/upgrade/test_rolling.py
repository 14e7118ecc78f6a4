"""Nodes of two versions side by side, while work of every kind is under way: nothing is lost, doubled, late or cut off.

The pairs: this program and one with a migration more; and, once there is a release, the newest release and this program.
"""
import subprocess
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cluster import Db, clean_env, pgrab_bin, wait_until
from handlers import Handlers
from programs import BREAKING, COLUMN, last_release, next_version, released

LATE = 1.5
"""Seconds.  That long after it was due a task may start while its nodes are replaced, on a machine with nothing else to do."""
PATIENT = {"heartbeat": None, "fence_after": "40s", "dead_after": "60s", "kill_grace": None, "drain_timeout": None, "workers": 6}
"""So that migrate is not refused while other tests keep the server busy.  None of these nodes dies."""
ECHO = """
@task("echo")
def echo(args, ctx):
    return args["n"]
"""


@pytest.fixture(scope="module")
def pair(request, tmp_path_factory):
    """(old, new): two programs."""
    if request.param == "next":
        return pgrab_bin(), next_version(tmp_path_factory.mktemp("next"), "999.0.0", COLUMN)
    tag = last_release()
    if tag is None:
        pytest.skip("there is no release yet")
    return released(tag, tmp_path_factory.mktemp("released")), pgrab_bin()


@pytest.fixture(scope="module")
def breaking(tmp_path_factory):
    return next_version(tmp_path_factory.mktemp("breaking"), "1000.0.0", BREAKING)


@pytest.fixture
def db(cluster, pair):
    """A database as the old program makes it."""
    database = Db(cluster, cluster.create_database(template="template0"))
    pgrab(pair[0], "migrate", database)
    yield database
    database.close()
    cluster.drop_database(database.name)


def pgrab(program, command, db, *words, check=True):
    done = subprocess.run([program, command, *words, "--dsn", db.dsn], capture_output=True, text=True, timeout=60, env=clean_env(), check=False)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


@pytest.fixture
def web():
    """A server that counts what it is asked, by path."""
    class Page(BaseHTTPRequestHandler):
        asked = Counter()

        def do_POST(self):
            Page.asked[self.path] += 1
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.asked = Page.asked
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Haste:
    """A thread that only counts says how much longer everything takes on this machine than it would alone."""

    def __init__(self):
        self.ratio, self.stopping = 1.0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopping.wait(0.2):
            began, used = time.monotonic(), time.thread_time()
            while time.thread_time() - used < 0.02:
                pass
            self.ratio = max(self.ratio, (time.monotonic() - began) / 0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stopping.set()
        self.thread.join()


class Work:
    """Inserts a round of everything again and again, in a thread; says afterwards what became of it."""

    def __init__(self, db, web):
        self.db, self.web, self.rounds, self.fault = db, web, 0, None
        self.slowest, self.stopping = 0.0, threading.Event()
        db.query("create table effect (n int, what text)")
        db.query("insert into pgrab.task (key, command, schedule) select 'every ' || i, 'select ' || i, '@every 1s' from generate_series(1, 3) i")
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            with self.db.connect() as conn:
                while not self.stopping.wait(0.1):
                    began = time.monotonic()
                    self.round(conn, self.rounds)
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    self.rounds += 1
        except Exception as e:  # pylint: disable=broad-except
            self.fault = e

    def round(self, conn, n):
        """As an application would do it: a transaction of its own, with a statement that is prepared."""
        with conn.transaction():
            insert = "insert into pgrab.task (name, kind, command, args, parent_id, created_at) values (%s, %s, %s, %s, %s, default) returning id"
            rows = [("sql", "sql", f"insert into public.effect values ({n}, 'sql')", "{}"),
                    ("shell", "shell", "sleep 0.3", "{}"),
                    ("http", "http", f"http://127.0.0.1:{self.web.server_port}/{n}", '{"method": "POST"}'),
                    ("echo", "echo", "", f'{{"n": {n}}}')]
            for name, kind, command, args in rows:
                parent = conn.execute(insert, [name, kind, command, args, None], prepare=True).fetchone()[0]
            conn.execute(insert, ["link", "sql", f"insert into public.effect values ({n}, 'link')", "{}", parent])
            if n % 10 == 0:
                conn.execute(insert, ["long", "shell", "sleep 4", "{}", None])

    def __enter__(self):
        self.thread.start()
        return self

    def goes_on(self, rounds=5):
        """Waits until so many more have been inserted."""
        goal = self.rounds + rounds
        wait_until(lambda: self.rounds >= goal or self.fault, 30, f"{rounds} rounds more")
        assert not self.fault, self.fault

    def __exit__(self, *exc):
        self.stopping.set()
        self.thread.join()

    def check(self, slow):
        assert not self.fault, self.fault
        db, n = self.db, self.rounds
        db.query("select pgrab.pause('every ' || i) from generate_series(1, 3) i")
        db.wait("select not exists (select from pgrab.task where schedule is null)", timeout=40)
        assert db.query("select name, count(*) from pgrab.run where key is null group by 1 order by 1") == [
            ("echo", n), ("http", n), ("link", n), ("long", (n + 9) // 10), ("shell", n), ("sql", n)]
        assert db.query("select key, name, node, outcome, attempt, error from pgrab.run where (outcome, attempt) <> ('succeeded', 1)") == []
        assert db.query("select what, count(*) as runs, count(distinct n) from effect group by 1 order by 1") == [("link", n, n), ("sql", n, n)]
        assert self.web.asked == Counter({f"/{i}": 1 for i in range(n)})
        # Each second has its fire, once.
        assert db.query("""select key from (select key, fire_at, lag(fire_at) over (partition by key order by fire_at) as before from pgrab.run
          where key like 'every%%') r where fire_at - before is distinct from '1 s' and before is not null""") == []
        late = self.late()
        print(f"{n} rounds; the slowest took {self.slowest:.2f} s; the latest start was {late[0].late:.2f} s late; the machine is {slow:.1f} times slower")
        assert late[0].late < LATE * (1 if slow < 3 else slow), late[:5]

    def late(self):
        """A link is due when its parent has ended."""
        return self.db.query("""select r.task_id, coalesce(r.name, r.key) as name, r.node, r.started_at, extract(epoch from r.started_at - coalesce(
            (select p.finished_at from pgrab.run p where p.task_id = (r.definition ->> 'parent_id')::bigint), r.fire_at))::float as late
          from pgrab.run r order by late desc nulls last limit 20""")


@pytest.fixture
def cluster_of(db, nodes, tmp_path):
    """start(program, name): a node of that program that does everything."""
    handlers = Handlers(tmp_path)
    config = handlers.config(handlers.python(ECHO, "echo"))
    db.query("insert into pgrab.kind (kind, summary) values ('echo', 'says it again') on conflict do nothing")

    def start(program, name):
        return nodes.start(name, binary=str(program), config=config, **PATIENT)

    return start


def replace(start, old, program, work):
    """One by one: the new one starts, the old one drains, and its runs end."""
    made = []
    for node in old:
        made.append(start(program, f"{node.name}x"))
        work.goes_on()
        node.term()
        assert node.wait_exit(30) == 0
        assert "event=goodbye" not in node.log() and "event=db_call" not in node.log(), node.log()
        work.goes_on()
    return made


@pytest.mark.deadline(120)
@pytest.mark.parametrize("pair", ["next", "release"], indirect=True)
def test_forwards_and_back_under_load(db, pair, cluster_of, web):
    old, new = pair
    first = [cluster_of(old, name) for name in ("n1", "n2", "n3")]
    with Haste() as haste, Work(db, web) as work:
        work.goes_on(10)
        # Refused while the server is too busy to let the nodes go on soon.
        wait_until(lambda: pgrab(new, "migrate", db, check=False).returncode == 0, 60, "a moment for migrate")
        work.goes_on(10)
        second = replace(cluster_of, first, new, work)
        # Back by one version: the schema stays as it is.
        assert pgrab(old, "migrate", db, "--check").stdout.endswith("newer than this program, which may use it.\n")
        assert "Nothing to do" in pgrab(old, "migrate", db).stdout
        replace(cluster_of, second, old, work)
    work.check(haste.ratio)


@pytest.mark.parametrize("pair", ["next"], indirect=True)
def test_a_breaking_migration_wants_the_nodes_stopped(db, pair, breaking, nodes):
    old, _ = pair
    node = nodes.start("n1", binary=str(old))
    refused = pgrab(breaking, "migrate", db, check=False)
    assert refused.returncode == 1 and "migration 0003_shape.sql" in refused.stderr
    assert "1 are up: stop them (pgrab nodes lists them), then run migrate again" in refused.stderr
    assert db.one("select max(version) from pgrab.migration") == 1, "all of it was undone"
    assert db.wait_run(db.add(command="select 1")).outcome == "succeeded"
    node.end()
    pgrab(breaking, "migrate", db)
    # Whoever does not know it is told what to do, and changes nothing.
    node = nodes.start("n1", binary=str(old), wait=False)
    assert node.wait_exit(20) == 1 and "made by a newer, incompatible pgrab; upgrade this program" in node.log()
    refused = pgrab(old, "migrate", db, check=False)
    assert refused.returncode == 1 and "upgrade the program" in refused.stderr
    nodes.start("n2", binary=str(breaking))
    assert db.wait_run(db.add(command="select 2")).outcome == "succeeded"


@pytest.mark.parametrize("pair", ["next"], indirect=True)
def test_nodes_are_not_kept_waiting_until_they_stop_their_runs(db, pair, nodes):
    """Here a statement is slow; on a server with too much to do all are."""
    old, new = pair
    node = nodes.start("n1", binary=str(old), fence_after=None, dead_after=None)
    before = node.incarnation()
    db.query("create table public.slow ()")
    refused = pgrab(new, "migrate", db, check=False)
    assert refused.returncode == 1 and "it was undone: try again when the server has less to do, or stop the nodes first" in refused.stderr
    assert db.query("select to_regclass('pgrab.colour'), max(version) from pgrab.migration") == [(None, 1)]
    assert db.wait_run(db.add(command="select 1"), timeout=30).outcome == "succeeded"
    assert node.incarnation() == before
    node.end()
    pgrab(new, "migrate", db)
