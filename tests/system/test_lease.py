"""A run never outlives the lease of its node, whatever the node's heartbeat is stuck in."""
import http.server
import os
import select
import socket
import subprocess
import threading
import time

import pytest
from cluster import pgrab_bin, wait_until
from faulty import FrozenThread
from proxy import Proxy

class Server:
    """Notes when each request comes and when its client has gone; answers when told to."""

    def __init__(self):
        self.requests = []
        self.answer = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                request = {"path": self.path, "came": time.monotonic(), "left": None}
                outer.requests.append(request)
                while not outer.answer.is_set():
                    if select.select([self.connection], [], [], 0.02)[0]:
                        request["left"] = time.monotonic()
                        return
                self.send_response(302 if self.path == "/redirect" else 200)
                self.send_header("Location", "/second")
                self.send_header("Content-Length", "0")
                self.end_headers()
                request["left"] = time.monotonic()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def wait(self, count):
        wait_until(lambda: len(self.requests) >= count, 15, f"{count} requests")

    def close(self):
        self.answer.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server():
    served = Server()
    yield served
    served.close()


def test_a_run_in_the_process_ends_with_the_lease_while_the_heartbeat_is_stuck(db, nodes, server):
    task = db.add(kind="http", command=server.url, backoff="0")
    stuck = nodes.start("n1", fence_after="2s", dead_after="6s")
    old = stuck.incarnation()
    server.wait(1)
    heartbeat = FrozenThread(stuck, "heartbeat")
    frozen_at = time.monotonic()
    nodes.start("n2", fence_after="2s", dead_after="6s")
    try:
        server.wait(2)  # another node has it now
        first, second = server.requests
        assert first["left"] is not None and first["left"] < second["came"], "never two at once"
        assert first["left"] - frozen_at < 3, "it ended with the lease, not by what came later"
        assert "event=fenced" not in stuck.log(), "the heartbeat had no part in it"
    finally:
        heartbeat.thaw()
    stuck.wait_log("event=fenced")
    db.wait("select incarnation <> %s and state = 'up' from pgrab.node where name = 'n1'", old)
    assert [r.outcome for r in db.runs(task)] == ["lost"]
    server.answer.set()
    assert db.wait_run(task, count=2).outcome == "succeeded"
    assert stuck.log().count("event=lease_over") == 1


def test_a_lease_that_ran_out_is_not_renewed_its_runs_go_back_at_once(db, nodes, server):
    task = db.add(kind="http", command=server.url, backoff="0")
    node = nodes.start("n1", fence_after="1s", dead_after="30s")
    old = node.incarnation()
    server.wait(1)
    heartbeat = FrozenThread(node, "heartbeat")
    wait_until(lambda: server.requests[0]["left"], 5, "the end of the first run")
    heartbeat.thaw()
    server.wait(2)
    assert [r.outcome for r in db.runs(task)] == ["lost"]
    assert node.incarnation() != old
    server.answer.set()
    assert db.wait_run(task, count=2).outcome == "succeeded"


def test_a_thawed_node_begins_nothing_new_for_a_run_whose_lease_is_over(db, nodes, server):
    db.add(kind="http", command=server.url + "redirect", args={"follow": True}, max_attempts=1)
    node = nodes.start("n1", fence_after="1s", dead_after="30s")
    server.wait(1)
    node.stop()
    wait_until(lambda: time.monotonic() > server.requests[0]["came"] + 1.5, 5, "the end of the lease")
    server.answer.set()  # a redirect
    wait_until(lambda: server.requests[0]["left"], 5, "the answer to be out")
    node.cont()
    db.wait("select count(*) = 1 from pgrab.run", timeout=15)
    assert [r["path"] for r in server.requests] == ["/redirect"]


def test_no_redirect_is_followed_for_a_run_whose_lease_is_over_though_nobody_says_so(db, nodes, server):
    db.add(kind="http", command=server.url + "redirect", args={"follow": True}, max_attempts=1)
    node = nodes.start("n1", fence_after="1s", dead_after="30s", log_level="debug")
    server.wait(1)
    frozen = [FrozenThread(node, "boss"), FrozenThread(node, "heartbeat")]
    wait_until(lambda: time.monotonic() > server.requests[0]["came"] + 1.5, 5, "the end of the lease")
    server.answer.set()  # a redirect, which the crew reads before anybody can tell it to stop
    wait_until(lambda: server.requests[0]["left"], 5, "the answer to be out")
    wait_until(lambda: "event=run task" in node.log(), 5, "the end of the run")
    for thread in frozen:
        thread.thaw()
    db.wait("select count(*) = 1 from pgrab.run", timeout=15)
    assert [r["path"] for r in server.requests] == ["/redirect"]


def test_leases_that_are_renewed_in_time_end_nothing(db, nodes):
    task = db.add(kind="sql", command="select pg_sleep(3)")
    node = nodes.start("n1", fence_after="500ms", heartbeat="100ms")
    assert db.wait_run(task).outcome == "succeeded"
    assert "event=lease_over" not in node.log() and "event=fenced" not in node.log()


STUCK_LOOKUP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");

	while (name != NULL && strcmp(name, "localhost") == 0 && access(getenv("STUCK_FILE"), F_OK) == 0)
		usleep(50000);
	return real(name, service, hints, res);
}
"""


@pytest.fixture
def resolver(tmp_path):
    """Looking up localhost takes as long as the file is there."""
    source, library, stuck = tmp_path / "stuck.c", tmp_path / "stuck.so", tmp_path / "stuck"
    source.write_text(STUCK_LOOKUP)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    env = {"LD_PRELOAD": library, "STUCK_FILE": stuck}
    yield stuck, env
    stuck.unlink(missing_ok=True)


def test_a_name_lookup_without_an_end_holds_up_neither_the_fence_nor_a_stop(db, nodes, server, resolver):
    stuck, env = resolver
    proxy = Proxy(db.dsn)
    task = db.add(kind="http", command=server.url, backoff="0")
    node = nodes.start("n1", dsn=proxy.dsn.replace("127.0.0.1", "localhost"), env=env)
    server.wait(1)
    stuck.touch()
    proxy.lose(b"pgrab")
    # The heartbeat itself sees the end of the lease, not only after the lookup, and does not come back while anything runs.
    node.wait_log("event=fenced(.|\n)*event=waiting for=lease", timeout=6)
    assert server.requests[0]["left"]
    node.term()
    assert node.wait_exit(timeout=15) in (0, 1)
    # Its keeper looks the name up for itself, and tells of the death.
    db.wait("select array_agg(outcome) = '{lost}' from pgrab.run where task_id = %s", task, timeout=20)
    proxy.close()


TWO_ADDRESSES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	struct addrinfo *second;

	if (name == NULL || strcmp(name, "two.example") != 0)
		return real(name, service, hints, res);
	if (real("127.0.0.2", service, hints, res) != 0 || real("127.0.0.1", service, hints, &second) != 0)
		return EAI_FAIL;
	(*res)->ai_next = second;
	return 0;
}
"""


def test_a_silent_address_does_not_keep_the_next_of_its_name_from_being_tried(db, nodes, tmp_path):
    source, library = tmp_path / "two.c", tmp_path / "two.so"
    source.write_text(TWO_ADDRESSES)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    proxy = Proxy(db.dsn)
    port = proxy.socket.getsockname()[1]
    with socket.create_server(("127.0.0.2", port)):  # it takes connections and says nothing
        node = nodes.start(dsn=proxy.dsn.replace("127.0.0.1", "two.example"), env={"LD_PRELOAD": library})
        assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"
        wrong = proxy.dsn.replace("127.0.0.1", "two.example").replace(f"dbname={db.name}", "dbname=nowhere")
        refused = subprocess.run([pgrab_bin(), "nodes", "--dsn", wrong], env={**os.environ, "LD_PRELOAD": library},
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert 'database "nowhere" does not exist' in refused.stderr
    node.term()
    assert node.wait_exit() == 0
    proxy.close()
