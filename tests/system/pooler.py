"""PgBouncer before one database, in transaction mode unless told otherwise, with few servers, so that all who use it share them."""
import os
import pwd
import shutil
import socket
import subprocess

import pytest
from cluster import conninfo, let_others_in, wait_until

BOUNCER = os.environ.get("PGRAB_PGBOUNCER") or shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
THROUGH_IT = os.environ.get("PGRAB_POOLER") == "1"
"""All nodes go through a pooler (scripts/test --pooler), but for tests that name a DSN of their own."""


class Pooler:
    def __init__(self, db, folder, servers=12, mode="transaction"):
        if BOUNCER is None:
            pytest.skip("pgbouncer is not installed (scripts/deps check)")
        for _ in range(3):
            self.start(db, folder, servers, mode)
            if wait_until(self.answers, 10, "pgbouncer to listen") == "it does":
                return
        raise AssertionError("pgbouncer has ended three times")

    def start(self, db, folder, servers, mode):
        """On a port that is free; another process may get it before pgbouncer does."""
        given = conninfo.conninfo_to_dict(db.dsn)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.dsn = conninfo.make_conninfo(host="127.0.0.1", port=self.port, dbname=db.name, user=given["user"])
        conf = folder / "pgbouncer.ini"
        conf.write_text(f"""[databases]
{db.name} = host={given['host']} port={given.get('port', 5432)} dbname={db.name} user={given['user']}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {servers}
max_client_conn = 1000
server_login_retry = 1
logfile =
""")
        self.command = [BOUNCER, "-q", str(conf)]
        if os.getuid() == 0:
            user = "postgres" if any(p.pw_name == "postgres" for p in pwd.getpwall()) else "nobody"
            let_others_in(folder)
            self.command = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups", *self.command]
        self.launch()

    def launch(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers(self):
        if self.process.poll() is not None:
            return "it has ended"
        with socket.socket() as s:
            return "it does" if s.connect_ex(("127.0.0.1", self.port)) == 0 else None

    def again(self):
        """Ends it at once, and starts it on the same port."""
        self.process.kill()
        self.process.wait(10)
        self.launch()

    def end(self):
        self.process.terminate()
        self.process.wait(10)
