"""Several databases in one pgrab serve, and --all of the command line; one that is away holds up no other."""
import json
import socket
import time

import pytest
from cluster import Db, run_pgrab, wait_until
from serving import Serve
from test_serve_page import Visitor
from test_top import Screen


@pytest.fixture
def etl(cluster, db):
    other = Db(cluster, cluster.create_database())
    yield other
    other.close()
    cluster.drop_database(other.name)


@pytest.fixture
def hole():
    """A server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def config(db, etl, hole, tmp_path):
    path = tmp_path / "serve.conf"
    path.write_text(f"dsn = {db.dsn}\ntitle = main\n[database etl]\ndsn = dbname={etl.name}\n"
                    f"[database gone]\ndsn = host=127.0.0.1 port=1\n[database hole]\ndsn = host=127.0.0.1 port={hole}\n")
    return path


@pytest.mark.deadline(60)
def test_one_page_has_all_databases_and_none_holds_up_the_others(db, etl, config, serving):
    db.add(kind="noop", name="of main", run_at="2000-01-01")
    there = etl.add(kind="noop", name='of etl " href="/x" <b>', run_at="2000-01-01")
    serve = serving(config=config)
    states = {}

    def told():
        states.update({d["database"]: d for d in serve.api("GET", "/databases")})
        return all(d["state"] != "asking" for d in states.values())
    began = time.monotonic()
    serve.get("/db/hole/tasks")  # waits for its server
    visitor = Visitor(serve)
    for path, word in (("/tasks", "of main"), ("/db/etl/tasks", 'of etl " href="/x" <b>')):
        began = time.monotonic()
        assert word in visitor.get(path).words
        assert time.monotonic() - began < 2
    wait_until(told, 20, "each database to be told of")
    assert (states["main"]["late"], states["etl"]["late"], states["gone"]["state"], states["hole"]["state"]) == (1, 1, "away", "away")
    assert "refused" in states["gone"]["error"] and "no answer" in states["hole"]["error"], states
    words = visitor.get("/databases").words
    assert {"main", "etl", "gone", "hole", "away"} <= set(words), words
    assert "x'onfocus" not in visitor.get("/x'onfocus='y", 404).text, "a path is no markup"
    # everything stays in its database: links, forms, ways back, next pages, the API
    page = visitor.get(f"/db/etl/tasks/{there}")
    paths = {a[name] for _, a in page.elements for name in ("href", "action") if name in a}
    others = {"/databases", "/tasks", "/db/etl/tasks", "/db/gone/tasks", "/db/hole/tasks", "/static/page.css", "#main", "data:,"}
    assert all(path.startswith("/db/etl/") for path in paths - others), paths
    back = visitor.post("/db/etl/tasks", {"task": there, "action": "pause", "back": f"/tasks/{there}"}).headers["Location"]
    assert back == f"/db/etl/tasks/{there}" and etl.one("select paused from pgrab.task") and not db.one("select paused from pgrab.task")
    etl.add(kind="noop", run_at="2100-01-01")
    assert serve.get("/db/etl/api/v1/tasks?limit=1").headers["Link"].startswith("</db/etl/api/v1/tasks?")
    assert [t["id"] for t in serve.api("GET", "/tasks")] == [1] and serve.get("/db/nowhere/tasks").status == 404
    assert serve.get("/db/etl/readyz").status == 200 and serve.get("/db/gone/readyz").status == 503


def test_without_sections_there_is_one_database(serving):
    serve = serving()
    assert serve.get("/databases").status == 404 and serve.get("/db/etl/").status == 404
    assert "Databases" not in [a.get("aria-label") for _, a in Visitor(serve).get("/").elements]


@pytest.mark.parametrize("text, says", [
    ("[database a/b]\ndsn = dbname=x\n", "a name is letters"), ("[database a]\n", "give dsn"),
    ("[database a]\ndsn = dbname=x\n[database a]\ndsn = dbname=y\n", "given twice"),
    ("auth = token\n[database a]\ndsn = dbname=x user=boss\n", "say only where it is"),
    ("[role r]\nservice = r\n[database a]\ndsn = service=boss\n", "say only where it is"),
    ("[role r]\ndsn = user=r nonsense=1\n[database a]\ndsn = dbname=x\n", "those of roles")])
def test_a_section_that_would_not_do_is_refused(db, tmp_path, text, says):
    (tmp_path / "serve.conf").write_text(text)
    done = run_pgrab("serve", "--config", tmp_path / "serve.conf", dsn=db.dsn, check=False)
    assert done.returncode == 2 and says in done.stderr, done


def test_tokens_are_those_of_the_first_database(db, etl, cluster, tmp_path):
    user = db.one("select current_user")
    path = tmp_path / "serve.conf"
    path.write_text(f"dsn = {db.dsn}\nauth = token\n[role {user}]\ndsn = {db.dsn}\n[database etl]\ndsn = dbname={etl.name}\n")
    token = db.one("select pgrab.token_add('t')")
    etl.add(kind="noop", name="there")
    serve = Serve(db, tmp_path, config=path)
    try:
        assert serve.get("/db/etl/api/v1/tasks").status == 401
        answer = serve.get("/db/etl/api/v1/tasks", headers={"Authorization": f"Bearer {token}"})
        assert [t["name"] for t in json.loads(answer.text)] == ["there"]
        assert serve.get("/databases", headers={"Authorization": f"Bearer {token}"}).status == 200
        assert serve.get("/databases").headers["Location"] == "/login"
        assert serve.get("/db/etl/tasks").headers["Location"] == "/db/etl/login"
    finally:
        serve.end()


@pytest.mark.deadline(60)
def test_all_of_the_command_line_asks_each_database(db, etl, config):
    db.add(kind="noop", name="of main", run_at="2000-01-01")
    etl.add(kind="noop", name="of etl", run_at="2000-01-01")
    began = time.monotonic()
    done = run_pgrab("late", "--all", "--config", config, check=False)
    assert time.monotonic() - began < 8 and done.returncode == 1, done
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["database", "main", "etl"] and "of etl" in done.stdout, done
    top = run_pgrab("top", "--all", "--config", config, "--once", "--json", check=False)
    assert top.returncode == 1 and "gone: could not connect" in top.stderr, top
    assert "gone: could not connect" in done.stderr and "hole: could not connect: no answer within" in done.stderr, done
    config.write_text(config.read_text().partition("[database gone]")[0])

    def ask(*args):
        return json.loads(run_pgrab(*args, "--all", "--config", config, "--json").stdout)
    assert [(row["database"], row["late"]) for row in ask("status")] == [("main", 1), ("etl", 1)]
    assert [(row["database"], row["name"]) for row in ask("late")] == [("main", "of main"), ("etl", "of etl")]
    assert ask("failing") == [] and ask("nodes") == []
    etl.query("alter view pgrab.overview rename to overview_before")
    etl.query("create view pgrab.overview as select o.*, 1 as more from pgrab.overview_before o")
    assert [line.split()[0] for line in run_pgrab("status", "--all", "--config", config).stdout.splitlines()[1:]] == ["main", "etl"]
    frame = ask("top")
    assert [row["database"] for row in frame["overview"]] == ["main", "etl"] and len(frame["late"]) == 2
    text = run_pgrab("top", "--all", "--config", config, "--once").stdout
    assert text.startswith("pgrab top  all databases\n") and "DATABASES" in text, text
    with Screen("top", "--all", "--config", config, "--interval", "200ms") as screen:
        screen.wait("^etl +0 +1 ")
        screen.keys("q")
        assert screen.wait_exit() == 0
    assert run_pgrab("late", "--all", "--config", config.parent / "none", check=False).returncode == 2
    assert "of main" in run_pgrab("late", dsn=db.dsn).stdout and "No task fails." in run_pgrab("failing", dsn=db.dsn).stdout
