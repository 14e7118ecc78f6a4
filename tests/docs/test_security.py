"""The two ways to run of docs/security.md, as it shows them, and its table of who may do what.

PGRAB_DOCS_WRITE=1 writes the table.
"""
import contextlib
import os
import re
from pathlib import Path

import psycopg
import pytest
from cluster import Db, Nodes, run_pgrab
from psycopg import conninfo, sql

SECURITY = Path(__file__).resolve().parents[2] / "docs/security.md"
PAGE = SECURITY.read_text(encoding="utf-8")
WAYS = PAGE.split("## Two ways to run", 1)[1].split("\n## ", 1)[0]
COMMANDS = re.findall(r"^pgrab ([^#\n]*?) *(?:#.*)?$", WAYS, re.M)
STATEMENTS = re.search(r"^```text\n(.*?)^```$", WAYS, re.M | re.S)[1]
MADE = re.findall(r"create role (\w+)", STATEMENTS)


@pytest.fixture
def owned(shared_server):
    """A database whose owner may make roles, and is no superuser."""
    name, boss = f"{shared_server.prefix}_ways", f"{shared_server.prefix}_ways_boss"
    shared_server.admin(sql.SQL("create role {} login createrole").format(sql.Identifier(boss)))
    shared_server.admin(sql.SQL("grant {} to current_user").format(sql.Identifier(boss)))
    shared_server.admin(sql.SQL("create database {} owner {}").format(sql.Identifier(name), sql.Identifier(boss)))
    db = Db(shared_server, name)
    db.boss = conninfo.make_conninfo(db.dsn, user=boss)
    yield db
    db.close()
    shared_server.drop_database(name)
    for role in MADE:
        shared_server.superuser(f'drop role if exists "{role}"')
    with contextlib.suppress(psycopg.errors.DependentObjectsStillExist):  # from 16 on the groups are members of each other by his word
        shared_server.superuser(f'drop role if exists "{boss}"')


@pytest.fixture
def node(owned, tmp_path):
    nodes = Nodes(owned, tmp_path)
    yield nodes
    nodes.end()


def done(dsn, kind, command):
    """The output of a task that is inserted on that connection."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        task = conn.execute("insert into pgrab.task (kind, command) values (%s, %s) returning id", [kind, command]).fetchone()[0]
        for _ in range(300):
            conn.execute("select pg_sleep(0.1)")
            if row := conn.execute("select outcome, output from pgrab.run where task_id = %s and ended is not null", [task]).fetchone():
                assert row[0] == "succeeded", row
                return (row[1] or "").strip()
    raise AssertionError("it did not end within 30 s")


def test_the_page_shows_these_commands():
    assert COMMANDS == ["migrate", "run", "migrate --roles", "sql --roles"]
    assert MADE == ["reports", "node1", "oncall"]


def test_one_role_does_everything(owned, node):
    run_pgrab(*COMMANDS[0].split(), dsn=owned.boss, timeout=60)
    node.start("n1", dsn=owned.boss)
    boss = conninfo.conninfo_to_dict(owned.boss)["user"]
    assert done(owned.boss, "sql", "select current_user") == boss
    assert done(owned.boss, "shell", "echo yes") == "yes"


def test_separate_roles(owned, node, tmp_path):
    run_pgrab(*COMMANDS[0].split(), dsn=owned.boss, timeout=60)
    assert "pgrab_submit" in run_pgrab(*COMMANDS[3].split()).stdout
    run_pgrab(*COMMANDS[2].split(), dsn=owned.boss, timeout=60)
    with psycopg.connect(owned.boss, autocommit=True) as conn:
        conn.execute(STATEMENTS)
    dsn = {role: conninfo.make_conninfo(owned.boss, user=role) for role in MADE}
    config = tmp_path / "node.conf"
    config.write_text(f"[owner reports]\ndsn = {dsn['reports']}\n")
    config.chmod(0o600)
    node.start("n1", dsn=dsn["node1"], config=config)
    assert done(dsn["reports"], "shell", "echo yes") == "yes"
    assert done(dsn["reports"], "sql", "select current_user") == "reports"
    with psycopg.connect(dsn["reports"], autocommit=True) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("insert into pgrab.task (kind, command) values ('http', 'http://127.0.0.1/')")
    with psycopg.connect(dsn["oncall"], autocommit=True) as conn:
        assert conn.execute("select count(*) from pgrab.run where owner = 'reports'").fetchone()[0] == 2


def test_the_table_of_rights_is_the_schema_s(db):
    rows = {}
    for says, *cells in db.query("select says, submit, operator, read, node from pgrab_internal.rights where says is not null"):
        assert rows.setdefault(says, cells) == cells, f"'{says}' stands for two different rights"
    table = "| | submit | operator | read | node |\n|---|---|---|---|---|\n" + "".join(
        f"| {says} | " + " | ".join(cell or "" for cell in cells) + " |\n" for says, cells in rows.items())
    table = re.sub(" +\\|", " |", table)
    before, after = PAGE.split("<!-- rights -->\n", 1)[0], PAGE.split("<!-- /rights -->", 1)[1]
    made = f"{before}<!-- rights -->\n{table}<!-- /rights -->{after}"
    if os.environ.get("PGRAB_DOCS_WRITE"):
        SECURITY.write_text(made, encoding="utf-8")
    else:
        assert made == PAGE, "PGRAB_DOCS_WRITE=1 writes it"
