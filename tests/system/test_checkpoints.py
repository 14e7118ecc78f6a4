"""Checkpoints of shell and exec tasks: the next attempt of a fire finds the last one, whatever has ended the one before."""
import pytest
from proxy import Proxy


def checkpoint(db, task):
    return db.one("select result #>> '{}' from pgrab.step where task_id = %s and name = 'checkpoint'", task)


def test_the_next_attempt_finds_the_last_checkpoint(db, nodes):
    """The first prints some and fails at once: the last one is recorded with its end, and beats what args.env says."""
    nodes.start()
    script = 'if [ "$PGRAB_CHECKPOINT" = none ]; then for i in $(seq 1 3000); do echo "pgrab: checkpoint page $i"; done; exit 1; fi; echo "from $PGRAB_CHECKPOINT"'
    task = db.add(kind="shell", command=script, args={"env": {"PGRAB_CHECKPOINT": "none"}}, backoff="0")
    run = db.wait_run(task, count=2)
    assert (run.outcome, run.output) == ("succeeded", "from page 3000\n")
    first = min(db.runs(task), key=lambda r: r.version)
    assert first.outcome == "failed" and [s["name"] for s in first.steps] == ["checkpoint"]
    assert db.one("select count(*) from pgrab.step") == 0


def test_a_fire_without_one_has_no_such_variable(db, nodes):
    nodes.start()
    task = db.add(kind="exec", command="/bin/sh", args={"argv": ["-c", 'echo "${PGRAB_CHECKPOINT-unset}"; echo "pgrab: checkpoint 1"']}, schedule="@every 1s", max_runs=2)
    db.wait_run(task, count=2)
    assert [r.output.split("\n")[0] for r in db.runs(task)] == ["unset", "unset"], "each fire begins with none"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_node_that_is_lost_behind_its_checkpoint(db, nodes, tmp_path, how):
    gate = tmp_path / "gate"
    quick = dict(dead_after="4s", fence_after="1s", kill_grace="200ms", heartbeat="200ms")
    first = nodes.start("n1", **quick)
    script = f'case "$PGRAB_CHECKPOINT" in "") echo "pgrab: checkpoint half \\"of it\\""; while [ ! -e {gate} ]; do sleep 0.05; done; echo "pgrab: checkpoint late";; *) echo "from $PGRAB_CHECKPOINT";; esac'
    task = db.add(kind="shell", command=script, backoff="0")
    db.wait("select exists (select from pgrab.step where task_id = %s)", task)
    first.kill9() if how == "kill" else first.stop()
    gate.touch()
    nodes.start("n2", **quick)
    run = db.wait("select output from pgrab.run where task_id = %s and outcome = 'succeeded'", task, timeout=40)
    first.cont() if how == "freeze" else None
    assert run == 'from half "of it"\n'


def test_a_record_whose_answer_is_lost_is_made_again(db, nodes):
    proxy = Proxy(db.dsn)
    nodes.start(dsn=proxy.dsn)
    proxy.unheard = (b"pgrab teller", b"recorded", 1)
    task = db.add(kind="shell", command='[ -n "$PGRAB_CHECKPOINT" ] || { echo "pgrab: checkpoint 7"; exit 1; }; echo "from $PGRAB_CHECKPOINT"', backoff="0")
    assert db.wait_run(task, count=2, timeout=20).output == "from 7\n" and proxy.unheard is None
    proxy.close()


def test_what_is_too_long_is_left_out_and_said(db, nodes):
    node = nodes.start()
    task = db.add(kind="shell", command="echo 'pgrab: checkpoint short'; head -c 70000 /dev/zero | tr '\\0' x | sed 's/^/pgrab: checkpoint /'; echo; exit 1", max_attempts=1)
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    assert checkpoint(db, task) == "short"
    node.wait_log("event=checkpoint task=.*longer than 65536 bytes")
