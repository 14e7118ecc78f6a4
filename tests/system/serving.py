"""A real `pgrab serve`, and a client for it."""
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import namedtuple
from pathlib import Path

from cluster import ROOT, clean_env, pgrab_bin, wait_until

sys.path.append(str(ROOT / "src/serve"))
import routes  # noqa: E402

DOC = routes.document(json.loads((ROOT / "src/serve/routes.json").read_text()),
                      routes.definition((ROOT / "migrations/0001_schema.sql").read_text()))
Answer = namedtuple("Answer", "status headers text")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Serve:
    """serve = Serve(db, folder, timeout='1s'); serve.get('/livez').  Options are its flags; door: it is the door of callbacks."""

    def __init__(self, db, folder, dsn=None, door=False, **options):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = Path(folder) / f"serve.{self.port}.log"
        listen = options.pop("listen", None)
        command = [pgrab_bin(), "serve", "--dsn", dsn or db.dsn,
                   "--callback-listen" if door else "--listen", f"127.0.0.1:{self.port}" + (f",{listen}" if listen else "")]
        for key, value in options.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        with open(self.log_path, "wb") as log:
            self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         env=clean_env(), start_new_session=True)
        wait_until(self.is_up, 10, "pgrab serve to answer")

    def is_up(self):
        assert self.proc.poll() is None, f"pgrab serve ended with {self.proc.returncode}:\n{self.log()}"
        try:
            return self.get("/livez").status == 200
        except OSError:
            return False

    def log(self):
        return self.log_path.read_text(errors="replace")

    def ask(self, method, path, body=None, headers=None, timeout=20):
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, method=method, headers=headers,
                                         data=body.encode() if body is not None else None)
        try:
            with OPENER.open(request, timeout=timeout) as reply:
                return Answer(reply.status, reply.headers, reply.read().decode())
        except urllib.error.HTTPError as e:
            with e:
                return Answer(e.code, e.headers, e.read().decode())

    def get(self, path, **kw):
        return self.ask("GET", path, **kw)

    def api(self, method, path, body=None, status=200, **kw):
        """The JSON of an answer, whose status must be as said."""
        answer = self.ask(method, "/api/v1" + path, body, **kw)
        assert answer.status == status, answer
        return json.loads(answer.text)

    def connect(self):
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def end(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        try:
            code = self.proc.wait(15)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise AssertionError("pgrab serve did not end within 15 s of a SIGTERM") from None
        assert code == 0, f"pgrab serve ended with {code}:\n{self.log()}"


def quote(text):
    return urllib.parse.quote(text, safe="")
