"""What ran when and where: the page Timeline, and its routes of the API."""
import re
import urllib.parse
from datetime import datetime, timedelta

import pytest
from serving import quote
from test_serve_page import HOSTILE, Visitor

RUN = """insert into pgrab.run (task_id, version, incarnation, node_id, node, fire_at, claimed_at, started_at, finished_at,
  created_at, attempt, outcome, kind, owner, name) """


def past(db, start, seconds, name, node="n1", outcome="succeeded", waited=0):
    db.query(RUN + """values (1, 1, 1, 1, %s, %s::timestamptz - %s * interval '1 s', %s, %s, %s::timestamptz + %s * interval '1 s',
      '2026-01-01', 1, %s, 'shell', current_user, %s)""", node, start, waited, start, start, start, seconds, outcome, name)


def bars(page, name):
    return [a for tag, a in page.elements if tag == "rect" and a["class"] == name]


def test_a_night_is_drawn_and_its_moments_are_told(db, nodes, serving):
    nodes.start("n1", workers=2, retention="2000d")  # upkeep keeps what is made up
    past(db, "2026-03-01 02:50Z", 1200, "backup" + HOSTILE)
    past(db, "2026-03-01 02:55Z", 900, "vacuum")
    past(db, "2026-03-01 03:10Z", 60, "report", waited=660, outcome="failed")
    past(db, "2026-03-01 01:00Z", 7 * 3600, "elsewhere", node="n2")
    serve = serving()
    night = serve.api("GET", "/timeline?at=" + quote("2026-03-01 03:00Z") + "&span=" + quote("1 hour"))
    assert [(b["line"], b["outcome"]) for b in night] == [("n1", "succeeded"), ("n1", "succeeded"), ("n1", "failed"), ("n2", "succeeded")]
    assert [b["seconds"] for b in night] == [1200, 900, 60, 3600] and not any(b["more"] for b in night)
    told = {a["name"].partition("<")[0]: a for a in serve.api("GET", "/moment?at=" + quote("2026-03-01 03:00Z"))}
    assert {n: a["status"] for n, a in told.items()} == {
        "backup": "running", "vacuum": "running", "elsewhere": "running", "report": "waiting"}
    assert told["report"]["waited_for"] == "n1 was busy: 2 of 2"
    page = Visitor(serve).get("/timeline?at=" + quote("2026-03-01 03:00") + "&span=hour")
    assert len(bars(page, "b-succeeded")) == 3 and len(bars(page, "b-failed")) == 1 and len(bars(page, "b-wait")) == 1
    assert any("n1 was busy: 2 of 2" in words for words in page.words)
    assert not any(tag == "img" for tag, _ in page.elements)
    assert "failed, timed out or lost\n" in page.words  # the legend
    assert [a["title"] for tag, a in page.elements if tag == "th" and a.get("title")] == ["what kept it from running at that moment"]
    assert "elsewhere: succeeded, 25200.000 s, 2026-03-01 01:00:00 to 2026-03-01 08:00:00" in page.words  # beyond the window
    assert "report: failed, 60.000 s, 2026-03-01 03:10:00 to 2026-03-01 03:11:00, due 2026-03-01 02:59:00" in page.words
    assert "vacuum" in page.words and "report" not in page.words[:page.words.index("At that moment")]  # a bar that has room for it
    by_task = Visitor(serve).get("/timeline?at=" + quote("2026-03-01 03:00") + "&by=task")
    assert any("vacuum" == words for words in by_task.words)


def test_a_run_leads_to_a_window_that_has_it(db, serving):
    task = db.add(kind="noop", name="rare", schedule="@yearly")
    for start, seconds, waited in (("2026-03-01 03:00Z", 5, 10), ("2026-03-02 03:00Z", 600, 900), ("2026-03-03 03:00Z", 60, 30000),
                                   ("2026-03-10 03:00Z", 500000, 60)):
        past(db, start, seconds, "rare", waited=waited)
    db.query("update pgrab.run set task_id = %s", task)
    serve = serving()
    links = {a["href"] for tag, a in Visitor(serve).get(f"/tasks/{task}").elements if a.get("href", "").startswith("/timeline?at=")}
    assert sorted(link.rpartition("=")[2] for link in links) == ["day", "hour", "minute", "week"], links
    for link in links:
        drawn = bars(Visitor(serve).get(link), "b-succeeded")
        assert any(150 < float(a["x"]) and float(a["x"]) + float(a["width"]) < 1150 for a in drawn), (link, drawn)


def test_a_link_waited_for_its_parents(db, serving):
    past(db, "2026-03-01 01:00Z", 3600, "load")
    past(db, "2026-03-01 02:10Z", 60, "merge", waited=4200)
    db.query("update pgrab.run set chain_id = 7, task_id = case name when 'merge' then 2 else 1 end, definition = '{\"parent_id\": 1}'")
    serve = serving()

    def merge(at):
        (row,) = [a for a in serve.api("GET", "/moment?at=" + quote(at)) if a["name"] == "merge"]
        return row["status"], row["since"][11:16], row["waited_for"]
    assert merge("2026-03-01 01:30Z") == ("waiting", "01:00", "waited for load")
    assert merge("2026-03-01 02:05Z") == ("waiting", "02:00", "n1 had 0 runs")


def test_a_moment_says_which_limit_kept_what_and_who_had_it(db, nodes, serving):
    nodes.start("n1", workers=1, retention="2000d")
    db.query("insert into pgrab.limit (key, max_running) values ('tape', 1)")
    past(db, "2026-03-01 02:50Z", 1200, "backup")
    past(db, "2026-03-01 03:10Z", 60, "report", waited=660)
    past(db, "2026-03-01 03:12Z", 1, "late report", waited=720, node="n2")
    db.query("update pgrab.run set definition = '{\"limit_key\": \"tape\"}' where name <> 'late report'")
    db.query("insert into pgrab.run (task_id, version, fire_at, finished_at, created_at, attempt, outcome, error, kind, owner, name) "
             "values (2, 1, '2026-03-01 02:58Z', '2026-03-01 03:30Z', '2026-01-01', 0, 'missed', 'no node was up', 'noop', 'x', 'gone')")
    still = db.add(kind="noop", name="stays", require='{"printer": "b"}', run_at="2026-03-01 02:00Z")
    db.query("update pgrab.task set created_at = '2026-01-01' where id = %s", still)
    db.add(kind="noop", name="asks", wait_for="approved", run_at="2026-03-01 02:00Z")
    serve = serving()
    told = {a["name"]: a for a in serve.api("GET", "/moment?at=" + quote("2026-03-01 03:00Z"))}
    assert told["report"]["waited_for"] == "limit tape: 1 of 1 ran: backup #1", told
    assert told["late report"]["waited_for"] == "n2 had 0 runs", told
    assert told["gone"]["waited_for"] == "it was not run: no node was up", told
    assert told["stays"]["waited_for"].startswith("no live node has labels") and told["stays"]["until"] is None, told
    assert {a["name"]: a["waited_for"] for a in serve.api("GET", "/moment")}["asks"] == "signal approved"
    page = Visitor(serve).get("/history?q=report")
    (href,) = [a["href"] for tag, a in page.elements if a.get("href", "").startswith("/timeline?span=hour&at=2026-03-01T03%3A04%3A30")]
    assert any("limit tape: 1 of 1 ran: backup #1" in words for words in page.words), page.words
    assert "At that moment" in Visitor(serve).get(href).words
    page = Visitor(serve).get("/tasks/1/runs/1")
    assert len([a for tag, a in page.elements if a.get("href", "").startswith("/timeline?span=hour&at=2026")]) == 1


def test_a_window_with_very_many_runs_is_drawn_in_parts(db, nodes, serving):
    db.query(RUN + """select n, 1, 1, 1, 'n' || n % 3, at, at, at, at + interval '0.1 s', at, 1,
      case when n % 10 = 0 then 'failed' else 'succeeded' end, 'noop', current_user, 'task ' || n % 100
      from (select n, timestamptz '2026-03-01Z' + n * interval '100 ms' as at from generate_series(1, 72000) n) g""")
    serve = serving()
    hour = serve.api("GET", "/timeline?at=" + quote("2026-03-01 01:00Z"))
    assert len(hour) == 3 * 120 and all(b["more"] for b in hour) and {b["line"] for b in hour} == {"n0", "n1", "n2"}
    assert sum(b["runs"] for b in hour) == 120 * 80 + 1  # one went on beyond the end
    minute = serve.api("GET", "/timeline?at=" + quote("2026-03-01 01:00Z") + "&span=" + quote("20 s"))
    assert len(minute) > 190 and all(b["runs"] == 1 for b in minute)
    answer = serve.get("/timeline?at=" + quote("2026-03-01 01:00"))
    assert answer.status == 200 and len(answer.text) < 120000
    by_task = serve.api("GET", "/timeline?by=task&at=" + quote("2026-03-01 01:00Z"))
    assert len({b["line"] for b in by_task}) == 21 and by_task[-1]["line"] == "others"
    answer = serve.get("/timeline?by=task&at=" + quote("2026-03-01 01:00"))
    assert answer.status == 200


def test_what_runs_now_is_on_it_and_bad_questions_are_refused(db, nodes, serving):
    nodes.start("n1")
    task = db.add(kind="shell", command="sleep 60", name="long one")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    serve = serving()
    (bar,) = serve.api("GET", "/timeline")
    assert (bar["line"], bar["task_id"], bar["outcome"]) == ("n1", task, "running")
    (now,) = serve.api("GET", "/moment")
    assert (now["status"], now["name"], now["until"]) == ("running", "long one", None)
    page = Visitor(serve).get("/timeline")
    assert len(bars(page, "b-running")) == 1
    assert any(re.search(r"/timeline\?at=.*span=hour", a.get("href") or "") for tag, a in page.elements if tag == "a")
    Visitor(serve).get("/timeline?span=century", 400)
    Visitor(serve).get("/timeline?at=yesteryear", 400)
    serve.api("GET", "/timeline?span=century", status=400)


@pytest.mark.parametrize("moment", ["infinity", "-infinity"])
def test_a_moment_that_is_infinite_is_refused(db, serving, moment):
    task = db.add(kind="noop", schedule="@daily")
    past(db, "2026-03-01 03:00Z", 5, "one")
    serve = serving()
    for path in ("/timeline?at=", "/api/v1/timeline?at=", "/api/v1/moment?at=", "/history?started_since=", "/api/v1/runs?since=",
                 "/api/v1/runs?until=", "/api/v1/runs?started_since=", "/api/v1/runs?started_until="):
        refused = serve.get(path + moment)
        assert refused.status == 400 and "infinity" in refused.text and "A time is 03:00" in refused.text, (path, refused)
    serve.api("GET", f"/next?schedule=@daily&after={moment}", status=400)
    wish = {"from": moment, "until": "infinity", "dry_run": True}
    assert "there is nothing from" in serve.api("POST", f"/tasks/{task}/backfill", wish, status=400)["detail"]
    assert db.one("select count(*) from pg_stat_activity where datname = current_database() and application_name = 'pgrab serve' "
                  "and state = 'active'") == 0


def windows(page):
    """The links to windows at other moments: Earlier, Later, and so on."""
    nav = page.elements.index(("nav", {"class": "zoom", "aria-label": "Window"}))
    return [a["href"] for tag, a in page.elements[nav:] if tag == "a" and a["href"].startswith("/timeline?at=")]


def moment_of(link):
    return urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["at"][0]


def test_links_know_which_of_two_equal_hours_they_mean(db, serving):
    """In Berlin 02:30 comes twice on that day: at 00:30 and at 01:30 UTC."""
    serve = serving(timezone="Europe/Berlin")
    page = Visitor(serve).get("/timeline?span=hour&at=" + quote("2026-10-25T02:30:00Z"))
    for hour in ("01:30", "00:30"):
        earlier = windows(page)[0]
        assert datetime.fromisoformat(moment_of(earlier)) == datetime.fromisoformat(f"2026-10-25T{hour}:00+00:00"), earlier
        page = Visitor(serve).get(earlier)
        assert "From 2026-10-25 02:00:00 to " in "".join(page.words)  # what people read is local
    earlier, later = [datetime.fromisoformat(moment_of(link)) for link in windows(page)[:2]]
    assert later - earlier == timedelta(hours=2)


def test_what_ran_in_the_first_of_two_equal_hours_is_where_its_links_lead(db, serving):
    task = db.add(kind="noop", name="rare", schedule="@yearly")
    past(db, "2026-10-25 00:30Z", 10, "rare", waited=20)
    past(db, "2026-03-01 03:00Z", 10, "rare")
    db.query("update pgrab.run set task_id = %s", task)
    serve = serving(timezone="Europe/Berlin")
    links = {a["href"] for path in (f"/tasks/{task}", "/history") for tag, a in Visitor(serve).get(path).elements
             if re.match(r"/timeline\?.*at=", a.get("href", ""))}
    assert len(links) == 3, links
    for link in links:
        assert bars(Visitor(serve).get(link), "b-succeeded"), link


def test_numbers_over_time_are_drawn(db, nodes, serving):
    db.query(RUN + """select n, 1, 1, 1, 'n1', at - interval '3 s', at, at, at + interval '0.1 s', at - interval '3 s', 1,
      case when n % 10 = 0 then 'failed' else 'succeeded' end, 'noop', current_user, 'x'
      from (select n, now() - n * interval '100 ms' as at from generate_series(0, 36000) n) g""")
    serve = serving()
    rates = serve.api("GET", "/rates")
    assert len(rates) == 60
    # told by the first hundred of each minute, where ten a second end
    assert all(9.5 < r["per_second"] < 10.5 and 0.8 < r["failed_per_second"] < 1.3 for r in rates[1:-1]), rates
    assert all((r["waited_p95"], r["seconds_p50"]) == (3, 0.1) for r in rates[1:-1])
    nodes.start("n1", workers=3)
    task = db.add(kind="shell", command="exit 0", schedule="@every 1s", key="tick")
    db.wait("select count(*) > 3 from pgrab.run where task_id = %s", task)
    db.query("update pgrab.task set command = 'exit 1' where id = %s", task)
    visitor = Visitor(serve)
    page = visitor.get("/")
    assert len(bars(page, "b-succeeded")) >= 60 and len(bars(page, "b-failed")) >= 60
    assert [a["max"] for tag, a in page.elements if tag == "meter"] == ["3", "64"]  # the workers, and http
    page = visitor.get(f"/tasks/{task}")
    assert len(bars(page, "b-succeeded")) >= 3
    assert any(words == "Edits" for words in page.words) and any(words == "exit 1" for words in page.words)
