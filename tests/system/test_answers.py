"""Requests whose answer comes later: a real node, a receiver that calls back, and the door at which it does."""
import http.server
import json
import os
import queue
import socket
import threading
import urllib.error
import urllib.request

import pytest
from attack import Attack
from cluster import run_pgrab, wait_until
from faulty import proxy  # noqa: F401 (fixture)
from test_serve_page import Visitor


class Receiver(http.server.ThreadingHTTPServer):
    """Accepts each request with 202; its headers go to .calls."""
    daemon_threads = True

    def __init__(self):
        self.calls, self.status, self.before = queue.Queue(), 202, None
        super().__init__(("127.0.0.1", 0), Accept)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/"


class Accept(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.before:
            self.server.before(self.headers)
        self.server.calls.put(self.headers)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"accepted")

    def log_message(self, *args):
        pass


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def door(serving):
    return serving(door=True)


def add(db, receiver, **columns):
    return db.add(kind="http", command=receiver.url, args={"await": True, "body": "{}"}, **columns)


def post(url, body):
    """What a receiver does: (status, answer)."""
    request = urllib.request.Request(url, data=body if isinstance(body, bytes) else json.dumps(body).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.load(e)


def awaits(db, task):
    db.wait("select exists (select from pgrab.waits where id = %s and waits_for = '(answer)')", task)


def test_a_receiver_calls_back(db, nodes, receiver, door):
    nodes.start(allow="http,noop", http_slots=1, workers=1, callback_url=door.url)
    db.query("insert into pgrab.limit (key, max_running) values ('one', 1)")
    tasks = [add(db, receiver, limit_key="one", stall_after="10 minutes") for _ in range(3)]
    child = db.add(kind="noop", parent_id=tasks[0])
    calls = [receiver.calls.get(timeout=20) for _ in tasks]  # one slot, and one place: nobody holds either while they wait
    for task in tasks:
        awaits(db, task)
    assert db.one("select count(*) from pgrab.hold") == 0 or db.one("select running from pgrab.node") == 0
    urls = {int(c["Pgrab-Task"]): c["Pgrab-Callback"] for c in calls}
    assert sorted(urls) == sorted(tasks) and all(urls[t].startswith(f"{door.url}/callback/{t}/") for t in tasks)
    assert db.one("select pgrab.why(%s)", tasks[0]) == "waits for the answer to its request"
    assert post(urls[tasks[0]], {"progress": 40, "text": "half"}) == (200, {"status": "waiting"})
    assert db.one("select progress from pgrab.waits where id = %s", tasks[0]) == 40
    assert post(urls[tasks[0]], {"outcome": "succeeded", "output": {"n": 1}}) == (200, {"status": "succeeded"})
    run = db.wait_run(tasks[0])
    assert (run.outcome, json.loads(run.output), run.node, run.attempt) == ("succeeded", {"n": 1}, "n1", 1)
    assert db.wait_run(child).outcome == "succeeded"
    # what comes late or twice, is forged, or is no answer changes nothing
    assert post(urls[tasks[0]], {"outcome": "failed"})[0] == 410
    assert post(urls[tasks[1]][:-1] + ("0" if urls[tasks[1]][-1] != "0" else "1"), {"outcome": "failed"})[0] == 401
    assert post(urls[tasks[1]].replace(f"/{tasks[1]}/", f"/{tasks[2]}/"), {"outcome": "failed"})[0] == 401
    for bad in b"", b"x", b"[]", b"{\"outcome\": \"lost\"}", b"{\"a\": \"\\u0000\"}", b"[" * 100000:
        assert post(urls[tasks[1]], bad)[0] == 400, bad
    assert post(f"{door.url}/callback/x/y", {})[0] == 404
    for path in "/", "/api/v1/tasks", "/metrics", "/readyz", f"/callback/{tasks[1]}":
        assert door.get(path).status == 404, path
    assert door.get(urls[tasks[1]].removeprefix(door.url)).status == 405
    with socket.create_connection(("127.0.0.1", door.port), timeout=20) as s:
        s.sendall(f"POST {urls[tasks[1]].removeprefix(door.url)} HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 413")
    assert [db.one("select status from pgrab.task where id = %s", t) for t in tasks[1:]] == ["waiting", "waiting"]
    assert db.one("select pgrab.resolve(%s, %s, '{\"outcome\": \"failed\", \"error\": \"no\"}')", tasks[1], urls[tasks[1]].rsplit("/", 1)[1]) == "failed"
    assert (db.wait_run(tasks[1]).outcome, db.wait_run(tasks[1]).error) == ("failed", "no")
    assert not any(u.rsplit("/", 1)[1] in door.log() for u in urls.values()), "no token is in the log"


def test_a_person_answers_for_a_receiver_that_will_not(db, nodes, receiver, serving):
    nodes.start(allow="http", callback_url="http://127.0.0.1:9")
    tasks = [add(db, receiver, key=f"t{i}", max_attempts=1) for i in range(4)]
    for task in tasks:
        awaits(db, task)
    said = json.loads(run_pgrab("resolve", "t0", "succeeded", '{"n": 1}', "--json", dsn=db.dsn).stdout)
    assert said == [{"id": tasks[0], "name": "t0", "kind": "http", "outcome": "succeeded"}]
    assert json.loads(db.wait_run(tasks[0]).output) == {"n": 1}
    assert "failed" in run_pgrab("resolve", "t1", "failed", "out of paper", dsn=db.dsn).stdout
    assert db.wait_run(tasks[1]).error == "out of paper"
    assert run_pgrab("resolve", "t2", "lost", dsn=db.dsn, check=False).returncode == 1
    again = run_pgrab("resolve", "t1", "failed", dsn=db.dsn, check=False)
    assert again.returncode == 1 and f"task {tasks[1]} (t1) is parked" in again.stderr
    serve = serving()
    assert serve.api("POST", "/tasks/t2/answer", {"progress": 5})["outcome"] == "waiting"
    assert serve.api("POST", "/tasks/t2/answer", {"outcome": "succeeded", "output": [1]})["outcome"] == "succeeded"
    assert json.loads(db.wait_run(tasks[2]).output) == [1]
    serve.api("POST", "/tasks/t1/answer", {"outcome": "succeeded"}, status=409)
    visitor = Visitor(serve)
    page = visitor.get(f"/tasks/{tasks[3]}").words
    assert "answer: failed" in page and "send signal" not in page
    visitor.post(f"/tasks/{tasks[3]}/answer", {"outcome": "failed", "text": "no", "back": "/tasks"})
    assert db.wait_run(tasks[3]).error == "no"
    assert "answer: failed" not in visitor.get(f"/tasks/{tasks[3]}").words
    batch = db.add(kind="batch", command="")
    assert "send signal" not in visitor.get(f"/tasks/{batch}").words, "(members) is no signal"
    assert sorted(db.query("select task_id from pgrab.event where what = 'resolve'")) == sorted((t,) for t in [*tasks, tasks[2]])


def test_without_a_door_only_sql_answers_and_the_node_says_so(db, nodes, receiver):
    node = nodes.start(allow="http")
    tasks = [add(db, receiver) for _ in range(2)]
    calls = [receiver.calls.get(timeout=20) for _ in tasks]
    assert all("Pgrab-Token" in c and "Pgrab-Callback" not in c for c in calls)
    for call in calls:
        assert db.one("select pgrab.resolve(%s, %s, '{\"outcome\": \"succeeded\"}')", int(call["Pgrab-Task"]), call["Pgrab-Token"]) == "succeeded"
    assert node.log().count("no_callback_url") == 1


def test_an_answer_may_be_quicker_than_the_node(db, nodes, receiver, door):
    """The receiver calls back before it has accepted: that counts, and what the node then says does not."""
    said = []
    receiver.before = lambda headers: said.append(post(headers["Pgrab-Callback"], {"outcome": "succeeded", "output": "quick"}))
    node = nodes.start(allow="http", callback_url=door.url)
    task = add(db, receiver)
    run = db.wait_run(task)
    wait_until(lambda: said, 10, "the receiver to have the answer to its answer")
    assert (run.outcome, run.output, said) == ("succeeded", "quick", [(200, {"status": "succeeded"})])
    db.wait("select running = 0 and in_hand = 0 from pgrab.node")
    assert len(db.runs(task)) == 1 and "stale_finish" not in node.log()


def test_the_wait_outlives_its_node_and_ends_with_its_timeout(db, nodes, receiver, door):
    node = nodes.start("a", allow="http", callback_url=door.url)
    kept, late = add(db, receiver), add(db, receiver, timeout="20 s", delivery="at_most_once")
    refused = db.add(kind="http", command=receiver.url, args={"await": True, "expect": "201", "body": "{}"}, max_attempts=1)
    urls = {}
    while len(urls) < 3:
        call = receiver.calls.get(timeout=20)
        urls[int(call["Pgrab-Task"])] = call["Pgrab-Callback"]
    assert "202" in db.wait_run(refused).error, "what is not expected is not accepted"
    awaits(db, kept), awaits(db, late)
    node.kill9()
    nodes.start("b", allow="http")
    db.wait("select state = 'down' from pgrab.node where name = 'a'", timeout=40)
    db.wait("select not exists (select from pgrab.hold)", timeout=20)
    assert db.one("select status from pgrab.task where id = %s", kept) == "waiting" and db.runs(kept) == []
    db.query("update pgrab.wait set until = now() where task_id = %s", late)
    db.query("notify pgrab, 'waits'")
    run = db.wait_run(late, timeout=20)
    assert (run.outcome, run.node) == ("timed_out", "a")
    assert db.one("select status from pgrab.task where id = %s", late) == "parked", "at_most_once: it is not tried again"
    assert post(urls[late], {"outcome": "succeeded"})[0] == 410
    assert post(urls[kept], {"outcome": "succeeded"}) == (200, {"status": "succeeded"})
    assert db.wait_run(kept).node == "a" and receiver.calls.empty()


def test_replies_that_are_lost_change_nothing(db, nodes, receiver, serving, proxy):
    """Of the report that a request was accepted: it is made again.  Of an answer: the receiver sends it again, and hears that it is over."""
    door = serving(door=True, dsn=proxy.dsn)
    proxy.until = b"pgrab_internal.finish("
    nodes.start(allow="http", dsn=proxy.dsn, callback_url=door.url)
    task = add(db, receiver)
    url = receiver.calls.get(timeout=20)["Pgrab-Callback"]
    awaits(db, task)
    wait_until(lambda: proxy.until is None, 20, "a reply to be lost")
    db.wait("select in_hand = 0 from pgrab.node", timeout=20)
    assert db.one("select status from pgrab.task where id = %s", task) == "waiting" and db.runs(task) == []
    proxy.until = b"pgrab.resolve("
    assert post(url, {"outcome": "succeeded", "output": "once"})[0] == 503
    db.wait_run(task)
    assert post(url, {"outcome": "succeeded", "output": "twice"})[0] == 410
    assert [(r.outcome, r.output) for r in db.runs(task)] == [("succeeded", "once")]


@pytest.mark.deadline(60 + float(os.environ.get("PGRAB_ATTACK_S", "4")))
def test_no_answer_is_forged(db, serving):
    """For longer: PGRAB_ATTACK_S=3600 scripts/test system tests/system/test_answers.py -k forged; PGRAB_ATTACK_SEED repeats one."""
    door = serving(door=True, rate=1000000)
    attack = Attack(db, door.port, os.environ.get("PGRAB_ATTACK_SEED"))
    tried = attack.go(float(os.environ.get("PGRAB_ATTACK_S", "4")))
    print(f"seed {attack.seed}: {tried} forgeries")
    assert sum(tried.values()) > 20 and set(tried) <= {400, 401, 404, 410}, tried
    task, token = attack.open[0]
    assert post(f"{door.url}/callback/{task}/{token}", {"outcome": "succeeded"})[0] == 200, "the right one is taken"
