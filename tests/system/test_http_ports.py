"""A node in a network of its own, with few local ports."""
import os
import textwrap

import pytest

from cluster import conninfo, pgrab_bin

SERVER = textwrap.dedent("""\
    import http.server, socket, sys
    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_GET(self):
            if self.path == "/keeps":
                self.headers.replace_header("Connection", "keep-alive")
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
            if self.path == "/keeps":
                self.close_connection = False
    http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Answer).serve_forever()
    """)


@pytest.fixture
def few_ports(tmp_path):
    """A program that runs pgrab where 127.0.0.1:8080 answers and can be reached from 20 ports."""
    (tmp_path / "server.py").write_text(SERVER)
    inside = tmp_path / "inside"
    inside.write_text(f"""#!/bin/sh
ip link set lo up
echo 40000 40019 > /proc/sys/net/ipv4/ip_local_port_range
python3 {tmp_path}/server.py 2>/dev/null &
server=$!
until python3 -c "import socket; socket.create_connection(('127.0.0.1', 8080))" 2>/dev/null; do :; done
trap 'kill -TERM $node' TERM
{pgrab_bin()} "$@" &
node=$!
wait $node; wait $node; code=$?
kill $server
exit $code
""")
    outside = tmp_path / "outside"
    outside.write_text(f"#!/bin/sh\nexec unshare {'-n' if os.getuid() == 0 else '-rn'} {inside} \"$@\"\n")
    for program in (inside, outside):
        program.chmod(0o755)
    return str(outside)


@pytest.mark.deadline(60)
@pytest.mark.direct("the pooler is not in its network")
def test_runs_use_up_no_ports_and_a_lack_of_ports_costs_no_attempt(db, nodes, few_ports):
    if not conninfo.conninfo_to_dict(db.dsn)["host"].startswith("/"):
        pytest.skip("only a server's socket can be reached from another network")
    nodes.start("n1", binary=few_ports, wait=False, workers=4)
    db.wait("select exists (select from pgrab.node where state = 'up')", timeout=20)
    db.query("insert into pgrab.task (kind, command, max_attempts) select 'http', 'http://127.0.0.1:8080/closes', 1 from generate_series(1, 100)")
    db.wait("select not exists (select from pgrab.task)", timeout=30)
    assert db.query("select outcome, count(*) from pgrab.run group by 1") == [("succeeded", 100)]
    # A server that leaves it to the client to close uses up its ports.
    db.query("insert into pgrab.task (kind, command, max_attempts) select 'http', 'http://127.0.0.1:8080/keeps', 1 from generate_series(1, 40)")
    db.wait("select count(*) filter (where version > 1 and status = 'scheduled' and attempt = 0) > 0 from pgrab.task")
    assert not db.query("select from pgrab.run where outcome <> 'succeeded'")
    assert not db.query("select from pgrab.task where status = 'parked' or attempt > 1")
