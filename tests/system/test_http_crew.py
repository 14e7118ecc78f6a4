"""Tasks of kind http have a thread and slots of their own, beside the workers."""
import http.server
import threading

import pytest
from cluster import wait_until


class Slow(http.server.ThreadingHTTPServer):
    """Answers /slow when the gate is open, and everything else at once."""
    daemon_threads, request_queue_size = True, 128

    def __init__(self):
        self.gate, self.lock, self.inside, self.most = threading.Event(), threading.Lock(), 0, 0
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}{path}"

    def count(self, change):
        with self.lock:
            self.inside += change
            self.most = max(self.most, self.inside)


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            self.server.count(1)
            self.server.gate.wait(60)
            self.server.count(-1)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


@pytest.fixture
def slow():
    server = Slow()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()


def add(db, server, count=1, path="/slow", **columns):
    return [db.add(kind="http", command=server.url(path), **columns) for _ in range(count)]


def test_slow_requests_take_no_worker_and_no_more_than_their_slots(db, nodes, slow):
    nodes.start(workers=1, http_slots=30)
    tasks = add(db, slow, 40)
    wait_until(lambda: slow.inside == 30, 20, "30 requests at once")
    assert db.wait_run(db.add(kind="shell", command="true"), timeout=10).outcome == "succeeded"
    said = "select detail from pgrab.explain(%s) where gate like 'node %%'"
    wait_until(lambda: db.one(said, tasks[-1]) == "Busy: 30 of 30.", 15, "explain to say so")
    assert db.one("select crews -> 'http' from pgrab.node") == [30, 30] and db.one("select slots from pgrab.node") == 31
    slow.gate.set()
    for task in tasks:
        assert db.wait_run(task, timeout=20).outcome == "succeeded"
    assert slow.most == 30 and db.one("select count(*) from pgrab.run where attempt <> 1") == 0


def test_each_request_has_its_own_timeout_and_its_own_cancel(db, nodes, slow):
    nodes.start()
    short, long = add(db, slow, timeout="1 s", max_attempts=1), add(db, slow)
    wait_until(lambda: slow.inside >= 2, 10, "both requests")
    run = db.wait_run(short[0], timeout=10)
    assert (run.outcome, "timed out while waiting for 127.0.0.1" in run.error) == ("timed_out", True)
    db.query("select pgrab.cancel(%s)", long[0])
    run = db.wait_run(long[0], timeout=10)
    assert (run.outcome, "cancelled while waiting for 127.0.0.1" in run.error) == ("cancelled", True)
    assert db.wait_run(add(db, slow, path="/quick")[0]).outcome == "succeeded"


def test_what_waits_for_a_slot_goes_back_when_the_node_stops(db, nodes, slow):
    """None has lost an attempt, and another node runs all of them."""
    first = nodes.start("n1", http_slots=2, drain_timeout="60s")
    tasks = add(db, slow, 6)
    wait_until(lambda: slow.inside == 2, 10, "two requests")
    first.proc.terminate()
    db.wait("select count(*) = 4 from pgrab.task where status = 'scheduled' and attempt = 0", timeout=20)
    nodes.start("n2")
    wait_until(lambda: slow.inside == 6, 20, "the others on the other node")
    slow.gate.set()
    for task in tasks:
        run = db.wait_run(task, timeout=20)
        assert (run.outcome, run.attempt) == ("succeeded", 1)


def test_a_pool_of_that_name_is_refused(db, nodes, tmp_path):
    conf = tmp_path / "node.conf"
    conf.write_text("[pool http]\ncommand = cat\nkinds = a\n")
    node = nodes.start(config=str(conf), wait=False)
    node.proc.wait(20)
    assert "the crew of kind http has that name" in node.log()
