"""The API of pgrab serve: what it answers, and that its description says so."""
import json
import re
import socket
import time

import pytest
from cluster import ROOT, run_pgrab, wait_until
from serving import DOC, quote

HOSTILE = "<script>alert(1)</script>\"'&\u202e%s\\;--"


def test_a_task_is_added_edited_run_and_deleted(db, nodes, serving):
    serve = serving()
    nodes.start("n1")
    made = serve.ask("POST", "/api/v1/tasks", {"name": HOSTILE, "key": "a/b", "kind": "shell", "command": "echo hello",
                                               "schedule": "@daily", "timeout": "90s", "args": {"env": {"A": "1"}}})
    assert made.status == 201
    task = json.loads(made.text)
    assert task["name"] == HOSTILE and made.headers["Location"] == f"/api/v1/tasks/{task['id']}"
    assert serve.api("PATCH", "/tasks/a%2Fb", {"priority": 5})["id"] == task["id"]
    shown = serve.api("GET", f"/tasks/{quote('a/b')}")
    assert shown["definition"]["priority"] == 5 and shown["status"] == "scheduled"
    assert [t["id"] for t in serve.api("POST", "/tasks/a%2Fb/run-now")] == [task["id"]]
    db.wait_run(task["id"])
    assert serve.api("GET", f"/tasks/{task['id']}/output")["output"] == "hello\n"
    assert serve.api("GET", f"/tasks/{task['id']}/runs")[0]["outcome"] == "succeeded"
    assert serve.api("POST", "/pause", {"tasks": [task["id"]]})[0]["status"] == "paused"
    assert any(g["gate"] for g in serve.api("GET", f"/tasks/{task['id']}/explain"))
    assert serve.api("POST", "/resume", {"tasks": ["a/b"]})[0]["status"] == "scheduled"
    assert serve.api("POST", f"/tasks/{task['id']}/skip-next")[0]["id"] == task["id"]
    assert serve.api("DELETE", f"/tasks/{task['id']}")[0]["status"] == "deleted"
    assert db.one("select count(*) from pgrab.task") == 0


def test_an_edit_answers_with_the_new_time(db, serving):
    task = db.add(kind="noop", key="nightly", schedule="15 2 1 1 *")
    answer = serving().api("PATCH", "/tasks/nightly", {"schedule": "45 3 1 1 *"})
    assert answer["id"] == task and answer["run_at"][5:16] == "01-01T03:45"
    answer = json.loads(run_pgrab("edit", "nightly", "--schedule", "45 4 1 1 *", "--json", dsn=db.dsn).stdout)
    assert answer["id"] == task and answer["run_at"][5:16] == "01-01T04:45"


def test_each_word_of_a_status_or_an_outcome_is_described_and_asked_for(db, serving):
    serve = serving()
    for path, name, page in (("tasks", "status", "/tasks"), ("runs", "outcome", "/history")):
        parameters = DOC["paths"][f"/{path}"]["get"]["parameters"]
        words = next(p["schema"]["enum"] for p in parameters if p["name"] == name)
        assert all(serve.api("GET", f"/{path}?{name}={word}") == [] for word in words)
        said = run_pgrab(path, f"--{name}", "typo", dsn=db.dsn, check=False).stderr.splitlines()[0]
        assert said.endswith(f"one of: all {' '.join(words)}")
        assert serve.get(f"{page}?{name}={words[0]}").status == 200
        assert serve.get(f"{page}?{name}=typo").status == 400


def test_answers_are_those_of_the_command_line(db, nodes, serving):
    serve = serving()
    nodes.start("n1")
    parent = db.add(kind="noop", name="p", run_at="2030-01-01")
    db.add(kind="noop", name="c", parent_id=parent)
    done = db.add(kind="noop", name="done")
    db.wait_run(done)
    db.query("insert into pgrab.limit values ('api', 3, null)")
    for path, command in [("/tasks", "tasks"), ("/runs", "runs"), ("/chains", "chains"), ("/limits", "limit"), ("/blackouts", "blackout"),
                          (f"/tasks/{parent}", f"show {parent}"), (f"/tasks/{parent}/explain", f"explain {parent}"),
                          ("/next?schedule=@daily", "next @daily"), ("/forecast?horizon=3650%20days", "forecast 3650d")]:
        cli = json.loads(run_pgrab(*command.split(), "--json", dsn=db.dsn).stdout)
        api = serve.api("GET", path)
        strip = lambda v: re.sub(r'"(due in|from_now": ")[^"]*', "", re.sub(r"in \d[^\"]*", "", json.dumps(v)))
        assert strip(api) == strip(cli), path
    keys = lambda rows: [list(r) for r in rows]
    assert keys(serve.api("GET", "/nodes")) == keys(json.loads(run_pgrab("nodes", "--json", dsn=db.dsn).stdout))


def test_pages_come_one_after_the_other(db, nodes, serving):
    """2500 live and 2000 ended, by pages of 700: each once."""
    nodes.start("n1")
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 2000)")
    db.wait("select not exists (select from pgrab.task)", timeout=30)
    db.query("insert into pgrab.task (kind, run_at) select 'noop', '2040-01-01' from generate_series(1, 2500)")
    serve = serving()
    for path, total, key in (("/api/v1/tasks?limit=700", 4500, "id"), ("/api/v1/runs?limit=700", 2000, "task_id")):
        seen, pages = [], 0
        while path:
            answer = serve.get(path)
            assert answer.status == 200, answer
            seen += [row[key] for row in json.loads(answer.text)]
            link = re.fullmatch(r'<(.*)>; rel="next"', answer.headers.get("Link") or "")
            path, pages = link[1] if link else None, pages + 1
        assert len(seen) == total and len(set(seen)) == total and pages == -(-total // 700)


ERRORS = [
    ("GET", "/tasks/nobody", None, 404, "no task has the key or name"),
    ("GET", "/tasks/999999", None, 404, "task 999999 does not exist"),
    ("POST", "/tasks", {"kind": "shel", "command": "x"}, 400, "shel"),
    ("GET", "/runs?outcome=fail", None, 400, 'outcome: there is no "fail"; it is one of: succeeded, failed, timed_out, '),
    ("GET", "/tasks?status=park", None, 400, 'status: there is no "park"; it is one of: waiting, scheduled, '),
    ("POST", "/tasks", {"comand": "x"}, 400, "comand is not a column"),
    ("POST", "/tasks", {"status": "done"}, 400, "status is not a column"),
    ("POST", "/tasks", {}, 400, "at least one member"),
    ("POST", "/tasks", {"kind": "noop", "schedule": "61 * * * *"}, 400, "61"),
    ("POST", "/tasks", "not json", 400, "json"),
    ("POST", "/tasks", None, 400, "a JSON object is needed"),
    ("PATCH", "/tasks/999999", {"priority": 1}, 404, "no live task"),
    ("POST", "/pause", {"tasks": []}, 400, "up to 1000"),
    ("POST", "/pause", {"tasks": [{}]}, 400, "up to 1000"),
    ("POST", "/pause", {"tasks": [1.5]}, 400, "up to 1000"),
    ("POST", "/tasks", "null", 400, "at least one member"),
    ("POST", "/tasks", "[" * 50000, 400, "nested too deeply"),
    ("POST", "/tasks", '{"name": "\\u0000"}', 400, "unsupported Unicode escape"),
    ("GET", "/tasks/%ff", None, 400, "invalid byte sequence"),
    ("GET", "/tasks?name=%ff%fe", None, 400, "invalid byte sequence"),
    ("GET", "/tasks/..%2F..%2Fetc", None, 404, "no task has the key or name"),
    ("GET", "/tasks//runs", None, 404, "there is nothing here"),
    ("GET", "/tasks/99999999999999999999", None, 400, "out of range"),
    ("POST", "/retry", {"tasks": [999999]}, 404, "999999"),
    ("POST", "/nodes/nobody/drain", None, 404, "nobody"),
    ("GET", "/next", None, 400, "schedule"),
    ("GET", "/next?schedule=61%20*%20*%20*%20*", None, 400, "61"),
    ("GET", "/runs?since=yesterdayy", None, 400, "yesterdayy"),
    ("GET", "/tasks?cursor=x~y~z", None, 400, "invalid input syntax"),
    ("PUT", "/limits/a", {"max_running": -1}, 400, "max_running"),
    ("PUT", "/limits/a", {"break_after": 0}, 400, "break_after"),
    ("PUT", "/limits/a", {"break_after": 3, "break_for": "a while"}, 400, "a while"),
]


def next_of(answer):
    return (answer.headers["Link"] or "").partition(">")[0][1:]


def test_a_search_for_what_is_rare_says_how_far_it_came(db, serving):
    """Each answer reads a bounded number of rows; whoever follows it to the end has seen all that match, once each."""
    db.query("""insert into pgrab.run (task_id, attempt, version, outcome, ended, kind, owner, created_at, finished_at, node)
                select i, 1, 1, case when i % 25000 = 7 then 'timed_out' else 'succeeded' end, 'done', 'sql', 'o', now(),
                  now() - i * interval '1 ms', case when i in (5, 41000) then 'rare' end from generate_series(1, 45000) i""")
    db.query("""insert into pgrab.task (kind, run_at, source) select 'noop', '2126-01-01', case when i in (3, 43000) then 'rare' else '' end
                from generate_series(1, 45000) i""")
    serve = serving()
    for path, seen in ("/api/v1/runs?node=rare", "task_id"), ("/api/v1/tasks?source=rare", "id"), ("/api/v1/tasks?node=rare", "id"):
        answers = [serve.get(path)]
        while answers[-1].headers["Link"]:
            answers.append(serve.get(next_of(answers[-1])))
        rows = [row[seen] for answer in answers for row in json.loads(answer.text)]
        assert len(rows) == len(set(rows)) == 2, path
        assert [a.headers["Pgrab-Searched"] is not None for a in answers[:2]] == [True, True], path
        assert answers[-1].headers["Pgrab-Searched"] is None
    assert len(json.loads(serve.get("/api/v1/runs?outcome=timed_out").text)) == 2, "failures are found at once"
    page = serve.get("/history?node=rare").text
    assert "Searched back to 20" in page and "Search on" in page
    assert "Searched down to task" in serve.get("/tasks?source=rare").text


def test_usage_comes_in_pages(db, serving):
    """However short a bucket is; a bucket may begin or end in the middle of a page, and one of its rows have no name."""
    db.query("""insert into pgrab.run (task_id, version, finished_at, started_at, created_at, attempt, outcome, kind, owner, name)
      select n, 1, date_trunc('hour', now()) - n / 3 * interval '1 ms', now() - interval '2 days', '2026-01-01', 1, 'succeeded', 'noop',
        current_user, ('{~a,"",null}'::text[])[n %% 3 + 1] from generate_series(0, %s) n""", 3002)
    serve = serving()
    page = serve.get("/api/v1/usage?by=name&bucket=1ms")
    rows = json.loads(page.text)
    assert len(rows) == 1000
    while path := next_of(page):
        page = serve.get(path)
        rows += json.loads(page.text)
    assert len(rows) == 3003 and all(r["runs"] == 1 for r in rows)
    assert len({(r["bucket"], r["who"]) for r in rows}) == 3003 and rows == sorted(rows, key=lambda r: r["bucket"])
    whole = serve.get("/api/v1/usage?by=name&bucket=1ms&limit=10000")
    assert json.loads(whole.text) == rows and whole.headers["Link"] is None
    assert serve.get("/api/v1/usage?limit=10001").status == 400


def test_a_task_says_what_signals_it_got_and_as_many_payloads_as_fit(db, serving):
    task = db.add(kind="noop", wait_for="go", wait_timeout="1 h")
    db.query("""insert into pgrab.signal (task_id, name, payload, role, at)
      select %s, 's' || n, case when n < 1000 then to_jsonb(repeat('x', 60000)) end, current_user, now() + n * interval '1 ms'
      from generate_series(1, 1000) n""", task)
    serve = serving()
    answer = serve.get(f"/api/v1/tasks/{task}")
    assert answer.status == 200 and len(answer.text) < 512 * 1024
    signals = json.loads(answer.text)["signals"]
    assert [s["name"] for s in signals] == [f"s{n}" for n in range(1, 1001)] and all(s["at"] and s["role"] for s in signals)
    assert [s["payload_bytes"] for s in signals] == [60002] * 999 + [0]
    assert [len(s["payload"] or "") if "payload" in s else None for s in signals] == [None] * 997 + [60000, 60000, 0]


def test_an_answer_that_is_too_large_is_an_error(db, serving):
    db.query("""insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner, error)
      select 1, n, now(), '2026-01-01', 1, 'failed', 'noop', current_user, repeat('x', 90000) from generate_series(1, 500) n""")
    serve = serving()
    refused = serve.api("GET", "/tasks/1/runs?limit=1000", status=400)
    assert "32 MiB" in refused["detail"] and "limit" in refused["hint"]
    assert len(serve.api("GET", "/tasks/1/runs?limit=100")) == 100


def test_the_overview_says_what_is_a_bound(db, serving):
    db.query("""insert into pgrab.run (task_id, attempt, version, outcome, ended, kind, owner, created_at, finished_at)
                select i, 1, 1, case when i % 248 = 0 then 'failed' else 'succeeded' end, 'done', 'sql', 'o', now(),
                  now() - i * interval '300 ms' from generate_series(1, 10444) i""")
    page = serving().get("/").text
    assert "10000+" in page
    assert db.one("select failed_1h from pgrab.overview") == 42
    assert "last hour 10000+ (42 failed)" in run_pgrab("status", dsn=db.dsn).stdout


def test_errors_are_problems_with_a_hint(serving):
    serve = serving()
    for method, path, body, status, says in ERRORS:
        headers = {"Content-Type": "application/json"} if isinstance(body, str) else {}
        answer = serve.ask(method, "/api/v1" + path, body, headers=headers)
        assert answer.status == status, (method, path, body, answer)
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = json.loads(answer.text)
        assert problem["status"] == status and problem["request_id"] == answer.headers["X-Request-Id"]
        assert says in problem["detail"] + problem.get("hint", ""), (method, path, body, answer)
    problem = serve.api("POST", "/tasks", {"kind": "sql"}, status=400)
    assert problem["detail"] == "task command cannot be ''" and problem["hint"].startswith("A task of kind sql")


def test_limits_alerts_and_the_switch_for_all(db, serving):
    serve = serving()
    assert serve.api("PUT", "/limits/a%20b", {"max_running": 2}) == {
        "key": "a b", "max_running": 2, "per_second": None, "break_after": None, "break_for": None}
    assert serve.api("GET", "/limits")[0]["key"] == "a b"
    assert serve.api("DELETE", "/limits/a%20b")["key"] == "a b"
    serve.api("DELETE", "/limits/a%20b", status=404)
    alert = {"template": {"kind": "noop"}, "events": ["failed"]}
    assert serve.api("PUT", "/alerts/tell", alert)["events"] == ["failed"]
    assert [a["name"] for a in serve.api("GET", "/alerts")] == ["tell"]
    serve.api("DELETE", "/alerts/tell")
    assert serve.api("PUT", "/alerts/day", alert | {"events": ["digest"], "schedule": "@daily"})["timezone"] == "UTC"
    problem = serve.api("PUT", "/alerts/day", alert | {"events": ["digest"], "schedule": "at noon"}, status=400)
    assert problem["detail"].startswith("alert 'day' cannot be set: "), problem
    window = {"during": "[2098-01-01,2098-01-02)", "task_like": "etl-%", "note": "disks"}
    assert serve.api("PUT", "/blackouts/w", window)["action"] == "hold"
    assert serve.api("PUT", "/blackouts/w", window | {"action": "skip"})["timezone"] == "UTC"
    assert [(b["name"], b["state"], b["tasks"], b["action"]) for b in serve.api("GET", "/blackouts")] == [("w", "next", "etl-%", "skip")]
    assert serve.api("PUT", "/blackouts/w", {"schedule": "@daily", "lasts": "1 day"}, status=400)["detail"] == "blackout lasts cannot be '1 day'"
    assert serve.api("DELETE", "/blackouts/w")["note"] == "disks"
    serve.api("DELETE", "/blackouts/w", status=404)
    assert list(serve.api("POST", "/pause-all")[0]) == ["said", "put_back"]
    assert db.one("select paused from pgrab.cluster")
    serve.api("POST", "/resume-all")
    assert not db.one("select paused from pgrab.cluster")


def test_a_node_is_drained(db, nodes, serving):
    serve = serving()
    nodes.start("n1")
    assert serve.api("POST", "/nodes/n1/drain")[0]["name"] == "n1"
    wait_until(lambda: serve.api("GET", "/nodes")[0]["state"] == "draining", 10, "n1 to drain")
    serve.api("POST", "/nodes/n1/undrain")
    wait_until(lambda: serve.api("GET", "/nodes")[0]["state"] == "up", 10, "n1 to come back")


def test_scale_asks_for_more_when_there_is_a_backlog(db, serving):
    serve = serving()
    assert serve.api("GET", "/scale")["workers"] == 0
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 600)")
    wanted = wait_until(lambda: (lambda w: w if w["due"] else None)(serve.api("GET", "/scale?within=1%20minute")), 10, "the backlog")
    assert wanted["due"] == 600 and wanted["workers"] == 10 and wanted["nodes"] == 2, wanted
    assert [serve.api("GET", f"/scale?{q}")["due"] for q in ("kinds=shell,noop&labels=none", "kinds=shell", "labels=zone=eu")] == [600, 0, 0]
    wrong = serve.get("/api/v1/scale?labels=zone")
    assert wrong.status in (400, 422) and "labels cannot be 'zone'" in wrong.text, wrong


@pytest.mark.deadline(120)
def test_an_autoscaler_that_does_what_it_says_works_a_backlog_off_in_time(db, nodes, serving):
    """As KEDA or an HPA would: nodes of two workers come and go with the number that /scale gives."""
    serve = serving()
    db.query("insert into pgrab.task (kind, command) select 'shell', 'sleep 0.2' from generate_series(1, 250)")
    begun, wanted, alive = time.monotonic(), [], []

    def step():
        wanted.append(serve.api("GET", "/scale?within=15%20seconds")["workers"])
        target = min(4, max(1, -(-wanted[-1] // 2)))
        while len(alive) < target:
            alive.append(nodes.start(f"auto{len(nodes.all)}", workers=2, allow="shell"))
        while len(alive) > target:
            alive.pop().end()
        return wanted[-1] < max(wanted) and db.one("select count(*) = 250 from pgrab.run where outcome = 'succeeded'")

    wait_until(step, 60, "the backlog to be worked off", step=1)
    assert max(wanted) >= 4, "fifty seconds of work for one worker want more than one node of two"
    assert time.monotonic() - begun < 40


POOL = (ROOT / "packaging/kubernetes/pool.yaml").read_text()


class Pool:
    """What the ScaledJob of the example does, with processes for pods: it starts as many as are asked for, and ends none."""

    def __init__(self, nodes, serve):
        self.nodes, self.serve, self.started = nodes, serve, []
        self.path = re.search(r'url: "http://[^/]+/api/v1(/scale\?[^"]+)"', POOL)[1] + "&within=2%20seconds"
        self.most = int(re.search(r"maxReplicaCount: (\d+)", POOL)[1])
        args = [a.strip(' "') for a in re.search(r"args: \[run, (.*)\]", POOL)[1].replace("sql,http", "sql;shell").split(",")]
        self.options = {k.removeprefix("--").replace("-", "_"): v.replace(";", ",") for k, v in zip(args[::2], args[1::2], strict=True)}
        assert self.options.pop("exit_when_idle") == "3m"

    def running(self):
        return [n for n in self.started if n.running()]

    def poll(self):
        wanted = min(self.most, self.serve.api("GET", self.path)["nodes"])
        for _ in range(wanted - len(self.running())):
            self.started.append(self.nodes.start(f"pod-{len(self.started)}", wait=False, workers=1, exit_when_idle="1s", **self.options))
        return wanted


@pytest.mark.deadline(120)
def test_a_pool_goes_to_zero_and_back_and_no_run_is_ended(db, nodes, serving):
    pool = Pool(nodes, serving())
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 300)")
    assert pool.poll() == 0, "what needs no label is not for this pool"
    for round_no in (1, 2):
        tasks = [db.add(kind="shell", command="sleep 1.5", require='{"gpu": "yes"}') for _ in range(8)]
        before = len(pool.started)
        wait_until(lambda: pool.poll() and not db.query("select from pgrab.task where id = any (%s)", tasks), 30,  # noqa: B023
                   "the work to be done", step=0.3)
        assert len(pool.started) > before + 1, "one worker each: more than one"
        runs = db.query("select outcome, attempt, node from pgrab.run where task_id = any (%s)", tasks)
        assert len(runs) == 8 and {(r.outcome, r.attempt) for r in runs} == {("succeeded", 1)}, (round_no, runs)
        db.query("delete from pgrab.run")  # as if a minute had gone by
        wait_until(lambda: pool.poll() == 0 and not pool.running(), 20, "all to be gone", step=0.3)
    assert {n.proc.returncode for n in pool.started} == {0}
    for node in pool.started:
        node.wait_log("event=idle")


# ---- the description

def schema_of(doc, schema):
    while "$ref" in schema:
        schema = doc["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list,
         "null": type(None)}


def check(doc, schema, value, where):
    """The part of JSON Schema that openapi.json uses; members that it does not name are faults, too."""
    schema = schema_of(doc, schema)
    types = schema.get("type", list(TYPES))
    types = [types] if isinstance(types, str) else types
    assert any(isinstance(value, TYPES[t]) and not (isinstance(value, bool) and t in ("integer", "number"))
               for t in types), f"{where}: {value!r} is no {types}"
    if isinstance(value, dict) and "properties" in schema:
        assert set(value) <= set(schema["properties"]), f"{where}: {set(value) - set(schema['properties'])}"
        missing = set(schema.get("required", [])) - set(value)
        assert not missing, f"{where}: {missing}"
        for key, member in value.items():
            check(doc, schema["properties"][key], member, f"{where}.{key}")
    if isinstance(value, list):
        for i, element in enumerate(value):
            check(doc, schema["items"], element, f"{where}[{i}]")


def test_the_description_matches_the_answers(db, nodes, serving):
    """Every operation is asked, and its answer held against its schema."""
    serve = serving()
    nodes.start("n1")
    doc = json.loads(serve.get("/api/v1/openapi.json").text)
    assert doc == DOC
    assert set(doc["components"]["schemas"]["Definition"]["properties"]) == {"parents", *db.one("select pgrab_internal.written()")}
    parent = serve.api("POST", "/tasks", {"name": "p", "kind": "noop", "schedule": "@yearly"}, status=201)["id"]
    serve.api("POST", "/tasks", {"name": "c", "kind": "noop", "parents": [parent]}, status=201)
    serve.api("POST", "/tasks", {"key": "bad", "kind": "shell", "command": "echo oops; exit 3", "max_attempts": 1,
                                 "expect_within": "1 s"}, status=201)
    bad = db.one("select id from pgrab.task where key = 'bad'")
    db.wait_run(bad)
    late = serve.api("POST", "/tasks", {"key": "late", "kind": "noop", "require": {"a": "b"}}, status=201)["id"]
    db.query("update pgrab.task set run_at = now() - interval '1 h' where id = %s", late)
    values = {"task": str(parent), "node": "n1", "key": "k", "name": "al", "signal": "go"}
    bodies = {("post", "/tasks"): {"kind": "noop"}, ("patch", "/tasks/{task}"): {"priority": 1},
              ("put", "/blackouts/{name}"): {"schedule": "@yearly", "lasts": "1 h"}, ("put", "/limits/{key}"): {"max_running": 1}, ("put", "/alerts/{name}"): {"template": {"kind": "noop"}},
              ("post", "/tasks/{task}/backfill"): {"from": "2020-06-01T00:00Z", "until": "2022-06-01T00:00Z"},
              ("post", "/tasks/{task}/answer"): {"outcome": "succeeded", "output": {"n": 1}}}
    special = {"/tasks/{task}/retry": bad, "/tasks/{task}/output": bad, "/tasks/{task}/runs": bad, "/retry": bad}
    asked = 0
    for path, operations in doc["paths"].items():
        for method in sorted(operations, key=["get", "put", "post", "patch", "delete"].index):
            if path.startswith(("/events", "/databases")):  # of the second: test_databases.py
                continue
            operation = operations[method]
            task = db.one("insert into pgrab.task (kind, run_at, schedule) values ('noop', '2040-01-01', '@yearly') "
                          "returning id") if method != "get" and path != "/retry" else parent
            task = special.get(path, task)
            if path.endswith("/seal"):
                task = db.one("insert into pgrab.task (kind) values ('batch') returning id")
            if path.endswith("/answer"):
                db.query("update pgrab.task set status = 'waiting', due_at = null, node_id = 1, incarnation = 1, started_at = now() "
                         "where id = %s", task)
            if "signal" in path:
                db.query("update pgrab.task set wait_for = 'go' where id = %s", task)
            if path in ("/retry", "/tasks/{task}/retry"):
                db.query("update pgrab.task set status = status where id = %s", bad)
                wait_until(lambda: db.one("select status from pgrab.task where id = %s", bad) == "parked", 10, "parked")
            url = path.format(**{**values, "task": str(task)})
            if path == "/next":
                url += "?schedule=@daily"
            body = bodies.get((method, path))
            if body is None and operation.get("requestBody"):
                body = {"tasks": [task]}
            answer = serve.ask(method.upper(), "/api/v1" + url, body)
            described = {int(s): r for s, r in operation["responses"].items() if s.isdigit()}
            assert answer.status in described and answer.status < 300, (method, path, answer)
            check(doc, described[answer.status]["content"]["application/json"]["schema"], json.loads(answer.text),
                  f"{method} {path}")
            asked += 1
    assert asked > 40


class Events:
    """A listener to server-sent events."""

    def __init__(self, serve, headers=""):
        self.socket = serve.connect()
        self.socket.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        self.text = ""

    def wait(self, pattern, timeout=10):
        """Reads until the text matches; returns the match."""
        def look():
            self.socket.settimeout(0.2)
            try:
                got = self.socket.recv(65536).decode()
                self.text += got
                assert got and not self.text.endswith("\r\n0\r\n\r\n"), f"the stream has ended: {self.text}"
            except TimeoutError:
                pass
            return re.search(pattern, self.text)
        return wait_until(look, timeout, f"/{pattern}/ among the events")

    def close(self):
        self.socket.close()


@pytest.mark.deadline(120)
def test_listeners_that_do_not_read_lose_their_place(db, nodes, serving):
    """All 32 places are taken by such; the runs go on, others are answered, and a listener that reads gets a place."""
    serve = serving()
    mute = [Events(serve) for _ in range(32)]
    for listener in mute:
        listener.wait("event: nodes")
        listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    nodes.start("n1")

    def heard():
        db.query("insert into pgrab.task (kind, name) select 'noop', repeat('x', 900) from generate_series(1, 300)")
        assert serve.get("/livez", timeout=5).status == 200 and serve.get("/api/v1/nodes", timeout=10).status == 200
        other = Events(serve)
        try:
            return other.wait("HTTP/1.1 (200|503)")[1] == "200"
        finally:
            other.close()
    wait_until(heard, 90, "a place for a listener that reads", step=0.5)
    for listener in mute:
        listener.close()


@pytest.mark.private_server
def test_a_restart_of_the_server_costs_no_request(cluster, db, serving):
    """The connection that serve has kept is dead by then, and is found to be so before anything is asked on it."""
    serve = serving(connections=1)
    task = db.add(kind="noop", run_at="2100-01-01")
    assert serve.ask("POST", "/api/v1/pause", {"tasks": [task]}).status == 200
    cluster.pg_stop()
    cluster.pg_start()
    answer = serve.ask("POST", "/api/v1/resume", {"tasks": [task]})
    assert answer.status == 200, answer
    assert not db.one("select paused from pgrab.task where id = %s", task)


@pytest.mark.private_server
def test_listeners_hear_again_after_a_restart_of_the_server(cluster, db, nodes, serving):
    """Either the stream goes on, or it ends and the listener comes back with the last id, as a browser does."""
    serve = serving()
    events = Events(serve)
    events.wait("event: nodes")
    nodes.start("n1", fence_after="20s", dead_after="25s")
    events.wait('"state" : "up"')
    cluster.pg_stop()
    cluster.pg_start()
    task = db.add(kind="noop")
    db.wait_run(task, timeout=20)
    ended = f'event: ended\ndata: .*"task_id" ?: ?{task}\\b'
    last = (re.findall("^id: (.*)$", events.text, re.M) or [None])[-1]

    def heard(listener):
        try:
            return listener.wait(ended)
        except (AssertionError, OSError):
            return None
        finally:
            listener.close()
    if not heard(events):
        wait_until(lambda: heard(Events(serve, f"Last-Event-ID: {last}\r\n" if last else "")), 20, "the end of the task", step=0.5)


def test_events_tell_of_runs_and_nodes(db, nodes, serving):
    serve = serving()
    events = Events(serve)
    events.wait(r"HTTP/1.1 200[^\0]*text/event-stream[^\0]*event: nodes\ndata: \[\]")
    nodes.start("n1")
    events.wait(r'event: nodes\ndata: \[\{"name" : "n1", "state" : "up"\}\]')
    task = db.add(kind="shell", command="sleep 4", name=HOSTILE + "\n\ndata: x")
    started = events.wait(r"event: started\ndata: (.*)")
    assert json.loads(started[1])["task_id"] == task and json.loads(started[1])["name"].startswith(HOSTILE)
    ended = json.loads(events.wait(r"event: ended\ndata: (.*)")[1])
    assert (ended["task_id"], ended["outcome"], ended["node"]) == (task, "succeeded", "n1")
    last = re.findall(r"id: (.*)\nevent: started", events.text)[-1]
    again = Events(serve, f"Last-Event-ID: {last}\r\n")
    again.wait(r"event: ended")
    assert "event: started" not in again.text
    assert serve.get("/api/v1/events", headers={"Last-Event-ID": "nonsense"}).status == 400
    many = [Events(serve) for _ in range(31)]
    assert sorted(listener.wait("HTTP/1.1 (...)")[1] for listener in many) == ["200"] * 30 + ["503"]
    for listener in many[:20]:
        listener.close()
    wait_until(lambda: Events(serve).wait("HTTP/1.1 (200|503)")[1] == "200", 10, "room for another", step=0.5)
    assert serve.get("/livez").status == 200
