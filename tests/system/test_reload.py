"""HUP: the settings are read again; what can change at once does, and the log names what waits for a restart."""
import signal

import pytest
from cluster import run_pgrab


@pytest.fixture
def conf(tmp_path):
    class Conf:
        path = tmp_path / "node.conf"

        def write(self, text):
            self.path.write_text(text, encoding="utf-8")
            self.path.chmod(0o600)

    return Conf()


def hup(node, *patterns):
    node.proc.send_signal(signal.SIGHUP)
    for pattern in patterns:
        node.wait_log(pattern)


def test_what_can_change_changes_at_once(db, nodes, probe, conf):
    conf.write("weight = 1\nlog_level = info\n")
    node = nodes.start(config=str(conf.path), workers=None)
    conf.write("weight = 3\nlog_level = debug\nlabels = zone=eu\nworkers = 2\n")
    needs = db.add(kind="noop", require='{"zone": "eu"}')
    hup(node, 'event=reload changed="weight, workers, log_level, labels"')
    assert db.wait_run(needs).outcome == "succeeded"
    db.wait("""select weight = 3 and slots = 2 + 64 and labels = '{"zone": "eu"}' from pgrab.node where name = 'n1'""")
    probe.close_gate()
    try:
        for tag in "abc":
            db.add(**probe.shell(tag, gate=True))
        db.wait("select count(*) = 2 from pgrab.task where status = 'running'")
        conf.write("weight = 3\nlog_level = debug\nlabels = zone=eu\nworkers = 3\n")
        hup(node, 'event=reload changed="workers"')
        db.wait("select count(*) = 3 from pgrab.task where status = 'running'")
    finally:
        probe.open_gate()
    db.wait("select count(*) = 0 from pgrab.task")


def test_what_waits_for_a_restart_is_named(db, nodes, conf):
    conf.write("")
    node = nodes.start(config=str(conf.path))
    conf.write("lookahead = 9s\n[owner app]\ndirectory = /tmp\n")
    hup(node, r'event=reload changed="" restart_for="lookahead, \[owner\] and \[pool\] sections"')
    assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"


def test_a_file_with_a_mistake_changes_nothing(db, nodes, conf):
    conf.write("weight = 2\n")
    node = nodes.start(config=str(conf.path))
    conf.write("weight = 5\nlog_levle = debug\n")
    hup(node, "event=reload error=.*log_levle.*nothing was changed")
    assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"
    assert db.one("select weight from pgrab.node where name = 'n1'") == 2


def test_nobodys_lock_holds_up_the_heartbeat(db, nodes, conf):
    conf.write("")
    node = nodes.start(config=str(conf.path))
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.registration for update")
        conf.write("weight = 7\n")
        hup(node, 'event=reload changed="weight"')
        beat = db.one("select beat from pgrab.node where name = 'n1'")
        db.wait("select beat > %s + 2 from pgrab.node where name = 'n1'", beat)
        assert db.one("select weight from pgrab.node where name = 'n1'") == 1
    db.wait("select weight = 7 from pgrab.node where name = 'n1'")


def test_labels_in_the_database_count_over_the_file_until_they_are_null(db, nodes, conf):
    conf.write("labels = zone=eu\n")
    node = nodes.start(config=str(conf.path))
    here, away = ('{"zone": "%s"}' % zone for zone in ("eu", "us"))
    beat = db.one("select beat from pgrab.node")
    db.query("update pgrab.node set labels = %s", away)
    assert db.wait_run(db.add(kind="noop", require=away)).outcome == "succeeded"
    assert db.one("select beat - %s <= 4 from pgrab.node", beat), "with the next heartbeat"
    left = db.add(kind="noop", require=here)
    detail = db.one("select detail from pgrab.explain(%s) where gate = 'node n1'", left)
    assert detail == 'Its labels {"zone": "us"} do not contain {"zone": "eu"}. They were set in pgrab.node; its own are {"zone": "eu"}.'
    conf.write("labels = zone=eu,disk=ssd\n")
    hup(node, 'event=reload changed="labels"')
    node.end()
    nodes.start(config=str(conf.path))
    assert db.wait_run(db.add(kind="noop", require=away)).outcome == "succeeded"
    assert db.one("select status from pgrab.task where id = %s", left) == "scheduled"
    db.query("update pgrab.node set labels = null")
    assert db.wait_run(left).outcome == "succeeded"
    assert db.wait_run(db.add(kind="noop", require='{"disk": "ssd"}')).outcome == "succeeded"


def test_draining_in_the_database_is_the_drain_there_is(db, nodes):
    node = nodes.start()
    db.query("update pgrab.node set draining = true")
    node.wait_log("event=drain")
    task = db.add(kind="noop")
    node.end()
    nodes.start(wait=False)  # it may never be seen to be up
    db.wait("select state = 'draining' from pgrab.node")
    assert db.one("select status from pgrab.task where id = %s", task) == "scheduled"
    run_pgrab("undrain", "n1", dsn=db.dsn)
    assert db.wait_run(task).outcome == "succeeded"
    assert not db.one("select draining from pgrab.node")
