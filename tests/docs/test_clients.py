"""The programs of docs/clients.md."""
import os
import subprocess
import sys

import psycopg
import pytest
from cluster import ROOT
from test_handlers import block

PAGE = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
sys.path[:0] = [str(ROOT / "contrib/clients/python"), str(ROOT / "contrib/handlers/python")]


def part(language, word):
    return block(PAGE, language, word)


def test_the_python_of_the_page(db, nodes):
    nodes.start("n1")
    db.query("create table invoice (id int, sent timestamptz)")
    db.query("insert into pgrab.kind (kind, summary, handled) select k, 'x', true from unnest('{send_email,resize}'::text[]) k")
    given = {"psycopg": type("Psycopg", (), {"connect": staticmethod(lambda: db.connect(autocommit=False))}), "photos": range(3), "users": range(4)}
    exec(part("python", "update invoice"), given)
    assert db.query("select kind, args, key from pgrab.task") == [("send_email", {"user_id": 7}, "mail-42")]
    with db.connect(autocommit=False) as connection:
        given.update(connection=connection, queue=given["Queue"](connection))
        exec(part("python", "queue.batch").split("connection.commit()")[0], given)
        exec(part("python", "@kind"), given)
        connection.commit()
    assert db.query("select kind, count(*) from pgrab.task group by 1 order by 1") == [("batch", 1), ("resize", 3), ("send_email", 7)]


def test_the_queue_for_tests():
    import pgrab_handler
    pgrab_handler.task("order")(lambda order_id: order_id)
    exec(part("python", "FakeQueue(call)").replace("import handlers ", "pass "), {})


@pytest.mark.deadline(120)
@pytest.mark.parametrize("language, file, command, package", [
    ("go", "main.go", ["go", "run", "main.go"], "/usr/share/gocode/src/github.com/lib/pq"),
    ("ruby", "app.rb", ["ruby", "app.rb"], "/usr/share/rubygems-integration/all/gems"),
    ("java", "App.java", ["java", "-cp", "/usr/share/java/postgresql.jar", "App.java"], "/usr/share/java/postgresql.jar")])
def test_a_statement_is_all_it_takes(db, nodes, tmp_path, language, file, command, package):
    if subprocess.run(["which", command[0]], capture_output=True, check=False).returncode != 0 or not os.path.exists(package):
        pytest.skip(f"there is no {language} with a driver here")
    nodes.start("n1")
    (tmp_path / file).write_text(part(language, "pgrab.task"))
    parts = psycopg.conninfo.conninfo_to_dict(db.dsn)
    with db.connect() as connection:
        port = connection.execute("show port").fetchone()[0]
    env = {**os.environ, "PGRAB_DSN": db.dsn + (" sslmode=disable" if language == "go" else ""), "GO111MODULE": "off", "GOPATH": "/usr/share/gocode",
           "GOCACHE": str(tmp_path / "cache"), "PGRAB_JDBC": f"jdbc:postgresql://localhost:{port}/{parts['dbname']}?user={parts.get('user', '')}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "succeeded\n", done
