"""The Debian package, in a clean Debian: installed, at work, upgraded with a node at work, removed, purged."""
import os
import re
import subprocess

import pytest
from cluster import wait_until
from conftest import left_of, make
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


def test_lintian_finds_nothing(deb):
    """Nothing wrong and nothing odd, but for what debian/*.lintian-overrides gives the reason of."""
    debs = sorted(deb.parent.glob("pgrab*.deb"))
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *debs], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr


@pytest.mark.skipif("PGRAB_DEB" in os.environ, reason="PGRAB_DEB may be of other sources")
@pytest.mark.deadline(900)
def test_the_same_sources_make_the_same_bytes(deb, tmp_path):
    """In another folder, a year later, in another time zone, by somebody with another umask."""
    again = make("deb", "--out", tmp_path / "a/longer/folder", under=["sh", "-c", 'umask 077; TZ=Asia/Tokyo exec faketime -f +400d "$@"', "sh"])
    made = sorted(path.name for path in deb.parent.glob("*.deb"))
    assert made == sorted(path.name for path in again.parent.glob("*.deb")) and len(made) == 3
    assert [name for name in made if (deb.parent / name).read_bytes() != (again.parent / name).read_bytes()] == []


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
    assert left_of(debian) == []


def test_units_that_the_administrator_enabled(debian, deb, older_deb):
    """No systemd runs here, but what the scripts ask it for goes through Debian's policy-rc.d, which writes it down."""
    policy, asked = debian.path("/usr/sbin/policy-rc.d"), debian.path("/tmp/asked")
    policy.write_text('#!/bin/sh\necho "$2 $1" >>/tmp/asked\nexit 104\n')
    debian.path("/run/systemd/system").mkdir(parents=True, exist_ok=True)
    debian.install(older_deb)
    debian.run("systemctl", "--root=/", "enable", "pgrab@x", "pgrab-serve")
    debian.path("/etc/pgrab/x.conf").write_text("dsn = dbname=x\n")
    debian.path("/etc/pgrab/main.conf").write_text("workers = 3\n")

    debian.install(deb)
    assert not asked.exists(), "an upgrade stops, starts and restarts nothing"
    assert debian.run("systemctl", "--root=/", "is-enabled", "pgrab@x", "pgrab-serve").stdout.split() == ["enabled", "enabled"]
    assert debian.path("/etc/pgrab/main.conf").read_text() == "workers = 3\n"
    # An older one is installed again in the same way.
    debian.run("dpkg", "-i", f"/tmp/{older_deb.name}")
    assert not asked.exists()

    debian.run("apt-get", "purge", "-q", "-y", "pgrab")
    assert sorted(asked.read_text().splitlines()) == ["stop pgrab-serve.service", "stop pgrab@*.service"]
    assert left_of(debian) == []


def test_it_installs_again_after_a_purge(debian, deb):
    debian.install(deb)
    debian.run("apt-get", "purge", "-q", "-y", "pgrab")
    debian.install(deb)
    assert debian.run("pgrab", "help").returncode == 0
