"""pgrab serve: whoever asks acts with a role of the database, and may do what that may."""
import json
import os
import re
import socket
import subprocess
import sys

import pytest
from cluster import conninfo, wait_until
from serving import Serve
from test_serve_page import Visitor

ROLES = ("serve_reader", "serve_writer")


@pytest.fixture
def roles(cluster, db):
    """Two roles that may log in: one reads, one also inserts.  Both see the schema, as its owner grants it."""
    names = [f"{role}_{os.getpid()}" for role in ROLES]
    for name in names:
        cluster.superuser(f"drop role if exists {name}")
        cluster.superuser(f"create role {name} login")
        cluster.superuser(f"grant {name} to current_user, app" if has_role(db, "app") else f"grant {name} to current_user")
        db.query(f"grant usage on schema pgrab, pgrab_internal, pgrab_tool to {name}")
        db.query(f"grant select on all tables in schema pgrab to {name}")
        db.query(f"grant execute on all functions in schema pgrab, pgrab_internal, pgrab_tool to {name}")
        db.query(f"revoke all on pgrab.token from {name}")
    db.query(f"grant insert, update on pgrab.task to {names[1]}")
    yield names
    for name in names:
        cluster.superuser(f"drop owned by {name}", db.name)
        cluster.superuser(f"drop role {name}")


def has_role(db, name):
    return db.one("select exists (select from pg_roles where rolname = %s)", name)


def config(db, tmp_path, roles, **more):
    text = "auth = token\n"
    for role in roles:
        text += f"[role {role}]\ndsn = {conninfo.make_conninfo(db.dsn, user=role)}\n"
        text += "".join(f"{k} = {v}\n" for k, v in more.items())
    path = tmp_path / "serve.conf"
    path.write_text(text)
    return path


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def token_for(db, role, valid="1 day"):
    return db.one("select pgrab.token_add('test', %s, %s)", role, valid)


def test_a_task_has_no_rights_for_coming_from_this_machine(db, nodes, serving, tmp_path, roles):
    """Whoever may have http tasks may have a node ask: also by way of a redirect, and with a header of that name of its own."""
    serve = serving()
    nodes.start("n1", allow="http")
    api = f"{serve.url}/api/v1/pause-all"
    for args in ({"method": "POST"}, {"method": "POST", "headers": {"Pgrab-Fence": ""}}):
        run = db.wait_run(db.add(kind="http", command=api, args=args, max_attempts=1))
        assert (run.outcome, run.exit_code) == ("failed", 403) and not db.one("select paused from pgrab.cluster")
    for path in ("/api/v1/tasks", "/tasks", "/metrics"):
        run = db.wait_run(db.add(kind="http", command=serve.url + path, max_attempts=1))
        assert (run.outcome, run.exit_code) == ("failed", 403)
    assert db.wait_run(db.add(kind="http", command=f"{serve.url}/livez", max_attempts=1)).outcome == "succeeded"
    assert serve.get("/api/v1/tasks").status == 200
    known = serving(config=config(db, tmp_path, roles))
    token = {"headers": bearer(token_for(db, roles[0]))}
    assert db.wait_run(db.add(kind="http", command=f"{known.url}/api/v1/tasks", args=token, max_attempts=1)).outcome == "succeeded"


def test_a_token_acts_as_its_role(db, serving, tmp_path, roles):
    reader, writer = roles
    serve = serving(config=config(db, tmp_path, roles))
    tokens = {role: token_for(db, role) for role in roles}
    assert serve.get("/livez").status == 200 and serve.get("/readyz").status == 200
    for path in ("/api/v1/tasks", "/metrics"):
        refused = serve.get(path)
        assert refused.status == 401 and refused.headers["WWW-Authenticate"] == "Bearer"
        assert serve.get(path, headers=bearer("pgrab_" + "0" * 64)).status == 401
        assert serve.get(path, headers=bearer("' or true --")).status == 401
        assert serve.get(path, headers=bearer(tokens[reader])).status == 200
    refused = serve.ask("POST", "/api/v1/tasks", {"kind": "noop"}, headers=bearer(tokens[reader]))
    assert refused.status == 403 and "permission denied" in json.loads(refused.text)["detail"]
    made = serve.ask("POST", "/api/v1/tasks", {"kind": "noop"}, headers=bearer(tokens[writer]))
    assert made.status == 201, made
    assert db.one("select owner from pgrab.task") == writer
    wait_until(lambda: re.search(rf'status=201 bytes=\d+ ms=\d+\.\d role={writer}$', serve.log(), re.M), 5, "the log to name the role")
    assert not any(token in serve.log() for token in tokens.values())
    assert db.one("select count(*) from pgrab.token where last_used_at is not null") == 2


def test_tokens_end(db, serving, tmp_path, roles):
    serve = serving(config=config(db, tmp_path, roles[:1]))
    late, gone, other = token_for(db, roles[0], "-1 s"), token_for(db, roles[0]), token_for(db, roles[1])
    assert serve.get("/api/v1/nodes", headers=bearer(late)).status == 401
    assert serve.get("/api/v1/nodes", headers=bearer(gone)).status == 200
    db.query("delete from pgrab.token where hash = sha256(convert_to(%s, 'UTF8'))", gone)
    assert serve.get("/api/v1/nodes", headers=bearer(gone)).status == 401
    refused = serve.get("/api/v1/nodes", headers=bearer(other))
    assert refused.status == 403 and "[role NAME]" in json.loads(refused.text)["hint"]


def test_a_person_logs_in_with_a_token(db, serving, tmp_path, roles):
    serve = serving(config=config(db, tmp_path, roles))
    visitor = Visitor(serve)
    assert visitor.get("/tasks", 303).headers["Location"] == "/login"
    visitor.get("/login")
    visitor.post("/login", {"token": "no; token"}, status=400)
    answer = visitor.post("/login", {"token": token_for(db, roles[0])})
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Secure" not in cookie
    visitor.cookies["pgrab_token"] = cookie.split(";")[0].partition("=")[2]
    visitor.get("/tasks")
    visitor.post("/new", {"kind": "noop"}, status=403)
    out = visitor.post("/logout", {})
    assert "Max-Age=0" in out.headers["Set-Cookie"]


ASK = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1])
s.sendall(b"POST /api/v1/tasks HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Type: application/json\\r\\n"
          b"Content-Length: 15\\r\\n\\r\\n{\\"kind\\":\\"noop\\"}")
print(s.recv(100).decode().split()[1])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_users_of_the_unix_socket_have_their_role(db, serving, tmp_path, roles):
    path = f"/tmp/pgrab-serve-{os.getpid()}.sock"
    serve = serving(config=config(db, tmp_path, roles[1:], peers="nobody"), listen=f"unix:{path}")
    os.chmod(path, 0o777)
    ask = lambda: subprocess.run([sys.executable, "-c", ASK, path], capture_output=True, text=True, check=False,
                                 timeout=20).stdout.strip()
    assert ask() == "201"
    assert db.one("select owner from pgrab.task") == roles[1]
    serve.end()
    serving(listen=f"unix:{path}")
    os.chmod(path, 0o777)
    assert ask() == "403"


def test_another_machine_may_ask_only_with_tokens(db, tmp_path, roles):
    """An address that is not this machine's own is refused without auth = token, and taken with it."""
    serve = Serve(db, tmp_path, config=config(db, tmp_path, roles), listen="0.0.0.0:0".replace(":0", f":{free()}"))
    serve.end()


def free():
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        return s.getsockname()[1]
