"""The clock of the database's machine jumps: nobody is taken for dead, nothing runs twice, what is due starts."""
from pathlib import Path

import pytest

from cluster import stays

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")

pytestmark = [pytest.mark.private_server, pytest.mark.deadline(90),
              pytest.mark.skipif(not LIBRARY.exists(), reason="faketime is not installed")]


@pytest.fixture
def clock(cluster):
    """Says by how many seconds the server's clock is ahead."""
    path = Path(cluster.folder) / "clock"

    def ahead(seconds):
        new = path.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n", encoding="ascii")
        new.chmod(0o644)
        new.replace(path)

    ahead(0)
    cluster.pg_stop()
    cluster.pg_start(PGRAB_PG_PRELOAD=str(LIBRARY), FAKETIME_TIMESTAMP_FILE=str(path), FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
    yield ahead
    cluster.pg_stop()
    path.unlink()
    cluster.pg_start()


@pytest.mark.parametrize("jump", [-3600, 3600])
def test_a_clock_that_jumps_costs_nothing(cluster, clock, nodes, db, probe, jump):
    pair = [nodes.start(name, workers=4) for name in "ab"]
    before = [node.incarnation() for node in pair]
    probe.close_gate()
    try:
        held = db.add(**probe.shell("held", gate=True))
        probe.wait("start", "held")
        db.add(kind="noop", key="tick", schedule="@every 1s")
        db.wait("select count(*) >= 2 from pgrab.run")
        at = db.one("select clock_timestamp()")
        clock(jump)
        db.wait("select abs(extract(epoch from clock_timestamp() - %s)) > 3000", at)
        for _ in range(3):
            assert db.wait_run(db.add(kind="noop"), timeout=8).outcome == "succeeded"
        stays(lambda: [node.incarnation() for node in pair] == before, 6, "nobody is fenced or taken for dead")
        db.query("update pgrab.task set paused = true where key = 'tick'")
    finally:
        probe.open_gate()
    assert db.wait_run(held).outcome == "succeeded"
    assert len(probe.events("start")) == 1
    assert db.one("select count(*) from pgrab.run where outcome not in ('succeeded', 'missed')") == 0
    assert all("event=fence" not in node.log() for node in pair)
