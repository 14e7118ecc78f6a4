"""pgrab serve: probes, metrics, and what it does when clients or the database misbehave."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest
from cluster import clean_env, pgrab_bin, wait_until
from pooler import Pooler
from proxy import Proxy
from test_keeper import keeper_of


def samples(text):
    """name{labels} -> value"""
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines() if line and not line.startswith("#")}


def test_probes_and_headers(serving):
    serve = serving()
    live, ready = serve.get("/livez"), serve.get("/readyz")
    assert (live.status, live.text) == (200, "ok\n")
    assert ready.status == 200 and json.loads(ready.text) == {"database": "ok", "schema": "current"}
    assert "default-src 'none'" in live.headers["Content-Security-Policy"]
    assert serve.get("/livez", headers={"X-Request-Id": "abc-1"}).headers["X-Request-Id"] == "abc-1"
    assert serve.get("/livez", headers={"X-Request-Id": "a b\""}).headers["X-Request-Id"] != "a b\""
    head = serve.ask("HEAD", "/readyz")
    assert head.status == 200 and head.text == "" and int(head.headers["Content-Length"]) > 10
    wait_until(lambda: "id=abc-1 peer=127.0.0.1 method=GET path=\"/livez\" status=200" in serve.log(), 5, "the log")


def test_metrics_tell_of_nodes_and_runs(db, nodes, serving):
    serve = serving()
    first = samples(serve.get("/metrics").text)
    assert first['pgrab_nodes{state="up"}'] == 0
    nodes.start("n1")
    good = [db.add(kind="noop") for _ in range(5)]
    bad = db.add(kind="shell", command="exit 3", max_attempts=1)
    db.query("insert into pgrab.task (kind, wait_for) values ('noop', 'go'), ('noop', 'go'), ('batch', null)")
    for task in good + [bad]:
        db.wait_run(task)

    def counted():
        m = samples(serve.get("/metrics").text)
        return m if m.get('pgrab_runs_total{kind="shell",outcome="failed"}') else None
    m = wait_until(counted, 15, "the failed run to be counted", step=0.5)
    assert m['pgrab_runs_total{kind="noop",outcome="succeeded"}'] == 5
    assert m['pgrab_run_duration_seconds_count{kind="noop"}'] == 5
    assert m['pgrab_run_duration_seconds_bucket{kind="noop",le="+Inf"}'] == 5
    assert m["pgrab_start_delay_seconds_count"] == 6
    assert m["pgrab_parked_tasks"] == 1 and m["pgrab_failing_tasks"] == 1 and m["pgrab_due_tasks"] == 0
    assert m['pgrab_node_up{node="n1"}'] == 1 and m['pgrab_node_slots{node="n1"}'] == 8 + 64
    assert [m[f'pgrab_waiting_tasks{{for="{what}"}}'] for what in ("signal", "answer", "members")] == [2, 0, 1]
    again = samples(serve.get("/metrics").text)
    assert again['pgrab_runs_total{kind="noop",outcome="succeeded"}'] == 5, "a run is counted once"
    open_metrics = serve.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert open_metrics.text.endswith("# EOF\n") and "# TYPE pgrab_runs counter" in open_metrics.text
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")


def test_metrics_tell_what_only_a_node_knows(db, nodes, serving):
    """Its lease, its queues, its children and connections come with its heartbeats, and go with it."""
    serve = serving()
    node = nodes.start("n1")
    for _ in range(2):
        db.add(kind="shell", command="sleep 60")
    of_node = lambda: {name: value for name, value in samples(serve.get("/metrics").text).items() if 'node="n1"' in name}
    m = wait_until(lambda: (lambda m: m if m['pgrab_node_children{node="n1"}'] == 2 else None)(of_node()), 10, "two children", step=0.2)
    assert 0 < m['pgrab_node_lease_left_seconds{node="n1"}'] <= 14 and 0 < m['pgrab_node_round_trip_seconds{node="n1"}'] < 10
    assert 2 <= m['pgrab_node_connections{node="n1"}'] <= 10
    assert {m[f'pgrab_node_queue{{node="n1",queue="{queue}"}}'] for queue in ("start", "run", "finish")} == {0}
    assert m['pgrab_node_keepers_lost_total{node="n1"}'] == m['pgrab_node_log_dropped_total{node="n1"}'] == 0
    os.kill(keeper_of(node), signal.SIGKILL)
    wait_until(lambda: of_node()['pgrab_node_keepers_lost_total{node="n1"}'] == 1, 10, "the lost keeper to be counted", step=0.2)
    db.query("delete from pgrab.task")
    node.end()
    m = wait_until(lambda: (lambda m: m if m['pgrab_node_up{node="n1"}'] == 0 else None)(of_node()), 20, "n1 to be down", step=0.2)
    assert m['pgrab_node_keepers_lost_total{node="n1"}'] == 1
    assert not [name for name in m if "lease_left" in name or "queue" in name or "children" in name]


def test_metrics_count_handler_processes(db, nodes, serving, tmp_path):
    serve = serving()
    config = tmp_path / "pgrab.conf"
    config.write_text("[pool broken]\ncommand = /nowhere/python9\nkinds = a_kind\nprocesses = 2\n")
    nodes.start("n1", config=config)
    of_pool = lambda: {name: value for name, value in samples(serve.get("/metrics").text).items() if 'pool="broken"' in name}
    m = wait_until(lambda: (lambda m: m if m.get('pgrab_node_handlers_lost_total{node="n1",pool="broken"}', 0) >= 2 else None)(of_pool()),
                   10, "two that were lost", step=0.2)
    assert m['pgrab_node_handlers{node="n1",pool="broken"}'] == 0 and m['pgrab_node_handlers_wanted{node="n1",pool="broken"}'] == 2


def run_now(db, kind, times=1):
    """Just before the end of what the next /metrics counts."""
    db.query("""insert into pgrab.run (task_id, version, finished_at, started_at, created_at, attempt, outcome, kind, owner)
      select 1, n, clock_timestamp() - interval '4 s', now() - interval '4 s', '2026-01-01', 1, 'succeeded', %s, current_user
      from generate_series(1, %s) n""", kind, times)


def test_a_kind_keeps_the_name_under_which_it_is_counted(db, serving):
    """The kinds that have run first have one, however many are known; of more at once those with the most runs."""
    db.query("insert into pgrab.kind (kind, summary) select 'k' || n, '' from generate_series(10, 59) n union all select 'zebra', ''")
    serve = serving()
    serve.get("/metrics")

    def counted(total):
        found = {re.search('kind="(.*?)"', s)[1]: n for s, n in samples(serve.get("/metrics").text).items()
                 if s.startswith("pgrab_runs_total") and n > 0}
        return found if sum(found.values()) == total else None

    run_now(db, "zebra")
    assert wait_until(lambda: counted(1), 15, "the first run to be counted", step=0.5) == {"zebra": 1}
    for n in range(10, 60):
        run_now(db, f"k{n}", times=n)
    first = wait_until(lambda: counted(1 + sum(range(10, 60))), 15, "these to be counted", step=0.5)
    assert first == {"zebra": 1, "(others)": sum(range(10, 29)), **{f"k{n}": n for n in range(29, 60)}}
    run_now(db, "k10", times=500)
    run_now(db, "k59")
    run_now(db, "zebra")
    then = wait_until(lambda: counted(sum(first.values()) + 502), 15, "and these", step=0.5)
    assert then == {**first, "(others)": first["(others)"] + 500, "k59": 60, "zebra": 2}


def test_outcomes_that_cannot_be_written_show_as_a_queue(db, nodes):
    """The history is locked: what has ended waits in the node, whose heartbeats say so."""
    nodes.start("n1", workers=4)
    db.wait_run(db.add(kind="noop"))
    with db.connect(autocommit=False) as other:
        other.execute("lock table pgrab.run in access exclusive mode")
        db.query("insert into pgrab.task (kind, command) select 'shell', 'exit 0' from generate_series(1, 20)")
        db.wait("select to_finish > 0 from pgrab.node", timeout=20)
    db.wait("select to_finish = 0 and in_hand = 0 from pgrab.node", timeout=20)


def test_names_of_nodes_are_escaped(db, serving, nodes):
    nodes.start("n'{}<b>")
    text = serving().get("/metrics").text
    assert 'pgrab_node_up{node="n\'{}<b>"} 1' in text


@pytest.mark.deadline(120)
def test_metrics_of_many_tasks_are_cheap(db, serving):
    """300,000 that are due in one lane, 100,000 parked: counts stop, and say so."""
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() - interval '1 h' from generate_series(1, 300000)")
    db.query("insert into pgrab.task (kind, paused) select 'noop', true from generate_series(1, 100000)")
    db.query("analyze pgrab.task")
    serve = serving()
    serve.get("/metrics")
    begun = time.monotonic()
    m = samples(serve.get("/metrics").text)
    took = time.monotonic() - begun
    assert m["pgrab_counts_truncated"] == 1 and m["pgrab_due_tasks"] >= 20000 and m["pgrab_paused_tasks"] == 20000
    assert 350000 < m["pgrab_tasks_estimate"] < 450000
    assert m["pgrab_oldest_due_age_seconds"] > 3000
    assert took < 1.0, f"it took {took:.2f} s"


def test_lists_are_asked_for_once_a_second_and_after_each_change(db, serving):
    """What others change shows a little later, what is changed here at once."""
    serve = serving()
    keys = lambda: [limit["key"] for limit in serve.api("GET", "/limits")]
    for number in range(20):  # until the machine lets two questions be asked within half a second
        serve.api("DELETE", "/limits/other", status=404 if number == 0 else 200)
        begun = time.monotonic()
        assert keys() == []
        db.query("insert into pgrab.limit values ('other', 1, null)")
        seen = keys()
        if time.monotonic() - begun < 0.5:
            break
    assert seen == [], "the second question has the answer of the first"
    wait_until(lambda: keys() == ["other"], 10, "the other's limit to show", step=0.2)
    serve.api("PUT", "/limits/own", {"max_running": 2})
    assert keys() == ["other", "own"]
    serve.api("DELETE", "/limits/own")
    assert keys() == ["other"]


def test_refuses_other_hosts_methods_and_forms(serving):
    serve = serving(hosts="pgrab.example.org")
    assert serve.get("/livez", headers={"Host": "evil.example"}).status == 421
    assert serve.get("/livez", headers={"Host": "pgrab.example.org"}).status == 200
    refused = serve.ask("DELETE", "/api/v1/nodes")
    assert refused.status == 405 and refused.headers["Allow"] == "GET, HEAD"
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert serve.ask("POST", "/api/v1/tasks", "x=1", headers={"Content-Type": "text/plain"}).status == 415
    other = {"Origin": "http://evil.example", "Content-Type": "application/json"}
    assert serve.ask("POST", "/api/v1/tasks", '{"kind":"noop"}', headers=other).status == 403
    assert serve.ask("POST", "/api/v1/tasks", '{"kind":"noop"}',
                     headers={"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}).status == 403
    with serve.connect() as s:
        s.sendall(b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1100000\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 413")
    assert serve.get("/api/v1/tasks/%00").status == 404
    assert serve.get("/api/v1/tasks?limit=0").status == 400
    assert serve.get("/api/v1/tasks?colour=red").status == 400


@pytest.mark.parametrize("sent, status", [
    (b"GET /livez HTTP/1.1\r\n\r\n", b"421"),  # no Host
    (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20000 + b"\r\n\r\n", b"400"),
    (b"\x16\x03\x01\x02\x00garbage\r\n\r\n", b"400"),
    (b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", b"400"),
    (b"GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
    (b"BREW /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"501"),
])
def test_garbage_gets_an_answer_or_the_door(serving, sent, status):
    serve = serving()
    with serve.connect() as s:
        s.sendall(sent)
        got = s.recv(4096)
        assert got == b"" or got.split(b" ")[1] == status or got.startswith(b"HTTP/1.1 400"), got
    assert serve.get("/livez").status == 200


@pytest.mark.parametrize("headers", [
    "Content-Length: 2\r\nContent-Length: 40",
    "Content-Length: 2\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding:\r\n chunked\r\nContent-Length: 2",
    "Content-Length: 2\r\nHost: elsewhere",
])
def test_a_request_that_can_be_read_in_two_ways_is_refused(serving, headers):
    serve = serving()
    with serve.connect() as s:
        s.sendall(f"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n{{}}GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        got = b""
        while part := s.recv(4096):
            got += part
    assert got.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413")) and b"200 OK" not in got, got


@pytest.mark.parametrize("method", ["HEAD", "GET", "DELETE", "OPTIONS", "PATCH", "TRACE"])
@pytest.mark.parametrize("length", ["Content-Length: {}", "Content-Length : {}", "content-length\t: {}", "Transfer-Encoding: chunked"])
def test_a_body_is_no_request_whatever_the_method(serving, db, method, length):
    task = db.add(kind="noop", run_at="2099-01-01")
    inner = f"POST /api/v1/tasks/{task}/cancel HTTP/1.1\r\nHost: localhost\r\nX-Ignored: 1\r\n\r\n"
    body = f"{len(inner):x}\r\n{inner}\r\n0\r\n\r\n" if "chunked" in length else inner
    serve = serving()
    with serve.connect() as s:
        s.sendall(f"{method} /livez HTTP/1.1\r\nHost: localhost\r\n{length.format(len(body))}\r\n\r\n{body}"
                  "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        got = b""
        while part := s.recv(4096):
            got += part
    assert got.count(b"HTTP/1.1 ") <= 2, got
    assert db.one("select status from pgrab.task where id = %s", task) == "scheduled"


@pytest.mark.parametrize("host, status", [("localhost:1@evil", 421), ("[::1]:1@evil", 421), ("127.0.0.1:8080x", 421), ("localhost:", 200),
                                          ("[::1]:8080", 200)])
def test_a_host_with_more_behind_its_port_is_another(serving, host, status):
    assert serving().get("/livez", headers={"Host": host}).status == status


def test_one_address_does_not_take_all_connections(serving):
    serve = serving(clients=40)
    theirs = [serve.connect() for _ in range(120)]
    with socket.create_connection(("127.0.0.1", serve.port), timeout=5, source_address=("127.0.0.2", 0)) as s:
        s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    assert serve.get("/readyz", timeout=20).status == 200, "connections to the database are nobody's share"
    for s in theirs:
        s.close()


def test_one_address_does_not_take_all_streams_of_events(serving):
    serve = serving()
    listening = [serve.connect() for _ in range(36)]
    for s in listening:
        s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    got = [s.recv(4096).split(b" ")[1] for s in listening]
    assert sorted(got) == [b"200"] * 32 + [b"503"] * 4
    with socket.create_connection(("127.0.0.1", serve.port), timeout=5, source_address=("127.0.0.2", 0)) as s:
        s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    for s in listening:
        s.close()


def make_slow(db, seconds):
    """A list with `since` takes so long."""
    db.query(f"""create or replace function pgrab_tool.moment(p_text text) returns timestamptz language plpgsql stable as
                 $$ begin perform pg_sleep_until(now() + interval '{seconds} s') where p_text is not null; return null; end $$""")


def test_probes_wait_for_nobody(db, serving):
    serve = serving()
    make_slow(db, 4)
    with contextlib.ExitStack() as stack:
        for n in range(30):
            s = stack.enter_context(serve.connect())
            s.sendall(f"GET /api/v1/runs?since=1h&name={n} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        db.wait("select count(*) = 4 from pg_stat_activity where application_name = 'pgrab serve' and wait_event = 'PgSleep'")
        begun = time.monotonic()
        assert serve.get("/readyz").status == 200
        assert time.monotonic() - begun < 1


def test_the_time_of_the_database_is_not_the_clients(db, serving):
    """A request may take as long as `timeout` says, also if that is longer than a client has for its part of it."""
    serve = serving(timeout="30s")
    make_slow(db, 11)
    assert serve.api("GET", "/runs?since=1h") == []


@pytest.mark.parametrize("through", ["itself", "a pooler"])
def test_the_server_ends_what_takes_longer_than_timeout(db, serving, tmp_path, through):
    with contextlib.ExitStack() as stack:
        pooler = Pooler(db, tmp_path) if through == "a pooler" else None
        if pooler:
            stack.callback(pooler.end)
        serve = serving(dsn=pooler and pooler.dsn, timeout="2s")
        make_slow(db, 60)
        assert serve.get("/api/v1/runs?since=1h").status == 503
        db.wait("select count(*) = 0 from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'", timeout=3)
        assert serve.get("/api/v1/runs").status == 200


def test_slow_clients_hold_up_nobody_and_are_shut(serving):
    """Thirty that have begun a request; others are answered. One sends a byte now and then, and is shut all the same."""
    serve = serving(clients=60)
    slow = []
    for _ in range(30):
        s = serve.connect()
        s.sendall(b"GET /livez HTTP/1.1\r\nHost: local")
        slow.append(s)

    def shut():
        assert serve.get("/livez", timeout=5).status == 200
        try:
            slow[0].sendall(b"h")
            slow[0].settimeout(0.2)
            return slow[0].recv(100) == b""
        except TimeoutError:
            return False
        except OSError:
            return True
    begun = time.monotonic()
    wait_until(shut, 20, "the slow client to be shut", step=0.5)
    assert time.monotonic() - begun > 8
    for s in slow:
        s.close()


def test_more_clients_than_there_may_be_wait(serving):
    """A hundred idle connections where there may be eight: the rest is let in when the first have been idle too long."""
    serve = serving(clients=8)
    idle = [serve.connect() for _ in range(100)]
    fds = len(os.listdir(f"/proc/{serve.proc.pid}/fd"))
    assert fds < 8 + 64 + 10, f"{fds} descriptors are open"
    assert serve.get("/livez", timeout=20).status == 200
    for s in idle:
        s.close()


def test_requests_sent_ahead_are_answered_in_order(serving):
    serve = serving()
    with serve.connect() as s:
        for path in ("/api/v1/overview", "/livez", "/api/v1/nodes", "/livez"):
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a{path[-1]}\r\n\r\n".encode())
        got = b""
        while got.count(b"HTTP/1.1 200") < 4 or not got.endswith(b"ok\n"):
            part = s.recv(65536)
            assert part, got
            got += part
        assert re.findall(rb"X-Request-Id: (\w+)", got) == [b"aw", b"az", b"as", b"az"]


def test_a_client_that_goes_while_it_is_answered_harms_nothing(serving):
    serve = serving()
    for _ in range(100):
        with serve.connect() as s:
            s.sendall(b"GET /api/v1/overview HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
    assert serve.get("/readyz").status == 200


def test_too_many_requests_of_one_client(serving):
    serve = serving(rate=10)
    statuses = [serve.get("/livez").status for _ in range(60)]
    assert 429 in statuses and statuses.count(200) >= 8


def test_a_silent_database_makes_requests_fail_not_wait(db, serving):
    with contextlib.closing(Proxy(db.dsn)) as proxy:
        serve = serving(dsn=proxy.dsn, timeout="500ms", connections=2)
        assert serve.get("/readyz").status == 200
        proxy.silent = True
        begun = time.monotonic()
        assert serve.get("/readyz").status == 503
        assert time.monotonic() - begun < 4
        assert serve.get("/livez").status == 200
        refused = serve.get("/api/v1/overview")
        assert refused.status == 503 and refused.headers["Retry-After"] == "1"
        proxy.silent = False
        wait_until(lambda: serve.get("/readyz").status == 200, 15, "serve to find the database again", step=0.2)


@pytest.mark.private_server
def test_a_restart_of_the_database_is_survived(db, serving):
    serve = serving(timeout="1s")
    assert serve.get("/readyz").status == 200
    db.cluster.pg_stop()
    answer = serve.get("/api/v1/nodes")
    assert answer.status == 503 and "hint" in json.loads(answer.text)
    db.cluster.pg_start()
    wait_until(lambda: serve.get("/readyz").status == 200, 15, "serve to find the database again", step=0.2)


def test_unix_socket_knows_its_peer(serving, tmp_path):
    path = f"/tmp/pgrab-serve-{os.getpid()}.sock"
    serve = serving(listen=f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(path)
        s.sendall(b"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    wait_until(lambda: f"peer=uid:{os.geteuid()} " in serve.log(), 5, "the log to name the peer")
    serve.end()
    assert not os.path.exists(path)


@pytest.mark.parametrize("args, says", [
    (["--listen", "0.0.0.0:8080"], "can be reached from other machines"),
    (["--listen", "localhost:8080"], "is not an address"),
    (["--listen", "unix:relative"], "begins with /"),
    (["--listen", ""], "no address"),
    (["--conections", "3"], "did you mean --connections?"),
])
def test_settings_that_cannot_be(args, says):
    done = subprocess.run([pgrab_bin(), "serve", *args], capture_output=True, text=True, timeout=20, env=clean_env(),
                          check=False)
    assert done.returncode == 2 and says in done.stderr


def test_a_taken_port_is_said(db, serving):
    serve = serving()
    done = subprocess.run([pgrab_bin(), "serve", "--dsn", db.dsn, "--listen", f"127.0.0.1:{serve.port}"],
                          capture_output=True, text=True, timeout=20, env=clean_env(), check=False)
    assert done.returncode == 1 and "Address already in use" in done.stderr
