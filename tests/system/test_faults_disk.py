"""The disk of the server is full: outcomes wait, nothing is lost, parked or done twice, and it goes on when there is room."""
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from cluster import wait_until

pytestmark = [pytest.mark.private_server, pytest.mark.deadline(120),
              pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")]


class Disk:
    """A tablespace of a few megabytes."""

    def __init__(self, path):
        self.path = path
        self.ballast = path / "ballast"

    def fill(self):
        with open(self.ballast, "wb", buffering=0) as f:
            try:
                while f.write(bytes(4096)) == 4096:
                    pass
            except OSError:
                pass

    def clear(self):
        self.ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(cluster, db):
    path = Path(cluster.folder) / "disk"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", path], check=False).returncode != 0:
        path.rmdir()
        pytest.skip("nothing can be mounted here")
    data = path / "data"
    data.mkdir(mode=0o700)
    shutil.chown(data, "postgres" if any(p.pw_name == "postgres" for p in pwd.getpwall()) else "nobody")
    cluster.superuser(f"create tablespace small location '{data}'")
    db.close()
    cluster.superuser(f"alter database {db.name} set tablespace small")
    small = Disk(path)
    yield small
    small.clear()
    db.close()
    cluster.superuser(f"alter database {db.name} set tablespace pg_default")
    cluster.superuser("drop tablespace small")
    subprocess.run(["umount", path], check=True)
    path.rmdir()


def test_a_full_disk_loses_and_doubles_nothing(disk, db, nodes):
    db.query("create table public.effect (n int, fat text)")
    db.query("insert into pgrab.task (kind, command) select 'sql', format('insert into public.effect values (%s, repeat(''x'', 100)); select pg_sleep(0.002)', n) from generate_series(1, 3000) n")
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 3000)")
    pair = [nodes.start(name, allow="sql,noop", fence_after="3s", dead_after="6s") for name in "ab"]
    db.wait("select count(*) >= 300 from pgrab.run")
    disk.fill()
    wait_until(lambda: any("event=fault part=finish" in node.log() for node in pair), 20, "a finish that met the full disk")
    done = db.one("select count(*) from pgrab.run")
    disk.clear()
    db.wait("select count(*) > %s from pgrab.run", done)
    db.wait("select not exists (select from pgrab.task)", timeout=60)
    ended = db.query("select count(*) as n, count(distinct task_id) as tasks from pgrab.run where outcome = 'succeeded'")
    assert ended == [(6000, 6000)]
    others = db.query("select kind, outcome, error from pgrab.run where outcome <> 'succeeded'")
    assert all(o.kind == "sql" and "No space left" in o.error for o in others), "a text that met the full disk itself is tried again"
    assert db.query("select count(*) as n, count(distinct n) as d from public.effect") == [(3000, 3000)]
