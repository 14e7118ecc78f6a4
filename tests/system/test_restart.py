"""The server restarts: what runs goes on, and what nobody runs any more starts elsewhere."""
import http.server
import os
import select
import signal
import tempfile
import threading
import time

import psycopg
import pytest
from cluster import conninfo, stays, wait_until
from handlers import Handlers
from proxy import Proxy
from test_failover import Standby
from test_keeper import keeper_of

DEFAULTS = dict.fromkeys(("heartbeat", "fence_after", "dead_after", "kill_grace"))
"""For nodes.start(): what the program has, and not the tests."""
SHORT = {"heartbeat": "500ms", "fence_after": "3s", "dead_after": "6s", "kill_grace": "1s"}
"""A lease of 12 s where a beat outlasts its life; others wait for 6 s, or 15."""


class Slow:
    """An HTTP server that answers when it is told to."""

    def __init__(self):
        self.came, self.answer = 0, threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.came += 1
                outer.answer.wait(90)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def close(self):
        self.answer.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.close()


@pytest.fixture
def handlers(tmp_path):
    return Handlers(tmp_path)


def over_tcp(db):
    return conninfo.make_conninfo(db.dsn, host="127.0.0.1")


def outlasts(db, name="n1"):
    """Waits until its last beat says so."""
    db.wait("select server_life is not null from pgrab.node where name = %s", name)


@pytest.mark.private_server
@pytest.mark.deadline(150)
@pytest.mark.direct("a pooler hides the server")
@pytest.mark.parametrize("seconds, mode", [(15, "fast"), (20, "immediate"), (30, "fast")])
def test_a_restart_stops_no_run(cluster, db, nodes, probe, slow, handlers, seconds, mode):
    probe.close_gate()
    node = handlers.start(nodes, f"""
@task("slow")
def slow():
    open({str(handlers.folder / "begun")!r}, "a").write("x")
    while not os.path.exists({str(handlers.folder / "go")!r}):
        doze(0.05)
""", "slow", node={**DEFAULTS, "workers": 10})
    shell = probe.shell("a", gate=True)
    tasks = [db.add(**shell) for _ in range(2)]
    tasks += [db.add(kind="exec", command="/bin/sh", args={"argv": ["-c", shell["command"]], **shell["args"]}) for _ in range(2)]
    tasks += [db.add(kind="http", command=slow.url), db.add(kind="slow")]
    probe.wait("start", "a", count=4)
    wait_until(lambda: slow.came == 1 and (handlers.folder / "begun").exists(), 15, "the request and the handler")
    old = node.incarnation()
    outlasts(db)
    cluster.pg_stop(mode)
    select.select([], [], [], seconds)  # how long it is away is what this is about
    cluster.pg_start()
    db.wait("select heartbeat_at > pg_postmaster_start_time() from pgrab.node where name = 'n1'", timeout=15)
    probe.open_gate()
    slow.answer.set()
    (handlers.folder / "go").touch()
    for task in tasks:
        assert db.wait_run(task, timeout=20).outcome == "succeeded"
        assert len(db.runs(task)) == 1
    assert node.incarnation() == old and "event=fenced" not in node.log()
    assert (len(probe.events("start")), slow.came, (handlers.folder / "begun").read_text()) == (4, 1, "x")


def freeze(node):
    """What is left of a machine that is lost: nothing that beats, or reports it.  The shims end its runs with the lease."""
    os.kill(keeper_of(node), signal.SIGSTOP)
    node.stop()


def seconds_until(probe, count, timeout):
    began = time.monotonic()
    probe.wait("start", "a", count=count, timeout=timeout)
    return time.monotonic() - began


@pytest.mark.private_server
@pytest.mark.deadline(120)
@pytest.mark.direct("a pooler hides the server")
@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_machine_that_is_lost_before_a_restart_is_waited_for_longer(cluster, db, nodes, probe, lost):
    """One that has beaten since as long as ever."""
    probe.close_gate()
    node = nodes.start("n1", **SHORT)
    task = db.add(**probe.shell("a", gate=True), backoff="0")
    probe.wait("start", "a")
    nodes.start("n2", **SHORT)
    outlasts(db)
    if lost == "before":
        freeze(node)
    cluster.pg_stop()
    cluster.pg_start()
    if lost == "after":
        db.wait("select heartbeat_at > pg_postmaster_start_time() from pgrab.node where name = 'n1'", timeout=15)
        freeze(node)
    waited = seconds_until(probe, 2, 40)
    assert 13 < waited < 20 if lost == "before" else 5 < waited < 11, waited
    probe.open_gate()
    assert db.wait_run(task, count=2, timeout=20).node == "n2"
    probe.assert_no_overlap()
    node.cont()
    os.kill(keeper_of(node), signal.SIGCONT)


@pytest.mark.private_server
@pytest.mark.deadline(120)
@pytest.mark.direct("a pooler hides the server")
@pytest.mark.parametrize("how", ["the operator's word", "a refusal alone", "off", "a proxy's socket"])
def test_what_counts_as_the_end_of_the_server(cluster, db, nodes, probe, how):
    probe.close_gate()
    folder = tempfile.mkdtemp()
    options = {"the operator's word": {"dsn": over_tcp(db), "outlast_restart": "yes"}, "a refusal alone": {"dsn": over_tcp(db)},
               "off": {"outlast_restart": "off"}, "a proxy's socket": {"dsn": Proxy(db.dsn, folder=folder).dsn}}[how]
    node = nodes.start("n1", **SHORT, **options)
    task = db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    old = node.incarnation()
    if how == "the operator's word":
        outlasts(db)
    else:
        beat = db.one("select beat from pgrab.node")
        db.wait("select beat > %s + 2 from pgrab.node", beat)
        assert db.one("select server_life is null from pgrab.node")
    cluster.pg_stop()
    if how == "the operator's word":
        stays(lambda: "event=fenced" not in node.log(), 5, "a node that may outlast a restart")
        assert "event=outlast" in node.log()
    else:
        node.wait_log("event=fenced", timeout=10)
    cluster.pg_start()
    probe.open_gate()
    if how == "the operator's word":
        assert db.wait_run(task, timeout=20).outcome == "succeeded"
        assert node.incarnation() == old and len(probe.events("start")) == 1
    else:
        assert db.wait_run(task, count=2, timeout=20).outcome == "succeeded"
    probe.assert_no_overlap()


@pytest.mark.private_server
@pytest.mark.deadline(120)
@pytest.mark.direct("a pooler hides the server")
def test_a_server_that_waits_for_its_sessions_to_end_lets_nobody_be_declared_dead(cluster, db, nodes, probe):
    """A smart shutdown: no new session, those that there are go on."""
    lease = {**SHORT, "fence_after": "8s", "dead_after": "12s"}
    probe.close_gate()
    node = nodes.start("n1", **lease)
    task = db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    other = nodes.start("n2", **lease)
    outlasts(db)
    with db.connect() as session:
        os.kill(cluster.pg_pid(), signal.SIGTERM)
        mine = [row[0] for row in session.execute("""select s.pid from pg_stat_activity s
            where s.application_name = 'pgrab heartbeat' order by s.backend_start limit 1""").fetchall()]
        session.execute("select pg_terminate_backend(%s)", mine)
        node.wait_log("event=outlast")
        other.wait_log("event=declare_dead .*name=n1", timeout=25)
        stays(lambda: session.execute("select state = 'up' from pgrab.node where name = 'n1'").fetchone()[0], 1, "the silent node")
    cluster.pg_stop("fast")
    cluster.pg_start()
    db.wait("select heartbeat_at > pg_postmaster_start_time() from pgrab.node where name = 'n1'", timeout=15)
    probe.open_gate()
    assert db.wait_run(task, timeout=20).outcome == "succeeded"
    assert len(probe.events("start")) == 1 and "event=fenced" not in node.log()


@pytest.mark.private_server
@pytest.mark.deadline(120)
@pytest.mark.direct("a pooler hides the server")
def test_each_start_and_each_recovery_of_the_server_is_another_life(cluster, db):
    def life():
        with db.connect() as session:
            return session.execute("select pgrab_internal.server_life()").fetchone()[0]

    lives = [life()]
    cluster.superuser("select pg_reload_conf()")
    cluster.superuser("select pg_stat_reset()")
    assert life() == lives[0]
    for again in ("fast", "immediate"):
        cluster.pg_stop(again)
        cluster.pg_start()
        lives.append(life())
    db.close()
    with db.connect() as session:  # a crash of one process, and the same postmaster
        os.kill(session.info.backend_pid, signal.SIGKILL)
        db.close()

    def back():
        try:
            return life()
        except Exception:  # it recovers
            return None
    lives.append(wait_until(lambda: back() not in (None, lives[-1]) and back(), 20, "the server's recovery"))
    assert len(set(lives)) == 4


@pytest.mark.private_server
@pytest.mark.deadline(120)
@pytest.mark.direct("a pooler hides the server")
def test_beside_a_standby_that_may_lack_a_beat_no_beat_outlasts_anything(cluster, db, nodes):
    node = nodes.start("n1", **SHORT)
    outlasts(db)
    standby = Standby(cluster, "standby")
    try:
        db.wait("select server_life is null from pgrab.node")
        vouched = nodes.start("n2", outlast_restart="yes", **SHORT)
        outlasts(db, "n2")
        vouched.end()
    finally:
        standby.close()
    assert node.running()


@pytest.fixture
def synchronous(cluster, db):
    made = Standby(cluster, "standby")
    cluster.superuser("alter system set synchronous_standby_names = 'standby'")
    cluster.superuser("select pg_reload_conf()")
    db.wait("select current_setting('synchronous_standby_names') = 'standby'")
    cluster.superuser("alter system reset synchronous_standby_names")  # when it starts again
    yield made
    made.close()


@pytest.mark.private_server
@pytest.mark.deadline(150)
@pytest.mark.direct("a pooler hides the server")
def test_a_switchover_of_half_a_minute_stops_no_run(cluster, db, nodes, probe, slow, synchronous):
    """With the default settings."""
    given = conninfo.conninfo_to_dict(db.dsn)
    both = conninfo.make_conninfo(host=f"{given['host']},127.0.0.1", port=f"{given['port']},{synchronous.port}", dbname=db.name, user=given["user"])
    probe.close_gate()
    node = nodes.start("n1", dsn=both, **DEFAULTS)
    tasks = [db.add(**probe.shell("a", gate=True)), db.add(kind="http", command=slow.url)]
    probe.wait("start", "a")
    wait_until(lambda: slow.came == 1, 15, "the request")
    outlasts(db)
    old = node.incarnation()
    cluster.pg_stop()
    select.select([], [], [], 28)  # how long it is away is what this is about
    with psycopg.connect(synchronous.dsn(db.name, given["user"]), autocommit=True) as conn:
        def one(statement, *args):
            return conn.execute(statement, args).fetchone()[0]
        beat = one("select beat from pgrab.node")
        synchronous.ctl("promote")
        wait_until(lambda: one("select beat from pgrab.node") > beat, 20, "a beat")
        probe.open_gate()
        slow.answer.set()
        for task in tasks:
            wait_until(lambda: one("select count(*) from pgrab.run where task_id = %s", task) == 1, 20, "the run's end")
            assert one("select outcome from pgrab.run where task_id = %s", task) == "succeeded"
        assert one("select incarnation from pgrab.node") == old
    assert "event=fenced" not in node.log() and (len(probe.events("start")), slow.came) == (1, 1)
    node.end()
