"""The page of pgrab serve without a browser: every page, its forms, and what hostile texts do to it."""
import html.parser
import json
import re
import urllib.parse

import pytest
from cluster import wait_until

HOSTILE = "<script>alert('1')</script><img src=x onerror=alert(2)>\"'&\u202e"
PAGES = ["/", "/tasks", "/history", "/timeline", "/month", "/chains", "/nodes", "/limits", "/blackouts", "/late", "/began-late",
         "/failing", "/overdue", "/waiting", "/new", "/login"]


class Reader(html.parser.HTMLParser):
    """What is in a page: its elements with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.words.append(data)


class Visitor:
    """A browser without JavaScript: cookies and forms."""

    def __init__(self, serve):
        self.serve, self.cookies = serve, {}

    def get(self, path, status=200):
        answer = self.serve.get(path, headers={"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())})
        assert answer.status == status, answer
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
            name, _, value = cookie.split(";")[0].partition("=")
            self.cookies[name] = value
        return Reader(answer.text) if status == 200 else answer

    def post(self, path, fields, status=303, csrf=True):
        fields = list(fields.items()) if isinstance(fields, dict) else list(fields)
        if csrf:
            fields.append(("csrf", self.cookies["pgrab_csrf"]))
        answer = self.serve.ask("POST", path, urllib.parse.urlencode(fields), headers={
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())})
        assert answer.status == status, answer
        return answer


def fill(db, nodes):
    """A node, a task that fails, a chain, a limit; all with hostile names."""
    nodes.start("n1")
    bad = db.add(kind="shell", name=HOSTILE, command=f"echo '{HOSTILE.replace(chr(39), '')}' >&2; exit 1", max_attempts=1)
    root = db.add(kind="noop", name="root" + HOSTILE, schedule="@yearly")
    for i in range(3):
        link = db.add(kind="noop", name=f"link {i}", parent_id=root)
    db.query("insert into pgrab.limit values (%s, 3, null)", HOSTILE)
    db.query("insert into pgrab.blackout (name, during, task_like, note) values (%s, tstzrange(now(), now() + '1 h'), 'none', %s)", HOSTILE, HOSTILE)
    db.wait("select status = 'parked' from pgrab.task where id = %s", bad)
    return bad, root, link


def test_the_overview_draws_what_the_next_day_asks_for(db, nodes, serving):
    nodes.start("n1")
    db.add(kind="noop", name="hourly", schedule="@every 1h")
    page = Visitor(serving()).get("/").words
    assert " 100 % of slots" in page and "at once" in page and "work seconds" in page, page


def test_the_month_shows_clashes_and_quiet_hours(db, nodes, serving):
    nodes.start("n1", workers=2)
    for i in range(3):
        db.add(kind="noop", name=f"report {i}", schedule="0 6 * * *", timezone="Asia/Tokyo")
    db.query("insert into pgrab.calendar (name, closed_weekdays) values ('office <b>', '{sun}')")
    serve = serving()
    page = Visitor(serve).get("/month?timezone=Asia/Tokyo")
    cells = [attrs["class"] for tag, attrs in page.elements if tag == "rect" and "x" in attrs]
    assert 30 <= len(cells) <= 31 and set(cells) == {"h4 hot"}, cells
    assert any(re.search(r"06:00 and on (29|30) more days: 3 at once, 2 slots of workers: report 0, report 1, report 2",
                         "".join(page.words[i:i + 9]))
               for i, word in enumerate(page.words) if "06:00" in word), page.words
    assert page.words.count("closed: office <b>") in (4, 5) and len([1 for tag, a in page.elements if a.get("class") == "shut"]) in (4, 5)
    day = db.one("select (now() at time zone 'Asia/Tokyo')::date + 2")
    rows = Visitor(serve).get(f"/month?timezone=Asia/Tokyo&day={day}")
    assert len([1 for tag, attrs in rows.elements if tag == "td" and attrs.get("data-label") == "at once"]) == 24
    six = [h for h in serve.api("GET", "/month?timezone=Asia/Tokyo&days=3") if h["day"] == str(day) and h["hour"] == 6]
    assert six[0]["fires"] == 3 and six[0]["at_once"] == 3, six
    assert Visitor(serve).get("/month?timezone=Nowhere", 400)


def test_the_month_shows_clashes_on_a_limit(db, nodes, serving):
    nodes.start("n1", workers=8)
    db.query("insert into pgrab.limit (key, max_running) values ('tape', 1)")
    for name in ("a", "b"):
        db.add(kind="noop", name=name, schedule="0 3 * * MON", limit_key="tape")
    page = "".join(Visitor(serving()).get("/month").words)
    assert re.search(r"Mon \d\d \w+ 03:00 and on [34] more days: 2 at once, 1 may run by limit tape: a, b", page), page


def test_a_clash_names_twenty_tasks_and_leads_to_the_others(db, nodes, serving):
    nodes.start("n1", workers=2)
    for i in range(25):
        db.add(kind="noop", name=f"job {i:02}" + "." * (500 if i < 1 else 0), schedule="0 6 * * *")
    serve = serving()
    page = Visitor(serve).get("/month")
    links = [a["href"] for tag, a in page.elements if "hour=6#clash" in a.get("href", "")]
    clash = next(w for w in page.words if "25 at once" in w)
    assert "." * 50 in clash and "." * 60 not in clash  # long names are cut
    assert "job 19" in clash and "job 20" not in clash and "5 more" in page.words, page.words
    assert any("job 00." in w and w.endswith("job 24") for w in Visitor(serve).get(links[0]).words)
    six = [h for h in serve.api("GET", "/month?days=3") if h["hour"] == 6][-1]
    assert six["at_once"] == 25 and six["more"] == 5, six
    assert Visitor(serve).get("/month?day=soon&hour=6", 400) and Visitor(serve).get("/month?day=2026-11-22&hour=x", 400)


def test_pages_hold_together_and_escape_everything(db, nodes, serving):
    serve = serving(title="<b>prod</b>")
    visitor = Visitor(serve)
    for page in PAGES:
        visitor.get(page)
    bad, root, link = fill(db, nodes)
    for page in PAGES + [f"/tasks/{bad}", f"/tasks/{root}", f"/tasks/{link}", f"/tasks?q={urllib.parse.quote(HOSTILE)}",
                         "/tasks/nobody"]:
        status = 404 if page.endswith("nobody") else 200
        text = serve.get(page).text
        page = Reader(text) if status == 200 else Reader(visitor.get(page, 404).text)
        tags = [tag for tag, _ in page.elements]
        assert tags.count("script") == 1 and "img" not in tags and "b" not in tags
        assert tags.count("h1") == 1 and tags.count("main") == 1
        for tag, attrs in page.elements:
            assert not any(name.startswith("on") or name == "style" for name in attrs), (tag, attrs)
            for name in ("href", "src", "action"):
                assert re.match(r"/|#|data:,$|$", attrs.get(name, "")), (tag, attrs)
    task = visitor.get(f"/tasks/{bad}")
    shown = HOSTILE.replace("\u202e", "\ufffd")
    assert any(shown in words for words in task.words)
    assert len([1 for tag, a in visitor.get(f"/tasks/{root}").elements if tag == "g" and "link" in a["class"]]) == 4


def test_a_person_adds_runs_pauses_retries_and_reads(db, nodes, serving):
    nodes.start("n1")
    visitor = Visitor(serving())
    visitor.get("/new")
    made = visitor.post("/new", {"kind": "shell", "command": "echo what it says", "schedule": "@daily", "name": "mine",
                                 "args": '{"env": {"A": "b"}}', "timeout": ""})
    path = made.headers["Location"]
    task = int(path.rpartition("/")[2])
    assert visitor.post("/tasks", {"task": task, "action": "run-now", "back": path}).headers["Location"] == path
    db.wait_run(task)
    assert any("what it says" in words for words in visitor.get(path).words)
    slow = db.add(kind="shell", command="echo under way; sleep 60")
    db.wait("select status = 'running' from pgrab.task where id = %s", slow)
    wait_until(lambda: any("under way\n" in words for words in visitor.get(f"/tasks/{slow}").words if "echo" not in words),
               10, "the output so far", step=0.3)
    visitor.post("/tasks", {"task": slow, "action": "cancel"})
    db.wait_run(slow)
    visitor.post("/tasks", {"task": task, "action": "pause"})
    assert db.one("select paused from pgrab.task where id = %s", task)
    visitor.post("/tasks", {"task": task, "action": "resume"})
    bad = db.add(kind="shell", command="exit 1", max_attempts=1)
    db.wait("select status = 'parked' from pgrab.task where id = %s", bad)
    visitor.post("/tasks", [("task", bad), ("action", "retry")])
    assert db.wait_run(bad, 2)
    db.wait("select status = 'parked' from pgrab.task where id = %s", bad)
    visitor.post("/tasks", [("task", bad), ("task", task), ("action", "delete")])
    db.query("delete from pgrab.task where id = %s", slow)
    assert db.one("select count(*) from pgrab.task") == 0
    visitor.post("/limits", {"key": "a", "max_running": "2", "action": "set"})
    assert db.one("select max_running from pgrab.limit where key = 'a'") == 2
    visitor.post("/limits", {"key": "a", "action": "delete"})
    assert db.one("select count(*) from pgrab.limit") == 0
    assert visitor.post("/blackouts", {"name": "w", "lasts": "2h", "from": "", "schedule": "", "timezone": "", "task_like": "etl-%", "do": "skip",
                                       "note": "new disks", "action": "add"}).headers["Location"] == "/blackouts"
    assert db.query("select upper(during) - lower(during) = '2 h' and now() <@ during, task_like, action, note from pgrab.blackout") == [
        (True, "etl-%", "skip", "new disks")]
    assert "End w" in visitor.get("/blackouts").words
    visitor.post("/blackouts", {"name": "w", "action": "end"})
    assert db.one("select state from pgrab.blackouts") == "over" and "End w" not in visitor.get("/blackouts").words
    visitor.post("/blackouts", {"lasts": "1 day", "schedule": "0 0 * * SUN", "timezone": "Europe/Berlin", "action": "add"})
    assert db.one("select timezone || action from pgrab.blackout where schedule is not null") == "Europe/Berlinhold"
    for fields, status, says in [({"lasts": ""}, 400, "how long"), ({"lasts": "soon"}, 400, "interval"), ({"lasts": "0 h"}, 400, "during"),
                                 ({"lasts": "1 h", "from": "2098-01-01", "schedule": "@daily"}, 400, "excludes a schedule"),
                                 ({"lasts": "1 h", "from": "2098-01-01", "timezone": "Asia/Tokyo"}, 400, "the time zone of one"),
                                 ({"name": "x", "action": "end"}, 404, "no such blackout"), ({"action": "end"}, 400, "no name")]:
        assert says in visitor.post("/blackouts", {"action": "add", **fields}, status=status).text, fields
    visitor.post("/nodes/n1", {"action": "drain"})
    wait_until(lambda: db.one("select state from pgrab.nodes") == "draining", 10, "n1 to drain")
    visitor.post("/nodes/n1", {"action": "undrain"})
    visitor.post("/all", {"action": "pause"})
    for path in ("/all", "/nodes/n1"):
        assert "no such action" in visitor.post(path, {"action": "stop"}, status=400).text
    assert db.one("select paused from pgrab.cluster")
    assert "&lt;b&gt;" in visitor.post("/new", {"kind": "<b>", "command": "x"}, status=400).text


def test_forms_of_others_are_refused(db, serving):
    visitor = Visitor(serving())
    visitor.post("/all", {"action": "pause"}, status=403, csrf=False)
    visitor.get("/")
    visitor.post("/all", {"action": "pause"}, status=403, csrf=False)
    visitor.post("/all", {"action": "pause", "csrf": "0" * 32}, status=403, csrf=False)
    assert not db.one("select paused from pgrab.cluster")
    for back in ("https://evil.example/", "//evil.example/", "/\\evil.example", "/x\r\nSet-Cookie: a=b", "/\t/evil.example"):
        assert visitor.post("/all", {"action": "resume", "back": back}).headers["Location"] == "/"


@pytest.mark.deadline(120)
def test_pages_of_many_tasks_are_short_and_quick(db, serving):
    db.query("insert into pgrab.task (kind, name, run_at) select 'noop', 'task ' || g, '2040-01-01' from "
             "generate_series(1, 100000) g")
    db.query("analyze pgrab.task")
    visitor, seen = Visitor(serving()), 0
    page = visitor.get("/tasks")
    following = [a["href"] for tag, a in page.elements if a.get("rel") == "next"]
    assert len([1 for tag, a in page.elements if a.get("type") == "checkbox"]) == 50 and len(following) == 1
    visitor.get(following[0])
    assert len([1 for _, a in visitor.get("/tasks?q=task%2099999").elements if a.get("type") == "checkbox"]) == 1
    for path in PAGES + ["/static/page.css", "/static/page.js"]:
        answer = visitor.serve.get(path)
        assert answer.status == 200, path
        seen += len(answer.text.encode())
    assert seen < 120_000, f"all pages together have {seen} bytes"


def test_a_chain_shows_its_runs_and_what_decided_when_it_ended(db, nodes, serving):
    root = db.add(kind="noop", name="extract", schedule="@yearly")
    slow = db.add(kind="shell", name="slow", command="sleep 0.3", parent_id=root)
    db.add(kind="noop", name="quick", parent_id=root)
    last = db.add(kind="shell", name="publish", command="exit 1", max_attempts=1, parent_id=slow)
    nodes.start("n1", allow="shell,noop")
    db.query("select pgrab.run_now(%s)", root)
    db.wait("select exists (select from pgrab.chain_runs where result = 'failed')")
    serve = serving()
    page = Visitor(serve).get(f"/chains/{last}")
    ways = [tag for tag, attrs in page.elements if "way" in (attrs.get("class") or "").split()]
    assert ways.count("path") == 2 and ways.count("g") == 3, ways
    run = db.one("select chain_id from pgrab.chain_runs where result = 'failed'")
    graph = serve.api("GET", f"/chains/{root}/graph?run={run}")
    assert [link["name"] for link in graph if link["critical"]] == ["extract", "slow", "publish"], graph
    runs = serve.api("GET", f"/chains/{root}/runs")
    assert [(run["result"], run["links"], run["failed"]) for run in runs if run["result"] != "running"] == [("failed", 4, 1)]
    assert not any(link["critical"] for link in serve.api("GET", f"/chains/{root}/graph"))
    assert "There is no such run" in " ".join(Visitor(serve).get(f"/chains/{root}?run=999").words)


def test_a_chain_of_a_thousand_links_is_folded_by_level(db, serving):
    root = db.add(kind="noop", name="wide", schedule="@yearly")
    db.query("insert into pgrab.task (kind, name, parent_id) select 'noop', 'link ' || g, %s from generate_series(1, 1000) g", root)
    answer = serving().get(f"/chains/{root}")
    page = Reader(answer.text)
    assert answer.status == 200 and len(answer.text) < 120_000
    assert len([1 for tag, attrs in page.elements if tag == "g"]) == 2
    assert "1000 links, 0 done" in page.words, page.words
    assert [a["href"] for tag, a in page.elements if "from=1&until=1" in a.get("href", "")]


def test_a_batch_shows_how_far_it_is(db, serving):
    batch = db.add(kind="batch", name="import")
    db.query("insert into pgrab.task (kind, batch) select 'noop', %s from generate_series(1, 3)", batch)
    page = Visitor(serving()).get(f"/tasks/{batch}")
    assert "Its members" in page.words and "3 waiting" in page.words, page.words


def test_a_night_is_understood_from_the_page(db, nodes, serving):
    """What a night shift asks: which node is slow, who waits for whom, why a batch does not end."""
    nodes.start("n1", allow="noop")
    batch = db.add(kind="batch", name="letters")
    db.query("insert into pgrab.task (kind, name, batch, require) values ('noop', 'letter 1', %s, '{\"printer\": \"b\"}')", batch)
    approval = db.add(kind="noop", name="release", wait_for="approved")
    db.query("insert into pgrab.run (task_id, version, incarnation, node, fire_at, claimed_at, started_at, finished_at, created_at, attempt, outcome, "
             "kind, owner) select 7, g, 1, case when g % 2 = 0 then 'quick' else 'slow' end, now(), now(), now() - (1 + g % 2) * interval '4 s', "
             "now() - interval '1 ms' * g, now(), 1, 'succeeded', 'noop', current_user from generate_series(1, 20) g")
    # nearly all runs of this one were on one node, which is not to be compared with itself
    db.query("insert into pgrab.run (task_id, version, incarnation, node, fire_at, claimed_at, started_at, finished_at, created_at, attempt, outcome, "
             "kind, owner) select 8, g, 1, case when g > 27 then 'quick' else 'slow' end, now(), now(), now() - case when g > 27 then 0.3 else 4 end * interval '1 s', "
             "now(), now(), 1, 'succeeded', 'noop', current_user from generate_series(1, 30) g")
    db.wait("select exists (select from pgrab.late)")
    serve = serving()
    speed = {row["node"]: row["times_usual"] for row in serve.api("GET", "/speed") if row["times_usual"] is not None}
    assert 7 < speed["slow"] < 8.2 and 0.2 < speed["quick"] < 0.4, speed
    page = Visitor(serve).get("/")
    labels = [a["href"] for tag, a in page.elements if tag == "a"]
    assert "#late" in labels and "#waiting" in labels and f"/tasks/{approval}" in labels
    assert {"late", "waiting"} <= {a.get("id") for _, a in page.elements}
    assert any("no live node has labels" in word for word in Visitor(serve).get(f"/tasks/{batch}").words)
    assert "At that moment" in Visitor(serve).get("/timeline?at=00:00").words


def test_the_history_says_when_a_run_started_and_how_long_it_waited(db, nodes, serving):
    task = db.add(kind="shell", command="exit 3", max_attempts=1, run_at="2026-01-01 03:00Z")
    nodes.start(allow="shell")
    db.wait_run(task)
    serve, path = serving(), "/history?task=%s" % task
    page = Visitor(serve).get(path)
    labels = [attrs["data-label"] for tag, attrs in page.elements if tag == "td"]
    assert labels == ["task id", "name", "kind", "attempt", "outcome", "node", "started at", "waited", "seconds", "finished at", "error"], labels
    assert "shell" in page.words
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", [w for w in page.words if w.startswith("20")][0]), page.words
    for given, n in (("started_since=1h", 1), ("started_until=1h", 0), ("started_since=2026-01-01&started_until=2100-01-01", 1), ("started_since=2100-01-01", 0)):
        assert ("No such runs." in Visitor(serve).get(f"{path}&{given}").words) == (n == 0), given
        assert len(json.loads(serve.get(f"/api/v1/runs?task={task}&{given}").text)) == n, given
    assert Visitor(serve).get(f"{path}&started_since=thrice", 400)
    # it was planned for a time that had passed, so it waits from its INSERT on
    assert db.one("select waited between 0 and 60 from pgrab.history where task_id = %s", task)


def test_the_history_has_fires_that_were_not_run_and_all_of_a_task_by_its_name(db, serving):
    task = db.add(kind="noop", name="nightly", schedule="@yearly")
    db.query("insert into pgrab.run (task_id, version, fire_at, finished_at, created_at, attempt, outcome, error, kind, owner, name) "
             "select %s, g, now() - g * interval '1 h', now() - interval '50 min', '2026-01-01', 0, 'missed', 'n1 is up since 2026-11-26 23:30:02+00', 'noop', "
             "'x', 'nightly' from generate_series(1, 3) g", task)
    db.query("insert into pgrab.run (task_id, version, fire_at, claimed_at, started_at, finished_at, created_at, attempt, outcome, kind, owner, name) "
             "select 9, g, now(), now(), now(), now() - g * interval '1 ms', now(), 1, 'succeeded', 'noop', 'x', 'other' from generate_series(1, 20001) g")
    serve = serving()
    for given, n in (("started_since=150m&started_until=90m", 1), ("started_since=4h", 3), ("started_since=30m", 0)):
        assert len(json.loads(serve.get(f"/api/v1/runs?task={task}&{given}").text)) == n, given
        page = Visitor(serve).get(f"/history?q=nightly&{given}")  # beyond the twenty thousand runs that a search looks at
        assert len([1 for tag, a in page.elements if a.get("data-label") == "outcome"]) == n, page.words
        assert not any("Searched" in words for words in page.words)
    (wider,) = [a["href"] for tag, a in page.elements if a.get("href", "").endswith("names=all")]
    wide = Visitor(serve).get(wider)
    assert "No such runs." in wide.words or any("Searched back to" in words for words in wide.words), wide.words
    page = Visitor(serve).get("/history?q=ightl")
    assert "No such runs in the part that was searched." in page.words and "Search on" in page.words, page.words
    page = Visitor(serve).get(f"/tasks/{task}")
    tokyo = Visitor(serve).get("/history?q=nightly&timezone=Asia/Tokyo").words
    assert any("up since 2026-11-27 08:30:02+09" in words for words in tokyo), tokyo
    assert "All its history" in page.words and "3 fires missed in the last 7 days" in page.words, page.words


def attention(serve):
    """The lines under Needs attention, and where links lead."""
    page = Visitor(serve).get("/")
    begin = page.words.index("Needs attention")
    words = page.words[begin + 1:page.words.index("Runs of the last hour")]
    return [w for w in words if w.strip()], {a["href"] for tag, a in page.elements if tag == "a"}


def test_what_needs_attention_leads_to_where_it_is_shown(db, nodes, serving):
    serve = serving()
    assert attention(serve)[0] == ["no node is up; start one: pgrab run"]
    lost = nodes.start("lost", allow="noop")
    nodes.start("n1", allow="noop")
    db.wait("select count(*) = 2 from pgrab.node where state = 'up'")
    wait_until(lambda: attention(serve)[0] == ["Nothing."], 10, "nothing to need attention")
    lost.kill9()
    approval = db.add(kind="noop", name="release <b>", wait_for="approved")
    db.query("insert into pgrab.run (task_id, version, incarnation, node, fire_at, claimed_at, started_at, finished_at, created_at, attempt, outcome, "
             "kind, owner) select 7, g, 1, case when g % 3 > 0 then 'quick' else 'slow' end, now(), now(), now() - case when g % 3 > 0 then 1 else 9 end * "
             "interval '1 s', now(), now(), 1, 'succeeded', 'noop', current_user from generate_series(1, 30) g")
    db.query("insert into pgrab.run (task_id, version, incarnation, node, fire_at, claimed_at, started_at, finished_at, created_at, attempt, outcome, "
             "kind, owner) select 7, 100 + g, 1, 'hasty', now(), now(), now(), now(), now(), 1, 'failed', 'noop', current_user from generate_series(1, 90) g")
    db.add(kind="shell", name="stays", command="true", run_at="2026-01-01")
    db.wait("select exists (select from pgrab.node_incident) and exists (select from pgrab.late)")

    def lines():
        words, links = attention(serve)
        return links if all(any(part in w for w in words) for part in (
            "node slow takes 9.00 times as long as others for the same tasks, in 10 runs",
            "node lost is down, and did not stop in good order", f"release <b> ({approval}) has waited for signal approved since",
            "1 task is late, for up to")) else None
    assert {"/nodes", f"/tasks/{approval}", "#late"} <= wait_until(lines, 10, "all to be told")


def test_what_was_lost_with_a_node_is_counted_and_listed(db, nodes, serving):
    lost = nodes.start("lost 1".replace(" ", "."), allow="shell", labels="site=hq,disk=ssd")
    task = db.add(kind="shell", command="sleep 60", name="importer", max_attempts=1)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    lost.kill9()
    nodes.start("n1", allow="noop")
    db.wait("select exists (select from pgrab.node_incident) and exists (select from pgrab.run where outcome = 'lost')")
    serve = serving()

    def line():
        words, links = attention(serve)
        return any("node lost.1 is down" in w and "1 run was lost with it" in w for w in words) and links
    to = "/history?outcome=lost&node=lost.1"
    assert to in wait_until(line, 10, "the node to be told")
    assert "importer" in Visitor(serve).get(to).words
    page = Visitor(serve).get("/nodes")
    assert to in {a.get("href") for tag, a in page.elements if tag == "a"} and "disk=ssd,site=hq" in page.words


def test_a_missed_fire_is_told_with_its_time_and_why(db, nodes, serving):
    task = db.add(kind="noop", name="nightly", schedule="0 3 * * *", misfire="skip", paused=True)
    db.query("update pgrab.task set run_at = '2026-03-01 03:00Z' where id = %s", task)
    nodes.start("n1", allow="noop")
    db.query("select pgrab.resume(%s)", task)
    db.wait("select exists (select from pgrab.run where outcome = 'missed')")
    serve = serving()
    for path in ("/history?outcome=missed", f"/tasks/{task}"):
        told = "".join(Visitor(serve).get(path).words)
        assert re.search(r"its fire of 2026-\d\d-\d\d 03:00:00\S*: no node could run it within misfire_after; it was paused, and \S+ resumed it at 20", told), told
    assert any("nightly (%s) missed its fire of 2026-03-01 03:00:00" % task in w for w in attention(serve)[0])


def test_a_limit_names_who_has_it_and_who_is_next(db, nodes, serving):
    db.query("insert into pgrab.limit (key, max_running) values ('tape <b>', 1)")
    has = db.add(kind="shell", name="backup", command="sleep 60", limit_key="tape <b>")
    nodes.start("n1", allow="shell,noop")
    db.wait("select status = 'running' from pgrab.task where id = %s", has)
    first = db.add(kind="noop", name="restore", limit_key="tape <b>", priority=5)
    db.add(kind="noop", name="check", limit_key="tape <b>")
    db.wait("select count(*) = 2 from pgrab.task where due_at is null and limit_key is not null and status = 'scheduled'")
    page = Visitor(serving()).get("/limits")
    told = [w for w in page.words[page.words.index("Who has the places, and who is first in line"):] if w.strip()]
    assert [w for w in told if w in ("runs", "in line", "backup", "restore", "check")] == [
        "runs", "backup", "in line", "restore", "in line", "check"], told
    assert {f"/tasks/{has}", f"/tasks/{first}"} <= {a.get("href") for tag, a in page.elements if tag == "a"}
    assert re.search(r"Running under it: backup #%s since 20" % has, db.one(
        "select detail from pgrab.explain(%s) where gate = 'limit'", first))


def test_a_batch_says_what_its_members_wait_for(db, nodes, serving):
    db.query("create table public.contested (n int); insert into public.contested values (1)")
    db.query("insert into pgrab.limit (key, max_running) values ('tape', 0)")
    nodes.start("n1", allow="sql,noop")
    batch = db.add(kind="batch", name="letters")
    asks = db.add(kind="noop", name="asks", batch=batch, wait_for="approved")
    line = db.add(kind="noop", name="line", batch=batch, limit_key="tape")
    with db.connect(autocommit=False, application_name="somebody") as person:
        person.execute("update public.contested set n = 2")
        stuck = db.add(kind="sql", name="stuck", batch=batch, command="update public.contested set n = 3")
        db.wait("select status = 'running' from pgrab.task where id = %s", stuck)
        db.wait("select due_at is null and status = 'scheduled' from pgrab.task where id = %s", line)
        db.wait("select exists (select from pgrab.explain(%s) where gate = 'lock')", stuck)
        page = Visitor(serving()).get(f"/tasks/{batch}")
        told = "".join(page.words)
        assert f"has waited since" in told and f"for a lock of session {person.info.backend_pid} (" in told, told
        db.query("insert into pgrab.limit (key, break_after, break_for) values ('api', 1, '1 h')")
        db.add(kind="sql", command="select 1 / 0", limit_key="api", max_attempts=1)
        db.wait("select broken_until is not null from pgrab.limits where key = 'api'")
        serve = serving()
        assert "not known: members can be added" in page.words, page.words
        db.query("select pgrab.seal(%s)", batch)
        page = Visitor(serve).get(f"/tasks/{batch}")
        assert any(re.fullmatch(r"not known: no member has begun for 00:00:\d\d", word) for word in page.words), page.words
        wait_until(lambda: any(re.match(rf"session {person.info.backend_pid} \(.*somebody\) holds a lock that a run waits for, since 20", line)
                               for line in attention(serve)[0]), 30, "the lock to be told, when it is 5 s old and the page at most 15 s")
        lines, links = attention(serve)
        assert any(re.match("limit api is broken: 1 failed in a row; nothing under it starts before 20", line) for line in lines), lines
        assert "/limits" in links, links
        assert "waits for signal 'approved'" in told and "limit tape lets nothing run" in told, told
        assert {f"/tasks/{t}" for t in (asks, line, stuck)} <= {a.get("href") for tag, a in page.elements if tag == "a"}
        person.rollback()


def test_the_overview_counts_what_the_last_day_missed_and_began_late(db, serving):
    serve = serving()
    assert not any("began more than" in w for w in Visitor(serve).get("/").words)
    assert "All of these began in time. The history of a task shows its older runs." in Visitor(serve).get("/began-late").words
    db.query("insert into pgrab.run (task_id, version, fire_at, claimed_at, started_at, finished_at, created_at, attempt, outcome, kind, owner, name) "
             "select 9, g, now() - interval '1 h', now(), now() - interval '1 h' + g * interval '40 s', now(), '2026-01-01', 1, 'succeeded', 'noop', 'x', "
             "'night ' || g from generate_series(1, 3) g union all select 8, 1, now(), null, null, now(), now(), 0, 'missed', 'noop', 'x', 'gone' "
             # one that was inserted late, and one that went on after a wait
             "union all select 7, 1, '2026-01-01', now(), now(), now(), now(), 1, 'succeeded', 'noop', 'x', 'backfill' "
             "union all select 6, g, now() - interval '1 h', now(), now() - interval '1 h' + g * interval '10 min', now() - interval '1 h' + g * interval '11 min', "
             "'2026-01-01', 1, case g when 0 then 'waited' else 'succeeded' end, 'noop', 'x', 'slept' from generate_series(0, 1) g")
    page = Visitor(serving()).get("/")
    assert "1 fire was missed" in page.words and "2 runs began more than a minute late" in page.words, page.words
    assert {"/began-late", "/history?outcome=missed"} <= {a.get("href") for _, a in page.elements}
    words = Visitor(serving()).get("/began-late").words
    assert "night 2" in words and "night 3" in words and "night 1" not in words, words


def test_what_was_lost_says_what_became_of_it_and_a_dead_node_since_when(db, nodes, serving):
    n1 = nodes.start("n1")
    tasks = [db.add(kind="shell", name=f"lost {n}", command="sleep 60", max_attempts=n) for n in (1, 2)]
    db.wait("select count(*) = 2 from pgrab.task where status = 'running'")
    n1.kill9()
    nodes.start("n2")
    db.wait("select count(*) = 2 from pgrab.run where outcome = 'lost'", timeout=30)
    db.wait("select status = 'running' from pgrab.task where id = %s", tasks[1], timeout=30)
    serve = serving()
    words = Visitor(serve).get("/history?outcome=lost").words
    assert any(w.endswith("; parked") for w in words) and any(re.search("; runs again on n2 since 20", w) for w in words), words
    db.query("select pgrab.cancel(%s)", tasks[1])
    db.wait("select exists (select from pgrab.run where task_id = %s and outcome = 'cancelled')", tasks[1], timeout=20)
    words = Visitor(serving()).get("/history?outcome=lost").words
    assert any(re.search("; ran again on n2 at 20.*: cancelled", w) for w in words), words
    page = Visitor(serve).get("/nodes")
    heard = db.one("select to_char(heartbeat_at, 'YYYY-MM-DD HH24:MI:SS') from pgrab.node where name = 'n1'")
    assert heard in page.words and "beaten to" in page.words and "runs lost" in page.words, page.words


def test_limits_say_who_has_them_until_when_and_what_waits_until_they_are_mended(db, nodes, serving):
    db.query("insert into pgrab.limit (key, max_running) values ('tape', 1)")
    db.query("insert into pgrab.limit (key, break_after, break_for) values ('api', 1, '1 h')")
    nodes.start("n1")
    first = db.add(kind="shell", name="holds", command="sleep 60", limit_key="tape", timeout="2 h")
    db.wait("select status = 'running' from pgrab.task where id = %s", first)
    db.query("insert into pgrab.task (kind, name, limit_key) select 'noop', 'next ' || g, 'tape' from generate_series(1, 5) g")
    db.wait("select waiting = 5 from pgrab.limits where key = 'tape'")
    fails = db.add(kind="sql", name="fails", command="select 1 / 0", limit_key="api", schedule="@every 1min", max_attempts=1, run_at="2026-01-01")
    db.wait("select broken_until is not null from pgrab.limits where key = 'api'", timeout=20)
    serve = serving()
    page = Visitor(serve).get("/limits").words
    assert "and 2 more" in page and "after 1 failures in a row, for 01:00:00" in page, page
    ends = db.one("select to_char(started_at + timeout, 'YYYY-MM-DD HH24:MI') from pgrab.task where id = %s", first)
    assert any(word.startswith(ends) for word in page), (ends, page)
    page = Visitor(serve).get(f"/tasks/{fails}").words
    assert any(re.search("not before 20.*: limit api is broken", word) for word in page), page


def test_all_late_tasks_are_listed_and_their_reasons_first(db, serving):
    db.query("insert into pgrab.task (kind, name, run_at, require) select 'noop', 'task ' || g, now() - interval '1 min', "
             "jsonb_build_object('disk', case when g < 4 then 'tape' else 'ssd' end) from generate_series(1, 130) g")
    db.query("insert into pgrab.task (kind, name, wait_for) select 'noop', 'asks ' || g, 'go' from generate_series(1, 12) g")
    visitor, path, seen = Visitor(serving()), "/late", set()
    page = visitor.get("/")
    links = {a.get("href") for tag, a in page.elements if tag == "a"}
    assert {"/late", "/waiting"} <= links, links
    assert any("or more" in w for w in page.words) and "first reason" in page.words
    while path:
        page = visitor.get(path)
        seen |= {w for w in page.words if w.startswith("task ")}
        path = next((a["href"] for tag, a in page.elements if a.get("rel") == "next"), None)
    assert seen - {"task id"} == {f"task {g}" for g in range(1, 131)}
    assert "asks 12" in visitor.get("/waiting").words
    assert "No task fails." in visitor.get("/failing").words and "No task is overdue." in visitor.get("/overdue").words
    assert "No task is late." in visitor.get("/late?cursor=99999999").words


def test_an_error_that_is_cut_shows_its_end_and_leads_to_all_of_it(db, nodes, serving):
    task = db.add(kind="shell", name="long", command="printf 'x%.0s' $(seq 800) >&2; echo ' <end>' >&2; exit 1", max_attempts=1)
    db.query("insert into pgrab.run (task_id, version, fire_at, finished_at, created_at, attempt, outcome, error, kind, owner) "
             "values (999, 7, now(), now(), now(), 1, 'failed', repeat('é', 500) || ' the end <b>', 'noop', 'x')")
    nodes.start("n1", allow="shell")
    db.wait_run(task)
    visitor = Visitor(serving())
    page = visitor.get("/history?task=999")
    more = [a for tag, a in page.elements if tag == "a" and a.get("aria-label") == "all of it"]
    assert [a["href"] for a in more] == ["/tasks/999/runs/7"] and more[0]["title"].startswith("é" * 400), more
    assert "…" in page.words and any(w.endswith("é the end <b>") and 140 < len(w) < 170 for w in page.words), page.words
    page = visitor.get("/")  # of the task that is parked, in the attention and in the list
    assert any(re.search(r"is parked: .*: \.\.\.x+ <end>", w) for w in page.words), page.words
    assert any(re.fullmatch(r"x{200,} <end>\s*", w) for w in page.words), page.words
    assert any("the end <b>" in w for w in visitor.get("/tasks/999/runs/7").words)
    version = db.one("select version from pgrab.run where task_id = %s", task)
    assert f"/tasks/{task}/runs/{version}" in {a.get("href") for tag, a in visitor.get(f"/tasks/{task}").elements if tag == "a"}
    assert any("<end>" in w for w in visitor.get(f"/tasks/{task}/runs/{version}").words)
    visitor.get("/tasks/999/runs/8", 404)
    visitor.get("/tasks/999/runs/x", 400)


def test_the_site_has_one_time_zone_which_links_keep(db, nodes, serving):
    task = db.add(kind="noop", name="nightly", schedule="0 3 * * *", run_at="2040-01-01 03:00Z")
    db.query("insert into pgrab.run (task_id, version, node, fire_at, started_at, finished_at, created_at, attempt, outcome, kind, owner, name) "
             "values (%s, 1, 'n1', '2026-03-01 03:00Z', '2026-03-01 03:00Z', '2026-03-01 03:10Z', '2026-01-01', 1, 'succeeded', 'noop', 'x', 'nightly')", task)
    serve = serving(timezone="Asia/Tokyo")
    visitor = Visitor(serve)

    def zone(page):
        return [a["value"] for tag, a in page.elements if tag == "input" and a.get("name") == "timezone"]
    page = visitor.get(f"/tasks/{task}")
    assert zone(page) == ["Asia/Tokyo"] and "2040-01-01 12:00:00" in page.words, page.words
    assert not any("timezone" in a.get("href", "") for tag, a in page.elements)
    berlin = visitor.get(f"/tasks/{task}?timezone=Europe/Berlin")
    assert "2040-01-01 04:00:00" in berlin.words, berlin.words
    own = [a["href"] for tag, a in berlin.elements if tag == "a" and a["href"].startswith("/")]
    assert own and all("timezone=Europe" in link for link in own), own
    assert all("timezone=Europe" in a["action"] for tag, a in berlin.elements if tag == "form" and a.get("method") == "post")
    assert set(zone(berlin)) == {"Europe/Berlin"} and len(zone(berlin)) == 2  # the search has it, too
    assert [a["href"] for tag, a in berlin.elements if a.get("href", "").startswith("/static")] == ["/static/page.css"]
    assert visitor.get("/find?q=nightly&timezone=Europe%2FBerlin", 303).headers["Location"] == f"/tasks/{task}?timezone=Europe%2FBerlin"
    frame = visitor.get("/timeline?at=2026-03-01+04:05&timezone=Europe/Berlin")
    assert len([1 for tag, a in frame.elements if tag == "rect" and a["class"] == "b-succeeded"]) == 1
    assert "04:00" in frame.words and "nightly" in frame.words
    assert "2040-01-01 12:00:00" in visitor.get(f"/tasks/{task}").words  # nobody else's zone changes
    for bad in ("Nowhere", "'; drop table x"):
        assert visitor.get("/?timezone=" + urllib.parse.quote(bad), 400)
    (run,) = serve.api("GET", f"/tasks/{task}/runs")
    assert run["fire_at"].endswith("+00:00") and run["fire_at"].startswith("2026-03-01T03"), run


def test_the_page_says_whether_the_night_fits(db, nodes, serving):
    nodes.start("n1", workers=2)
    serve = serving()
    for path in ("/", "/month"):
        words = "".join(Visitor(serve).get(path).words)
        assert re.search(r"The next (24 hours|31 days)\. No run will begin more than a minute late", words), path
    db.query("insert into pgrab.task (kind, name, command, run_at) select 'shell', 'etl ' || g, 'true', date_trunc('hour', now()) + interval '3 h' "
             "from generate_series(1, 8) g")
    db.query("update pgrab.task set durations = '\\x97'")  # half an hour
    (jam,) = wait_until(lambda: serve.api("GET", "/congestion?horizon=6+hours"), 10, "it to be told")
    assert (jam["crew"], jam["slots"], jam["late_by"], jam["more"]) == ("workers", 2, "01:28:57", 3), jam
    later = serving()  # has no answer of before
    for path in ("/", "/month?timezone=Asia/Tokyo"):
        page = Visitor(later).get(path)
        assert "01:28:57" in page.words and any("etl 1 (01:28), etl 2" in w for w in page.words), page.words


def test_a_task_is_found_from_every_page(db, serving):
    one = db.add(kind="noop", name="nightly report", key="n-1", run_at="2040-01-01")
    for _ in range(2):
        db.add(kind="noop", name="twin <b>", run_at="2040-01-01")
    visitor = Visitor(serving())
    for page in PAGES:
        assert any(a.get("action") == "/find" for _, a in visitor.get(page).elements), page
    for given, to in ((str(one), f"/tasks/{one}"), ("n-1", f"/tasks/{one}"), ("nightly+report", f"/tasks/{one}"), ("nightly", "/tasks?q=nightly"),
                      ("twin+%3Cb%3E", "/tasks?q=twin%20%3Cb%3E"), ("", "/tasks?q=")):
        assert visitor.get(f"/find?q={given}", 303).headers["Location"] == to, given
    assert "nightly report" in visitor.get("/tasks?q=nightly").words
    links = [a["href"] for tag, a in visitor.get("/tasks?q=nightly").elements if a.get("href") == f"/tasks/{one}"]
    assert len(links) == 2  # its number and its name


def test_the_list_of_chains_says_how_long_links_took(db, nodes, serving):
    root = db.add(kind="noop", name="extract", schedule="@yearly")
    db.add(kind="shell", name="load", command="sleep 0.2", parent_id=root)
    nodes.start("n1", allow="shell,noop")
    db.query("select pgrab.run_now(%s)", root)
    db.wait("select count(*) = 1 from pgrab.run where name = 'load'")
    page = Visitor(serving()).get("/chains")
    assert {"took", "usual"} <= {a["data-label"] for tag, a in page.elements if tag == "td"}
    assert [a for tag, a in page.elements if a.get("href") == f"/tasks/{root}"]
