"""The Debian package, in a clean Debian: installed, at work, upgraded with a node at work, removed, purged."""
import re
import subprocess

import pytest
from cluster import wait_until
from psycopg import conninfo

pytestmark = pytest.mark.deadline(300)


def configure(debian, db, **settings):
    lines = {"dsn": conninfo.make_conninfo(db.dsn, host="127.0.0.1"), "name": "main", "allow": "sql,shell,noop", "heartbeat": "200ms", "drain_timeout": "2s", **settings}
    debian.path("/etc/pgrab/main.conf").write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))


def up(debian, db, process, name="main"):
    def look():
        assert process.poll() is None, debian.log()
        return db.one("select incarnation from pgrab.node where name = %s and state = 'up'", name)
    return wait_until(look, 30, f"node {name}")


def test_it_installs_and_its_parts_are_at_their_places(fresh_debian, deb):
    debian = fresh_debian
    debian.install(deb)
    debian.run("apt-get", "install", "-q", "-y", "man-db")
    version = subprocess.run(["dpkg-deb", "-f", deb, "Version"], check=True, capture_output=True, text=True).stdout.strip()
    assert debian.run("pgrab", "version").stdout == f"pgrab {version.replace('~dev', '-dev')}\n"
    for page in ("pgrab", "pgrab.conf", "7 pgrab"):
        assert "DESCRIPTION" in debian.run(f"man {page}").stdout
    assert re.search(r"^pgrab:x:\d+:\d+:[^:]*:/var/lib/pgrab:/usr/sbin/nologin$", debian.path("/etc/passwd").read_text(), re.M)
    owner = debian.run("stat -c '%U:%G %a' /etc/pgrab /etc/pgrab/main.conf /var/lib/pgrab").stdout.splitlines()
    assert owner == ["root:pgrab 750", "root:pgrab 640", "pgrab:pgrab 750"]
    for path in ("lib/systemd/system/pgrab@.service", "lib/systemd/system/pgrab-serve.service", "usr/share/pgrab/prometheus/pgrab.rules.yml", "usr/share/pgrab/grafana/pgrab.json",
                 "usr/share/pgrab/handlers/python/pgrab_handler.py"):
        assert debian.path(f"/{path}").exists(), path
    assert not list(debian.path("/etc/systemd/system").glob("*/pgrab*")), "nothing starts before it has settings"
    assert debian.run("stat -c '%U:%G %a' /run/pgrab").stdout == "pgrab:pgrab 755\n"
    assert debian.path("/usr/share/doc/pgrab/examples/pgrab.conf").exists()


def test_lintian_has_no_errors(deb):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", deb], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_upgraded_with_a_node_at_work(debian, deb, older_deb, db, tmp_path):
    debian.install(older_deb)
    configure(debian, db)
    old = debian.node()
    incarnation = up(debian, db, old)
    gate = debian.path("/tmp/gate")
    running = db.add(name="long", kind="shell", command="until [ -e /tmp/gate ]; do sleep 0.1; done; echo through")
    db.wait("select status = 'running' from pgrab.task where id = %s", running)

    debian.install(deb)
    # What runs goes on, and the old node takes more: its program is gone from the disk, not from memory.
    assert old.poll() is None
    db.wait_run(db.add(kind="shell", command="echo still here"))
    gate.touch()
    assert db.wait_run(running).outcome == "succeeded"
    assert "dsn = " in debian.path("/etc/pgrab/main.conf").read_text(), "an upgrade leaves settings alone"

    assert debian.stop(old) == 0
    new = debian.node()
    assert up(debian, db, new) != incarnation
    assert db.wait_run(db.add(command="select 1")).outcome == "succeeded"
    assert debian.stop(new) == 0


def test_the_old_node_can_die_after_an_upgrade(debian, deb, older_deb, db):
    """Its keeper ends its runs and tells the database, although neither's program is on the disk any more."""
    debian.install(older_deb)
    configure(debian, db)
    old = debian.node()
    incarnation = up(debian, db, old)
    task = db.add(name="long", kind="shell", command="sleep 600", backoff="1 hour")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    debian.install(deb)
    old.kill()
    old.wait(10)
    db.wait("select state = 'down' from pgrab.node where incarnation = %s", incarnation, timeout=10)
    assert db.wait_run(task).outcome == "lost"


def test_it_is_removed_and_purged(debian, deb, db):
    debian.install(deb)
    configure(debian, db)
    debian.run("apt-get", "remove", "-q", "-y", "pgrab")
    assert not debian.path("/usr/bin/pgrab").exists()
    assert debian.path("/etc/pgrab/main.conf").exists(), "settings stay until a purge"
    debian.run("apt-get", "purge", "-q", "-y", "pgrab")
    left = debian.run("find / -xdev -path /proc -prune -o -name '*pgrab*' -print").stdout.splitlines()
    assert [path for path in left if not re.match(r"/(tmp|var/cache/apt|var/log|var/lib/dpkg|dev|sys|proc)/", path)] == []


def test_it_installs_again_after_a_purge(debian, deb):
    debian.install(deb)
    debian.run("apt-get", "purge", "-q", "-y", "pgrab")
    debian.install(deb)
    assert debian.run("pgrab", "help").returncode == 0
