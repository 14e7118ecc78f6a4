"""The example of docs/traces.md, followed as a new user would: from the request to its runs and what they took."""
import os
import subprocess
import sys
import urllib.request

import psycopg
from cluster import ROOT, wait_until
from serving import free_port
from test_handlers import block

PAGE = (ROOT / "docs/traces.md").read_text(encoding="utf-8")


def test_a_request_is_followed_to_what_it_took(db, nodes, tmp_path):
    nodes.start("n1", allow="sql,shell")
    port = free_port()
    (tmp_path / "web.py").write_text(block(PAGE, "python", "class Orders").replace("8000", str(port)))
    parts = psycopg.conninfo.conninfo_to_dict(db.dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD"}
    env = {**os.environ, **{names[k]: v for k, v in parts.items() if k in names}, "PGRAB_DSN": db.dsn, "PYTHONPATH": str(ROOT / "contrib/clients/python")}
    web = subprocess.Popen([sys.executable, tmp_path / "web.py"], env=env, stderr=subprocess.DEVNULL)
    try:
        def ask():
            request = urllib.request.Request(f"http://127.0.0.1:{port}", data=b"", method="POST", headers={
                "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
            try:
                return urllib.request.urlopen(request, timeout=10).status
            except urllib.error.URLError:
                return None
        wait_until(lambda: ask() == 202, 10, "an answer of web.py")
    finally:
        web.kill()
        web.wait()
    db.wait("select count(*) = 3 from pgrab.run")
    runs, usage = (db.query(text) for text in block(PAGE, "sql", "pgrab.usage").split(";")[:2])
    assert [(r.name, r.outcome) for r in runs] == [("order", "succeeded"), ("invoice", "succeeded"), ("mail", "succeeded")]
    assert runs[0].cpu_seconds is None and runs[1].cpu_seconds > 0 and runs[1].memory_bytes > 1 << 20
    assert {u.who: u.cpu_seconds for u in usage}.keys() == {"order", "invoice", "mail"} and all(u.cpu_seconds > 0 for u in usage if u.who != "order")
    assert db.one("select output like '00-4bf92f3577b34da6a3ce929d0e0e4736-%' from pgrab.run where name = 'mail'")
