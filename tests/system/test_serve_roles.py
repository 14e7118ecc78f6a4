"""pgrab serve under separate roles: every route and page, asked by a submitter, by a reader and by nobody.

Alice and Bob submit; whatever is Bob's has his word in it.  Alice sees her own and nothing with that word, the reader sees both
and changes nothing, and nobody gets in without a token.
"""
import json
import urllib.parse

import psycopg
import pytest
from cluster import Nodes, run_pgrab, wait_until
from serving import DOC, Serve
from test_roles import Roles
from test_serve_api import Events
from test_serve_page import Visitor

OPERATIONS = sorted((method.upper(), path) for path, ops in DOC["paths"].items() for method in ops if path not in ("/events", "/databases"))
WRITES = [(method, path) for method, path in OPERATIONS if method != "GET"]
PAGES = ["/", "/tasks", "/tasks?q=s-own", "/history", "/month", "/chains", "/chains/{task}", "/nodes", "/limits", "/blackouts", "/tasks/{task}"]
PUBLIC = ["/new", "/login", "/livez", "/readyz", "/api/v1/openapi.json", "/static/page.css", "/static/page.js"]
WORDS = {"alice": "alices-own", "bob": "bobs-own"}
QUERY = {"/next": "?schedule=@daily", "/forecast": "?horizon=36500%20days"}
NAMELESS = {"/attention", "/congestion", "/nodes", "/scale", "/rates", "/next", "/overview", "/", "/month", "/speed", "/usage"}  # no name of a task need be in them
READS = [f"/api/v1{path}{QUERY.get(path, '')}" for method, path in OPERATIONS if method == "GET"] + PAGES
BODIES = {("POST", "/tasks"): {"kind": "noop", "run_at": "2040-01-01"}, ("PATCH", "/tasks/{task}"): {"priority": 7},
          ("PUT", "/blackouts/{name}"): {"schedule": "@yearly", "lasts": "1 s"}, ("PUT", "/limits/{key}"): {"max_running": 5},
          ("PUT", "/alerts/{name}"): {"template": {"kind": "noop"}},
          ("POST", "/tasks/{task}/backfill"): {"from": "2024-06-01", "until": "2026-06-01"},
          ("POST", "/tasks/{task}/answer"): {"outcome": "succeeded"}}
FRESH = {"/tasks/{task}/seal": {"kind": "batch"}, "/tasks/{task}/signals/{signal}": {"kind": "noop", "wait_for": "go"}}


class House:
    """Roles, a node, a server, and of each submitter one of everything."""

    def __init__(self, cluster, folder):
        self.roles, self.serve = Roles(cluster), None
        self.nodes = Nodes(self.roles.db, folder)
        try:
            self.build(folder)
        except BaseException:
            self.close()
            raise

    def build(self, folder):
        run_pgrab("migrate", "--roles", dsn=self.roles.dsn("boss"), timeout=60)
        self.roles.members()
        self.ask("boss", f'grant pgrab_serve to "{self.roles.role("web")}"')
        # What the test itself looks at it sees as an operator.
        self.roles.db.conn = psycopg.connect(self.roles.dsn("op"), autocommit=True, row_factory=psycopg.rows.namedtuple_row)
        self.nodes.start("n1", dsn=self.roles.dsn("machine"))
        self.roots = {}
        self.mine = {who: self.furnish(who) for who in WORDS}
        self.tokens = {who: self.token(who) for who in ("alice", "bob", "rd")}
        text = "auth = token\n" + "".join(f"[role {self.name(who)}]\ndsn = {self.roles.dsn(who)}\n" for who in self.tokens)
        (folder / "serve.conf").write_text(text)
        self.serve = Serve(self.roles.db, folder, dsn=self.roles.dsn("web"), config=folder / "serve.conf")

    def name(self, who):
        return f"{self.roles.cluster.prefix}_{who}"

    def ask(self, who, statement, *params):
        return self.roles.ask(who, statement, *params)

    def token(self, who):
        if who != "rd":
            return self.ask(who, "select pgrab.token_add('test')")[0][0]
        self.roles.cluster.superuser(f'grant "{self.name(who)}" to "{self.name("boss")}"')  # a reader makes none for himself
        return self.ask("boss", "select pgrab.token_add('test', %s)", self.name(who))[0][0]

    def insert(self, who, **columns):
        names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
        return self.ask(who, f"insert into pgrab.task ({names}) values ({marks}) returning id", *columns.values())[0][0]

    def furnish(self, who):
        """A task that fails, with an output; one overdue, one late, a chain, a limit, an alert.  Returns the one that fails."""
        word = WORDS[who]
        self.ask("boss", f'grant pgrab_kind_shell to "{self.name(who)}"')
        bad = self.insert(who, kind="shell", name=f"{word}-bad", command=f"echo {word}-output; exit 1", max_attempts=1)
        root = self.insert(who, kind="noop", name=f"{word}-root", schedule="@yearly")
        self.insert(who, kind="noop", name=f"{word}-link", parent_id=root)
        self.ask(who, "select pgrab.run_now(%s)", root)
        self.roots[who] = root
        self.insert(who, kind="noop", name=f"{word}-expected", schedule="@yearly", expect_within="1 s")
        self.insert(who, kind="noop", name=f"{word}-late", require='{"nobody": "has this"}')
        self.insert(who, kind="batch", name=f"{word}-batch")
        self.insert(who, kind="noop", name=f"{word}-waits", wait_for="go")
        self.insert(who, kind="shell", name=f"{word}-long", command="sleep 600")
        for what in ("limit", "alert", "blackout"):
            self.own(who, what)
        self.roles.db.wait("select exists (select from pgrab.chain_runs where result = 'succeeded' and root = %s)", root, timeout=20)
        self.roles.db.wait("select status = 'parked' from pgrab.task where id = %s", bad, timeout=20)
        self.roles.db.wait("select exists (select from pgrab.late where name like %s)", f"{word}%", timeout=20)
        self.roles.db.wait("select exists (select from pgrab.overdue where name like %s)", f"{word}%", timeout=20)
        return bad

    def own(self, who, what):
        rows = {"limit": "(key, max_running) values (%s, 1)", "alert": "(name, template) values (%s, '{\"kind\": \"noop\"}')",
                "blackout": "(name, during) values (%s, '[2099-01-01,2099-01-02)')"}
        self.ask(who, f"insert into pgrab.{what} {rows[what]}", f"{WORDS[who]}-{what}")

    def request(self, who, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        return self.serve.ask(method, path, body, headers=headers)

    def close(self):
        try:
            if self.serve:
                self.serve.end()
            self.nodes.end()
        finally:
            self.roles.close()
            self.roles.cluster.superuser(f'drop role if exists "{self.name("web")}"')


@pytest.fixture(scope="module")
def house(shared_server, tmp_path_factory):
    made = House(shared_server, tmp_path_factory.mktemp("house"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_leftovers():
    """The house stands for the whole module."""
    yield


def words_in(text):
    return {who for who, word in WORDS.items() if word in urllib.parse.unquote(text)}


@pytest.mark.parametrize("path", READS)
def test_what_each_sees(house, path):
    """With ids of Alice's task in the path, and of Bob's."""
    for owner, task in house.mine.items():
        url = path.format(task=house.roots[owner] if "/chains/" in path else task)
        for who in ("alice", "bob", "rd"):
            answer = house.request(who, "GET", url)
            foreign = "{task}" in path and who not in (owner, "rd")
            nothing = answer.status == 404 or path.endswith(("/runs", "/graph")) and json.loads(answer.text) == []
            assert nothing if foreign else answer.status == 200, (who, url, answer)
            seen = words_in(answer.text)
            may = set(WORDS) if who == "rd" else {who}
            assert seen <= may, (who, url, answer.text)
            if not foreign and path.partition("?")[0].removeprefix("/api/v1") not in NAMELESS:
                assert seen == ({owner} if "{task}" in path else may), (who, url, answer.text)
    nobody = house.request(None, "GET", path.format(task=1))
    if path.startswith("/api/"):
        assert nobody.status == 401 and nobody.headers["WWW-Authenticate"] == "Bearer"
    else:
        assert nobody.status == 303 and nobody.headers["Location"] == "/login"
    assert not words_in(nobody.text)


def everything_of_bob(house):
    return house.ask("op", "select coalesce(json_agg(to_jsonb(t) order by t.id), '[]')::text from pgrab.task t where owner = %s",
                     house.name("bob")), house.ask("op", "select to_jsonb(l)::text from pgrab.limit l where owner = %s", house.name("bob")), \
        house.ask("op", "select to_jsonb(a)::text from pgrab.alert a where set_by = %s", house.name("bob")), \
        house.ask("op", "select to_jsonb(b)::text from pgrab.blackout b where set_by = %s", house.name("bob"))


@pytest.mark.parametrize("method, path", WRITES)
def test_what_each_may_do(house, method, path):
    """Alice does it to her own, not to Bob's; a reader and nobody do it to none."""
    everywhere = path in ("/pause-all", "/resume-all") or path.startswith("/nodes/")
    before = everything_of_bob(house)

    def send(who, owner):
        task = house.mine[owner] if "retry" in path else house.fresh[owner]
        url = "/api/v1" + path.format(task=task, key=f"{WORDS[owner]}-limit", name=f"{WORDS[owner]}-{path.split('/')[1].rstrip('s')}", node="n1",
                                          signal="go")
        body = BODIES.get((method, path))
        if body is None and "requestBody" in DOC["paths"][path][method.lower()]:
            body = {"tasks": [task]}
        return house.request(who, method, url, body)

    columns = FRESH.get(path, {"kind": "noop", "schedule": "@yearly"})
    house.fresh = {who: house.insert(who, name=f"{WORDS[who]}-fresh", **columns) for who in WORDS}
    if path.endswith("/answer"):
        house.ask("boss", "update pgrab.task set status = 'waiting', due_at = null, node_id = 1, incarnation = 1, started_at = now() "
                          "where id = any (%s) returning 1", list(house.fresh.values()))
    before = everything_of_bob(house)
    assert send(None, "bob").status == 401
    refused = send("rd", "bob")
    assert refused.status in (403, 404), refused
    if path != "/tasks":
        refused = send("alice", "bob")
        assert refused.status in (403, 404), refused
        assert WORDS["bob"] not in refused.text or path.startswith(("/limits", "/alerts", "/blackouts")), refused
    assert everything_of_bob(house) == before
    done = send("alice", "alice")
    assert done.status == 403 if everywhere else done.status < 300 or "retry" in path and done.status == 409, done
    assert everything_of_bob(house) == before
    for who, task in house.fresh.items():
        house.ask(who, "delete from pgrab.tasks where id = %s", task)
    if method == "DELETE" and not path.startswith("/tasks"):
        house.own("alice", path.split("/")[1].rstrip("s"))


@pytest.mark.parametrize("path", PUBLIC)
def test_what_anybody_sees(house, path):
    answer = house.request(None, "GET", path)
    assert answer.status == 200 and not words_in(answer.text)


def test_metrics_need_a_token_and_tell_of_all(house):
    assert house.request(None, "GET", "/metrics").status == 401
    of_alice, of_reader = (house.request(who, "GET", "/metrics").text for who in ("alice", "rd"))
    assert "pgrab_failing_tasks 2" in of_alice and "pgrab_failing_tasks 2" in of_reader and not words_in(of_alice)


def test_events_are_of_ones_own(house):
    alice = Events(house.serve, f"Authorization: Bearer {house.tokens['alice']}\r\n")
    reader = Events(house.serve, f"Authorization: Bearer {house.tokens['rd']}\r\n")
    for events in (alice, reader):
        events.wait("event: nodes")
    for who in ("bob", "alice"):
        task = house.insert(who, kind="noop", name=f"{WORDS[who]}-heard")
        reader.wait(rf'event: ended\ndata: .*"task_id" : {task}\b')
    alice.wait(rf'event: ended\ndata: .*"task_id" : {task}\b')
    assert words_in(reader.text) == {"alice", "bob"} and words_in(alice.text) == {"alice"}
    alice.close()
    reader.close()


def test_forms_of_the_page_do_what_the_role_may(house):
    """Alice logs in with her token and tries Bob's tasks, limits, and what is everybody's."""
    visitor = Visitor(house.serve)
    visitor.get("/login")
    visitor.post("/login", {"token": house.tokens["alice"]})
    visitor.cookies["pgrab_token"] = house.tokens["alice"]
    bobs = house.insert("bob", kind="noop", name=f"{WORDS['bob']}-fresh", schedule="@yearly")
    before = everything_of_bob(house)
    for action in ("pause", "resume", "run-now", "cancel", "skip-next", "delete"):
        assert visitor.post("/tasks", {"task": bobs, "action": action}, status=404)
    visitor.post("/limits", {"key": f"{WORDS['bob']}-limit", "max_running": "9", "action": "set"}, status=403)
    visitor.post("/limits", {"key": f"{WORDS['bob']}-limit", "action": "delete"}, status=404)
    visitor.post("/blackouts", {"name": f"{WORDS['bob']}-blackout", "action": "end"}, status=404)
    for path, action in (("/all", "pause"), ("/all", "resume"), ("/nodes/n1", "drain"), ("/nodes/n1", "undrain")):
        visitor.post(path, {"action": action}, status=403)
    assert everything_of_bob(house) == before
    made = visitor.post("/new", {"kind": "noop", "name": f"{WORDS['alice']}-made", "run_at": "2040-01-01"})
    task = int(made.headers["Location"].rpartition("/")[2])
    visitor.post("/tasks", {"task": task, "action": "pause"})
    wait_until(lambda: house.ask("op", "select paused from pgrab.task where id = %s", task) == [(True,)], 5, "her task to be paused")
