"""The receiver in docs/waiting.md, in Python and by curl, as it stands there."""
import http.server
import os
import subprocess
import sys
import threading

import pytest
from serving import Serve, free_port
from test_handlers import ROOT, block

PAGE = (ROOT / "docs/waiting.md").read_text(encoding="utf-8")
INSERT = block(PAGE, "sql", "'thumbnails'")


@pytest.fixture
def url(db, nodes, tmp_path):
    door = Serve(db, tmp_path, door=True)
    nodes.start(allow="http", callback_url=door.url)
    yield door.url
    door.end()


def test_the_receiver_in_python(db, url, tmp_path):
    port = free_port()
    (tmp_path / "thumbnails.py").write_text(block(PAGE, "python", "def carry_out").replace("9000", str(port)))
    receiver = subprocess.Popen([sys.executable, tmp_path / "thumbnails.py"])
    try:
        db.query(INSERT.replace("9000", str(port)))
        db.wait("select exists (select from pgrab.run where outcome = 'succeeded' and output = '{\"thumbnails\": 21}')", timeout=40)
    finally:
        receiver.terminate()
        receiver.wait(10)


def test_the_answer_by_curl(db, url):
    class Accept(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            os.environ["CALLBACK"] = self.headers["Pgrab-Callback"]
            self.send_response(202)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Accept)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        db.query(INSERT.replace("9000", str(server.server_port)))
        db.wait("select exists (select from pgrab.waits)", timeout=20)
        beat, answer = block(PAGE, "sh", '"$CALLBACK"').splitlines()
        assert subprocess.check_output(["sh", "-c", beat.replace("curl", "curl -s")], text=True) == '{"status":"waiting"}\n'
        assert db.one("select progress::text || progress_text from pgrab.waits") == "40page 8"
        assert subprocess.check_output(["sh", "-c", answer.replace("curl", "curl -s")], text=True) == '{"status":"succeeded"}\n'
        db.wait("select exists (select from pgrab.run where outcome = 'succeeded' and output = '{\"thumbnails\": 21}')")
    finally:
        os.environ.pop("CALLBACK", None)
        server.shutdown()
        server.server_close()
