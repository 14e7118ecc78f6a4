"""A sql task runs as its owner, on a connection of its owner's, or not at all."""
import itertools
import os
import re

import pytest
from cluster import conninfo, run_pgrab, stays

numbers = itertools.count(1)


@pytest.fixture
def roles(db):
    """Makes roles that may log in and insert tasks: alice = roles('alice'). They are gone after the test."""
    made = []

    def make(word="owner", rights="grant usage on schema pgrab to {0}; grant select, insert on pgrab.task to {0}; "
             "grant select, insert on pgrab.lane to {0}; grant usage on schema pgrab_internal to {0}; "
             "grant select on pgrab.node to {0}"):
        name = f"pgrab_{word}_{os.getpid()}_{next(numbers)}"
        db.query(f"create role {name} login")
        made.append(name)
        db.query(rights.format(name) or "select 1")
        return name

    yield make
    db.query("select 1")
    for name in made:
        db.cluster.superuser(f"drop owned by {name} cascade; drop role {name}", db.name)


def as_user(db, role):
    return conninfo.make_conninfo(db.dsn, user=role)


def insert_as(db, role, **columns):
    with db.connect(user=role) as conn:
        names = ", ".join(columns)
        marks = ", ".join(["%s"] * len(columns))
        return conn.execute(f"insert into pgrab.task ({names}) values ({marks}) returning id", list(columns.values())).fetchone()[0]


@pytest.fixture
def config(tmp_path):
    """Writes a node's file; returns its name."""
    def write(text):
        path = tmp_path / f"pgrab.{next(numbers)}.ini"
        path.write_text(text)
        path.chmod(0o600)
        return str(path)
    return write


def gates(db, task):
    return {r.gate: f"{r.verdict}: {r.detail}" for r in db.query("select * from pgrab.explain(%s)", task)}


def test_without_a_connection_of_its_owner_a_sql_task_waits_and_says_why(db, nodes, roles):
    alice = roles("alice")
    nodes.start("n1")
    task = insert_as(db, alice, kind="sql", command="select 1")
    noop = insert_as(db, alice, kind="noop")
    db.wait_run(noop)
    stays(lambda: db.one("select status = 'scheduled' from pgrab.task where id = %s", task), 3)
    said = gates(db, task)
    assert re.search(f"blocked: It has no connection for owner {alice}", said["node n1"])
    assert f"No live node has a connection for owner {alice}, and sql runs as its owner or not at all" in said["nodes"]
    assert db.one("select why from pgrab.late where id = %s", task) == f"no live node has a connection for owner {alice}"
    doctor = run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert f"no live node has a connection for owner {alice}" in doctor and f"[owner {alice}]" in doctor


def test_a_file_bounds_the_kinds_of_an_owner(db, nodes, roles, config):
    alice = roles("alice")
    nodes.start("n1", config=config(f"[owner {alice}]\nallow = shell\n"))
    left = insert_as(db, alice, kind="noop")
    taken = insert_as(db, alice, kind="shell", command="echo yes")
    own = db.add(kind="noop")
    assert db.wait_run(taken).outcome == "succeeded" and db.wait_run(own).outcome == "succeeded"
    stays(lambda: db.one("select status = 'scheduled' from pgrab.task where id = %s", left), 2)
    assert "does not run kind noop for owner" in gates(db, left)["node n1"]
    assert db.one("select why from pgrab.late where id = %s", left) == f"no live node runs kind noop for owner {alice}"
    nodes.start("n2")
    assert db.wait_run(left).node == "n2"


def test_a_superuser_is_no_role_for_a_node(db, nodes):
    node = nodes.start("n1", wait=False, dsn=as_user(db, "postgres"))
    assert node.wait_exit() == 1
    assert "is a superuser" in node.log() and "allow_superuser" in node.log()
    nodes.start("n2", dsn=as_user(db, "postgres"), env={"PGRAB_ALLOW_SUPERUSER": "yes"})
    own = db.add(kind="sql", command="select 1")
    stays(lambda: db.one("select status = 'scheduled' from pgrab.task where id = %s", own), 2)
