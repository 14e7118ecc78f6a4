"""Another server answers: a standby, a promoted one, one of several hosts that is silent."""
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from cluster import clean_env, conninfo, stays, wait_until
from proxy import Proxy

BIN = Path(os.environ.get("PGRAB_PG_BIN") or "/usr/lib/postgresql/15/bin")


class Standby:
    """A streaming copy of a server, on a port of its own."""

    def __init__(self, cluster, name):
        if not (BIN / "pg_basebackup").exists():
            pytest.skip("this server comes without pg_basebackup")
        self.home = Path(cluster.folder) / name
        self.user = None
        if os.getuid() == 0:
            self.user = "postgres" if any(p.pw_name == "postgres" for p in pwd.getpwall()) else "nobody"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        given = conninfo.conninfo_to_dict(cluster.dsn)
        source = conninfo.make_conninfo(host=given["host"], port=given["port"], user="postgres", application_name=name)
        self.home.mkdir(mode=0o700)
        if self.user:
            shutil.chown(self.home, self.user)
        self.run("pg_basebackup", "-D", self.home, "-d", source, "-R", "-c", "fast", "-X", "stream")
        with open(self.home / "postgresql.auto.conf", "a", encoding="utf-8") as conf:
            conf.write(f"\nport = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n")
        self.ctl("start")

    def run(self, program, *args):
        command = [str(BIN / program), *map(str, args)]
        if self.user:
            command = ["setpriv", f"--reuid={self.user}", f"--regid={pwd.getpwnam(self.user).pw_gid}", "--init-groups", *command]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=clean_env(), cwd="/", check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def ctl(self, what, *args):
        self.run("pg_ctl", what, "-D", self.home, "-w", "-t", "60", "-l", f"{self.home}.log" if not self.user else self.home / "log.txt", *args)

    def dsn(self, name, user):
        return conninfo.make_conninfo(host="127.0.0.1", port=self.port, dbname=name, user=user)

    def close(self):
        self.run("pg_ctl", "stop", "-D", self.home, "-m", "immediate", "-w")
        shutil.rmtree(self.home)


@pytest.fixture
def standby(cluster):
    made = Standby(cluster, "standby")
    yield made
    made.close()


@pytest.fixture
def proxy(db):
    made = Proxy(db.dsn)
    yield made
    made.close()


def user_of(db):
    return conninfo.conninfo_to_dict(db.dsn)["user"]


@pytest.mark.private_server
def test_a_node_on_a_standby_waits_and_names_the_remedy(db, nodes, standby):
    node = nodes.start("n1", dsn=standby.dsn(db.name, user_of(db)), wait=False)
    node.wait_log("event=waiting for=database .*is a standby.*target_session_attrs=read-write")
    stays(node.running, 1)


@pytest.mark.private_server
def test_the_primary_is_found_among_the_hosts(db, nodes, standby):
    given = conninfo.conninfo_to_dict(db.dsn)
    both = conninfo.make_conninfo(host=f"127.0.0.1,{given['host']}", port=f"{standby.port},{given['port']}", dbname=db.name, user=given["user"])
    nodes.start("n1", dsn=both)
    assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"


@pytest.mark.private_server
@pytest.mark.deadline(120)
def test_a_promoted_standby_that_may_lack_claims_fences_the_node(cluster, db, nodes, probe, standby):
    """Asynchronous: the node goes on under a new incarnation, whatever the new server knows of the old one."""
    given = conninfo.conninfo_to_dict(db.dsn)
    both = conninfo.make_conninfo(host=f"{given['host']},127.0.0.1", port=f"{given['port']},{standby.port}", dbname=db.name, user=given["user"])
    probe.close_gate()
    node = nodes.start("n1", dsn=both, fence_after="20s", dead_after="30s")
    node.wait_log("event=durability .*asynchronous standby")
    task = db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    old = node.incarnation()
    cluster.pg_stop("immediate")
    standby.ctl("promote")
    node.wait_log("event=fenced .*went back in time", timeout=20)
    node.wait_log("event=registered(.|\n)*event=registered", timeout=20)
    with psycopg.connect(standby.dsn(db.name, given["user"]), autocommit=True) as conn:
        probe.wait("start", "a", count=2, timeout=15)
        probe.open_gate()
        wait_until(lambda: conn.execute("select count(*) from pgrab.run where outcome = 'succeeded'").fetchone()[0] == 1, 15)
        assert conn.execute("select incarnation <> %s from pgrab.node where name = 'n1'", [old]).fetchone()[0]
        assert [r[0] for r in conn.execute("select outcome from pgrab.run where task_id = %s order by attempt", [task])] == ["lost", "succeeded"]
    probe.assert_no_overlap()
    assert node.log().count("went back in time") == 1
    node.end()


@pytest.mark.private_server
@pytest.mark.deadline(120)
def test_a_claim_whose_start_the_promoted_standby_lacks_is_no_task_for_ever(cluster, db, nodes, probe, standby):
    """The run ends while only the finisher has seen the new server: that nobody knows it there proves nothing."""
    given = conninfo.conninfo_to_dict(db.dsn)
    both = conninfo.make_conninfo(host=f"{given['host']},127.0.0.1", port=f"{given['port']},{standby.port}", dbname=db.name, user=given["user"])
    node = nodes.start("n1", dsn=both, fence_after="20s", dead_after="30s", heartbeat="6s", workers=2)
    probe.close_gate()
    task = db.add(**probe.shell("a", gate=True), run_at=db.one("select now() + interval '3 s'"))
    copy = psycopg.connect(standby.dsn(db.name, given["user"]), autocommit=True)
    wait_until(lambda: copy.execute("select status = 'claimed' from pgrab.task where id = %s", [task]).fetchone() == (True,), 10, "the claim on the standby")
    with psycopg.connect(conninfo.make_conninfo(db.dsn, user="postgres")) as admin:
        os.kill(admin.execute("select pid from pg_stat_replication").fetchone()[0], signal.SIGSTOP)
    probe.wait("start", "a")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    cluster.pg_stop("immediate")
    standby.ctl("promote")
    probe.open_gate()
    copy.execute("insert into pgrab.task (kind) select 'noop' from generate_series(1, 5)")
    wait_until(lambda: copy.execute("select not exists (select from pgrab.task)").fetchone()[0], 60, "every task to be done")
    assert copy.execute("select count(*) from pgrab.run where task_id = %s and outcome = 'succeeded'", [task]).fetchone()[0] == 1
    assert copy.execute("select not exists (select from pgrab.hold h join pgrab.task t on t.id = any (h.ids))").fetchone()[0]
    copy.close()
    node.end()


@pytest.mark.private_server
@pytest.mark.deadline(120)
def test_all_of_a_node_leaves_a_silent_server_with_its_heartbeat(cluster, db, nodes, standby, proxy):
    """A server that takes everything and answers nothing: no connection of the node waits for it longer than the heartbeat."""
    given, front = conninfo.conninfo_to_dict(db.dsn), conninfo.conninfo_to_dict(proxy.dsn)
    both = conninfo.make_conninfo(host=f"{front['host']},127.0.0.1", port=f"{front['port']},{standby.port}", dbname=db.name, user=given["user"])
    node = nodes.start("n1", dsn=both, fence_after="6s", dead_after="10s", heartbeat="1s")
    task = db.add(kind="shell", command="true")
    with psycopg.connect(standby.dsn(db.name, given["user"]), autocommit=True) as copy:
        wait_until(lambda: copy.execute("select count(*) = 1 from pgrab.run where task_id = %s", [task]).fetchone()[0], 10, "the standby to have it all")
    proxy.silent = True
    standby.ctl("promote")
    node.wait_log("event=registered(.|\n)*event=registered", timeout=30)
    begun = time.monotonic()
    with psycopg.connect(standby.dsn(db.name, given["user"]), autocommit=True) as conn:
        conn.execute("insert into pgrab.task (kind, command) values ('shell', 'true')")
        wait_until(lambda: conn.execute("select not exists (select from pgrab.task)").fetchone()[0], 30, "the task to be done")
    assert time.monotonic() - begun < 5
    node.end()


@pytest.mark.deadline(40)
def test_a_silent_host_does_not_keep_the_next_from_being_tried(db, nodes):
    """It takes connections and never says a word, as a machine behind a firewall does."""
    given = conninfo.conninfo_to_dict(db.dsn)
    silent = socket.create_server(("127.0.0.1", 0))
    dsn = conninfo.make_conninfo(host=f"127.0.0.1,{given['host']}", port=f"{silent.getsockname()[1]},{given['port']}", dbname=db.name, user=given["user"])
    nodes.start("n1", dsn=dsn, wait=False, fence_after="3s", dead_after="8s", heartbeat="1s").wait_up(timeout=20)
    assert db.wait_run(db.add(kind="noop"), timeout=15).outcome == "succeeded"
    silent.close()
