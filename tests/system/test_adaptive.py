"""The strategy adaptive with real nodes: one that fails everything, one that is slow, and what people see of it.

Its arithmetic is tested by tests/unit/test_adaptive.c; whole days of hundreds of nodes by scripts/simulate.
"""
import pytest
from cluster import wait_until

# Judged once a second; nobody takes what belongs to another.
ADAPTIVE = {"strategy": "adaptive", "heartbeat": "200ms", "fence_after": "6s", "dead_after": "10s", "steal_after": "60s", "allow": "sql,noop,shell",
            "workers": 4, "lookahead": "200ms"}


def fitness(db, name):
    return db.one("select coalesce(fitness, 100) from pgrab.node where name = %s", name)


def shards(db, name):
    return db.one("select shards from pgrab.nodes where name = %s", name)


def keep_busy(db, kind, command, count, over):
    """One-shots, due one after the other."""
    db.query("insert into pgrab.task (kind, command, max_attempts, run_at) "
             "select %s, %s, 1, now() + %s::interval * (n::float8 / %s) from generate_series(1, %s) n", kind, command, over, count, count)


def sick_path(tmp_path):
    """A folder for PATH whose command `job` fails until the file `mended` is there; on other nodes it succeeds."""
    job = tmp_path / "job"
    job.write_text(f"#!/bin/sh\ntest -e {tmp_path}/mended\n")
    job.chmod(0o755)
    return tmp_path


def well_path(tmp_path):
    folder = tmp_path / "well"
    folder.mkdir()
    (folder / "job").symlink_to("/bin/true")
    return folder


@pytest.mark.deadline(150)
def test_a_node_that_fails_everything_sinks_to_a_trickle_and_comes_back(db, nodes, tmp_path):
    sick, well = sick_path(tmp_path), well_path(tmp_path)
    for name, folder in {"n1": well, "n2": well, "n3": sick}.items():
        nodes.start(name, wait=False, job_env=f"PATH={folder}:/usr/bin:/bin", **ADAPTIVE)
    for node in nodes.all:
        node.wait_up()
    wait_until(lambda: shards(db, "n3") in (341, 342), 10, "equal shares")
    keep_busy(db, "shell", "job", 3000, "100 s")
    # Within a minute; here in much less.
    wait_until(lambda: fitness(db, "n3") == 6, 60, "the sick node to sink")
    wait_until(lambda: 1 <= shards(db, "n3") <= 64, 5, "its shards to go to others")
    assert "success" in db.one("select fitness_why from pgrab.node where name = 'n3'")
    assert db.one("select warning from pgrab.nodes where name = 'n3'").startswith("fitness 6%: success")
    assert "event=fitness" in nodes.all[2].log() and "percent=6" in nodes.all[2].log()
    since = db.one("select clock_timestamp()")
    assert min(fitness(db, "n1"), fitness(db, "n2")) >= 4 * 6
    # What it still gets is a trickle, and fails.
    db.wait("select count(*) >= 200 from pgrab.run where started_at > %s", since, timeout=30)
    part, failed = db.query("select avg((node = 'n3')::int)::float8 as part, count(*) filter (where outcome <> 'succeeded' and node <> 'n3') as failed "
                            "from pgrab.run where started_at > %s", since)[0]
    assert part < 0.1 and failed == 0
    (tmp_path / "mended").touch()
    wait_until(lambda: shards(db, "n3") >= 250, 60, "the mended node to come back")


@pytest.mark.deadline(150)
def test_a_slow_node_gets_less_and_each_task_runs_once(db, nodes, tmp_path):
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    for folder, seconds in ((fast, "0.05"), (slow, "0.2")):
        folder.mkdir()
        (folder / "job").write_text(f"#!/bin/sh\nexec sleep {seconds}\n")
        (folder / "job").chmod(0o755)
    for name, folder in {"n1": fast, "n2": fast, "n3": slow}.items():
        nodes.start(name, wait=False, job_env=f"PATH={folder}:/usr/bin:/bin", **ADAPTIVE)
    for node in nodes.all:
        node.wait_up()
    keep_busy(db, "shell", "job", 1200, "40 s")
    wait_until(lambda: shards(db, "n3") < 220, 40, "the slow node to own less")
    since = db.one("select clock_timestamp()")
    db.wait("select not exists (select from pgrab.task)", timeout=60)
    ran = {r.node: r.n for r in db.query("select node, count(*) as n from pgrab.run where started_at > %s group by node", since)}
    assert ran["n3"] < 0.7 * min(ran["n1"], ran["n2"]), ran
    assert db.one("select count(*) = 1200 and count(distinct task_id) = 1200 from pgrab.run where outcome = 'succeeded'")
    assert shards(db, "n1") + shards(db, "n2") + shards(db, "n3") == 1024


def test_beats_report_what_the_machine_has_left(db, nodes):
    nodes.start("n1", strategy="id_hash", heartbeat="200ms", fence_after="6s", dead_after="10s")
    db.wait("select cpu_free between 0 and 100 and memory_free between 1 and 100 from pgrab.node")
    assert db.query("select fitness, fitness_why, work from pgrab.node") == [(None, None, None)], "only strategies that ask are told"
