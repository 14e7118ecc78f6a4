"""Can the system tests see what they claim to see?  These need no pgrab."""
import os
import signal
import subprocess

import psycopg
import pytest
from cluster import Db, alive, descendants, end_leftovers, reap, stays, wait_until
from probe import SCRIPT


def start_probe(probe, tag, **options):
    return subprocess.Popen([SCRIPT, tag], env={**os.environ, **probe.shell(tag, **options)["args"]["env"]})


@pytest.fixture
def empty_db(cluster):
    database = Db(cluster, cluster.create_database(template="template0"))
    yield database
    database.close()
    cluster.drop_database(database.name)


def test_a_probe_leaves_a_start_and_an_end(probe):
    assert start_probe(probe, "a", exit_status=3).wait(10) == 3
    assert [(e.what, e.tag) for e in probe.events()] == [("start", "a"), ("end", "a")]
    assert probe.unfinished() == []


def test_probes_of_one_tag_at_once_are_seen_as_an_overlap(probe):
    probe.close_gate()
    first = start_probe(probe, "a", gate=True)
    probe.wait("start", "a")
    other, second = start_probe(probe, "b", gate=True), start_probe(probe, "a", gate=True)
    probe.wait("overlap", "a")
    assert not probe.events("end")
    probe.open_gate()
    assert [p.wait(10) for p in (first, other, second)] == [0, 0, 0]
    with pytest.raises(AssertionError):
        probe.assert_no_overlap()


def test_an_orphan_is_found_and_killed(no_leftovers):
    shell = subprocess.run(["sh", "-c", "sleep 1000 >/dev/null & echo $!"], stdout=subprocess.PIPE, text=True, check=True)
    orphan = int(shell.stdout)
    assert orphan in descendants() and alive(orphan)
    assert any(line.endswith("sleep 1000") for line in end_leftovers(timeout=0.1))
    wait_until(lambda: reap() or not alive(orphan), 5, "the orphan's end")


def test_each_database_is_fresh(empty_db, cluster):
    empty_db.query("create table t (n int)")
    other = cluster.create_database(template="template0")
    assert Db(cluster, other).one("select count(*) from pg_class where relname = 't'") == 0
    cluster.drop_database(other)


def test_a_notification_is_heard(empty_db):
    with empty_db.listen("door") as ear:
        empty_db.query("select pg_notify('door', 'ring')")
        assert ear.wait(5) == "ring"
        with pytest.raises(AssertionError):
            ear.wait(0.05)


def test_a_wait_ends_at_its_deadline():
    with pytest.raises(AssertionError, match="waited 0.05 s for rain"):
        wait_until(lambda: False, 0.05, "rain")
    with pytest.raises(AssertionError, match="did not stay"):
        stays(lambda: False, 0.05)


def test_the_shared_server_can_not_be_stopped(cluster):
    with pytest.raises(AssertionError, match="private_server"):
        cluster.pg_stop()


@pytest.mark.private_server
@pytest.mark.parametrize("how", ["fast", "immediate", "kill9"])
def test_a_private_server_goes_and_comes_back_with_what_was_committed(cluster, empty_db, how):
    empty_db.query("create table t as select 1 as n")
    dsn = cluster.dsn
    if how == "kill9":
        cluster.pg_kill9()
    else:
        cluster.pg_stop(how)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(empty_db.dsn)
    cluster.pg_start()
    assert cluster.dsn == dsn
    assert empty_db.one("select n from t") == 1


def test_a_sigterm_to_the_tests_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 1)
