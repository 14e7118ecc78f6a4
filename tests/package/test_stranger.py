"""A stranger on a fresh Debian does what docs/first-day.md says, word for word, and nothing else.

Only addresses are others: the database, the webhook.  There is no systemd in the clean root, so what systemctl would do with the unit
is done here.
"""
import http.server
import json
import re
import shlex
import shutil
import socket
import threading

import pytest
from cluster import ROOT, wait_until
from psycopg import conninfo

pytestmark = pytest.mark.deadline(400)

CRONTAB = """\
# m h dom mon dow command
MAILTO=ops@example.org
PATH=/usr/local/bin:/usr/bin:/bin
30 2 * * * /srv/backup.sh --full
*/15 * * * * /srv/check-disk.sh / 90
0 6 * * 1-5 /srv/report.sh | /usr/bin/env cat > /tmp/report.txt
@daily /srv/rotate.sh
5 4 * * sun /srv/weekly.sh%first line%second line
@hourly /usr/bin/env true
"""


class Webhook(http.server.BaseHTTPRequestHandler):
    told = []

    def do_POST(self):
        self.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def webhook():
    Webhook.told.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hooks/abc"
    server.shutdown()
    server.server_close()


class Stranger:
    """Types the page's blocks into one shell of root."""

    def __init__(self, debian, replace):
        self.debian, self.node = debian, None
        page = (ROOT / "docs/first-day.md").read_text()
        for old, new in replace.items():
            assert old in page
            page = page.replace(old, new)
        self.sections = {title: re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
                         for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, re.M | re.S)}
        debian.path("/tmp/session").write_text("")

    def systemctl(self, words):
        verb, unit = words[1], words[-1]
        assert unit == "pgrab@main" and verb in ("enable", "restart"), words
        if verb == "restart":
            assert self.debian.stop(self.node) == 0
        self.node = self.debian.node("main")

    def type(self, text):
        return self.debian.run(f". /tmp/session; cd /srv\n{text}\nexport -p > /tmp/session").stdout

    def do(self, section):
        """What the section's blocks print."""
        out, lines = "", []
        for line in "\n".join(self.sections[section]).split("\n") + [None]:
            if line is not None and not line.startswith("systemctl "):
                lines.append(line)
                continue
            out += self.type("\n".join(lines))
            lines = []
            if line:
                self.systemctl(shlex.split(line))
        return out


def test_the_first_day(fresh_debian, deb, older_deb, db, cluster, webhook):
    empty = cluster.create_database(template="template0")
    dsn = conninfo.make_conninfo(cluster.dsn_of(empty), host="127.0.0.1")
    debian = fresh_debian
    # What a stranger has: a Debian with cron, and the two packages.
    debian.run("apt-get", "install", "-q", "-y", "--no-install-recommends", "cron")
    debian.path("/srv/new").mkdir()
    shutil.copy(older_deb, debian.path("/srv"))
    shutil.copy(deb, debian.path("/srv/new"))
    debian.path("/srv/crontab").write_text(CRONTAB)
    debian.run("crontab /srv/crontab")
    for name in ("backup", "report", "rotate", "weekly"):
        debian.path(f"/srv/{name}.sh").write_text("#!/bin/sh\nexit 0\n")
    debian.path("/srv/check-disk.sh").write_text("#!/bin/sh\necho looking at $1\necho '/: 97% used' >&2\nexit 3\n")
    debian.run("chmod +x /srv/*.sh")

    stranger = Stranger(debian, {"host=db.example.org dbname=app user=app": dsn, "https://chat.example.org/hooks/abc": webhook})
    stranger.do("Install")
    wait_until(lambda: debian.run(". /tmp/session; pgrab nodes --check", check=False).returncode == 0, 30, "the node")

    moved = stranger.do("Move a crontab")
    for key in ("backup.sh", "check-disk.sh", "report.sh", "rotate.sh", "weekly.sh", "env"):
        assert key in moved
    assert debian.run("crontab -l", check=False).returncode != 0

    assert "failed: exit code 3: /: 97% used\nit has failed" in stranger.do("Be told")
    wait_until(lambda: Webhook.told, 30, "the alert")
    assert Webhook.told == [{"text": "pgrab/check-disk.sh failed: exit code 3: /: 97% used"}]

    why = stranger.do("Find out why")
    assert "exit code 3" in why and "97% used" in why, why

    before = stranger.node
    nodes = stranger.do("Upgrade")
    assert stranger.node is not before
    wait_until(lambda: " up " in stranger.type("pgrab nodes"), 30, "the new node")
    assert socket.gethostname() in nodes
    stranger.type("pgrab run-now pgrab/backup.sh; pgrab wait pgrab/backup.sh")
    assert debian.run("dpkg-query -W -f '${Version}' pgrab").stdout != "0.0.1"
    assert debian.stop(stranger.node) == 0
    cluster.drop_database(empty)
