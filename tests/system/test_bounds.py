"""The node's file is the upper bound: whom jobs run as, what they may start and reach, and what they cannot see."""
import http.server
import os
import subprocess
import threading
import time
from email.utils import formatdate

import pytest
from cluster import clean_env, program_for_others, run_pgrab

root = pytest.mark.skipif(os.geteuid() != 0, reason="running jobs as another user needs root")


@pytest.fixture
def config(tmp_path):
    """Writes the file of a node; returns its path."""
    def write(text, mode=0o600):
        path = tmp_path / "pgrab.conf"
        path.write_text(text)
        path.chmod(mode)
        return str(path)
    return write


def refused(db, *args, env=None):
    done = run_pgrab("run", *args, dsn=db.dsn, check=False, env={"PGRAB_ALLOW_ROOT": "no", **(env or {})})
    assert done.returncode != 0
    return done.stderr.replace('\\"', '"')


def output(db, **task):
    run = db.wait_run(db.add(**task))
    assert run.outcome == "succeeded", run.error
    return (run.output or "").rstrip("\n")


def failure(db, **task):
    run = db.wait_run(db.add(max_attempts=1, **task))
    assert run.outcome == "failed"
    return run.error


@root
def test_each_owner_s_jobs_run_as_the_user_of_its_section(db, nodes, config):
    me = db.one("select current_user")
    nodes.start("n1", env={"PGRAB_ALLOW_ROOT": "no"}, config=config(f"run_as = nobody\n[owner {me}]\nrun_as = daemon\ndirectory = /usr\n"))
    assert f"; on n1 they run as user nobody (run_as); except for {me}: daemon" in run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert output(db, kind="shell", command="id -un; pwd; echo $HOME $USER; umask") == "daemon\n/usr\n/usr daemon\n0077"
    assert output(db, kind="exec", command="/usr/bin/id", args={"argv": ["-G"]}) == "1"
    assert output(db, kind="shell", command="kill -0 $PPID 2>&1 || echo no").endswith("no")
    run = db.wait_run(db.add(kind="shell", command="sleep 60", timeout="300 ms", max_attempts=1))
    assert run.outcome == "timed_out"


@root
def test_without_a_section_the_default_user_holds(db, nodes, config):
    nodes.start("n1", env={"PGRAB_ALLOW_ROOT": "no"}, config=config("run_as = nobody\n[owner somebody_else]\nrun_as = daemon\n"))
    assert output(db, kind="shell", command="id -un; id -gn") == "nobody\nnogroup"
    long = "id -un #" + "x" * 200_000  # handed over as a file, which the user has to be able to open
    assert output(db, kind="shell", command=long) == "nobody"


@root
def test_root_is_refused_at_the_start_unless_said(db, nodes):
    assert "anyone who may insert a task would be root here" in refused(db, "--allow", "sql,shell")
    assert "anyone who may insert a task would be root here" in refused(db, "--allow", "exec")
    nodes.start("n1", env={"PGRAB_ALLOW_ROOT": "no"}, allow="sql,noop")
    nodes.start("n2", env={"PGRAB_ALLOW_ROOT": "no"}, allow="shell", run_as="root")
    assert output(db, kind="shell", command="id -u") == "0"


@root
def test_with_some_users_named_the_others_are_refused_root_one_by_one(db, nodes, config):
    nodes.start("n1", env={"PGRAB_ALLOW_ROOT": "no"}, config=config("[owner somebody_else]\nrun_as = nobody\n"))
    assert "this node runs as root, and its file neither names a user" in failure(db, kind="shell", command="id")


def test_users_that_are_not_there_are_refused_at_the_start(db, config):
    assert 'run_as: there is no user "no_such"' in refused(db, "--allow", "shell", "--run-as", "no_such")
    text = refused(db, "--config", config("allow = shell\nallow_root = yes\n[owner app]\nrun_as = daemon:no_such\n"))
    assert '[owner app] run_as: there is no group "no_such"' in text


@root
def test_a_node_that_is_not_root_refuses_another_user(db, tmp_path):
    done = subprocess.run(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", program_for_others(tmp_path), "run", "--dsn", db.dsn,
                           "--name", "n1", "--allow", "shell", "--run-as", "daemon"],
                          env=clean_env(), capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode != 0
    assert "run_as: this node is not root, so it cannot run anything as another user" in done.stderr


def test_the_file_bounds_programs_kinds_and_hosts(db, nodes, config):
    me = db.one("select current_user")
    nodes.start("n1", config=config(f"[owner {me}]\nprograms = /usr/bin/id\nhttp_hosts = api.example.org, 127.0.0.2\n"))
    assert output(db, kind="exec", command="/usr/bin/id", args={"argv": ["-u"]}) == str(os.geteuid())
    assert "/bin/sh is not among the programs" in failure(db, kind="shell", command="true")
    assert "/bin/echo is not among the programs" in failure(db, kind="exec", command="/bin/echo")
    assert "args.env has LD_PRELOAD" in failure(db, kind="exec", command="/usr/bin/id", args={"env": {"LD_PRELOAD": "/tmp/x"}})
    assert "127.0.0.1 port 1 is not among http_hosts of this node" in failure(db, kind="http", command="http://127.0.0.1:1/")
    assert "Connection refused" in failure(db, kind="http", command="http://127.0.0.2:1/")


@pytest.fixture
def overloaded():
    """An HTTP server that is overloaded at the first request, and says for how long."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(503 if len(seen) == 1 else 200)
            if len(seen) == 1:
                self.send_header("Retry-After", self.path[1:] if self.path != "/date" else formatdate(usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_redirect_that_leads_nowhere_is_the_answer(db, nodes):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            if self.path == "/on":
                self.send_header("Location", "/")
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"moved" if self.path == "/on" else b"login")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        nodes.start("n1")
        for path in ("/", "/on"):
            run = db.wait_run(db.add(kind="http", command=f"http://127.0.0.1:{server.server_port}{path}", args={"follow": True}, max_attempts=1))
            assert (run.outcome, run.error, run.output) == ("failed", "HTTP 302, expected 2xx", "login")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_retry_after_is_kept_to(db, nodes, overloaded):
    nodes.start("n1")
    task = db.add(kind="http", command=f"{overloaded}/3", max_attempts=3, backoff="100 ms")
    first, second = db.wait_run(task, 1), db.wait_run(task, 2)
    assert (first.outcome, first.error) == ("failed", "HTTP 503, expected 2xx; Retry-After 3 s")
    assert second.outcome == "succeeded"
    assert 2.9 <= (second.started_at - first.finished_at).total_seconds() < 6


PEEK = r"""
shim=$PPID
keeper=$(awk '{print $4}' /proc/$shim/stat)
node=$(awk '{print $4}' /proc/$keeper/stat)
for p in $shim $keeper $node; do
    echo "$(id -u) $(awk '/^Uid/ {print $2}' /proc/$p/status)"
    for f in environ mem maps fd cwd; do
        (ls /proc/$p/$f/ || cat /proc/$p/$f) 2>/dev/null | head -c 200 | tr '\0' ' '
    done
    python3 - $p <<'END'
import ctypes, os, sys
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
libc.ptrace.argtypes = [ctypes.c_long] * 4
if libc.ptrace(16, pid, 0, 0) == 0:                       # PTRACE_ATTACH
    print("traced")
held = libc.syscall(434, pid, 0)                          # pidfd_open
for fd in range(40):
    if libc.syscall(438, held, fd, 0) >= 0:               # pidfd_getfd
        print("took descriptor", fd)
try:
    os.pidfd_open(pid)
    os.kill(pid, 0)
    print("may signal")
except PermissionError:
    print("may not signal")
END
done
"""


@root
def test_a_job_of_the_same_user_sees_nothing_of_node_keeper_and_shim(db, nodes, tmp_path):
    wrapper = tmp_path / "pgrab_as_nobody"
    wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid=nobody --regid=nogroup --clear-groups {program_for_others(tmp_path)} "$@"\n')
    wrapper.chmod(0o755)
    nodes.start("n1", binary=str(wrapper), env={"PGPASSWORD": "very-secret-1", "PGRAB_DSN": "password=very-secret-2"})
    seen = output(db, kind="shell", command=PEEK, args={"env": {"PATH": "/usr/bin:/bin"}})
    uid = "65534 65534"
    # All that is left to a job of the same user is to signal the node: run_as takes that away too.
    assert seen.splitlines() == [uid, "may signal"] * 3
    found = output(db, kind="shell", command="env; grep -al very-secret /proc/[0-9]*/environ 2>/dev/null; true")
    assert "very-secret" not in found and "/environ" not in found


@root
def test_a_job_of_another_user_can_not_even_signal_the_node(db, nodes):
    nodes.start("n1", run_as="nobody", env={"PGPASSWORD": "very-secret-1"})
    lines = output(db, kind="shell", command=PEEK, args={"env": {"PATH": "/usr/bin:/bin"}}).splitlines()
    assert lines == ["65534 0", "may not signal"] * 3


def test_args_may_name_secrets_of_their_owner(db, nodes, tmp_path):
    me = db.one("select current_user")
    folder = tmp_path / "secrets" / me
    folder.mkdir(parents=True)
    (folder / "api.key").write_text("value-in-a-file\n")
    (folder / "link").symlink_to("/etc/passwd")
    (tmp_path / "secrets" / "theirs").write_text("not yours")
    nodes.start("n1", secret_dir=tmp_path / "secrets")
    db.query("insert into pgrab.secret (name, value) values ('token', 'value-in-a-row'), ('short', 'abc')")
    args = {"env": {"A": {"secret": "token"}, "B": {"file": "api.key"}, "C": "plain", "D": {"secret": "short"}}}
    task = db.add(kind="shell", command='test ${#A},${#B} = 14,15 && echo "$A,$B,$C,$D" && echo x$A >&2', args=args)
    run = db.wait_run(task)
    assert (run.outcome, run.output) == ("succeeded", f"{'*' * 14},{'*' * 15},plain,abc\nx{'*' * 14}\n")  # hidden from eight bytes on
    text = str(db.query("select * from pgrab.run")) + str(db.query("select * from pgrab.task")) + nodes.all[0].log()
    assert "value-in" not in text and run.definition["args"] == args
    error = failure(db, kind="shell", command='echo "bad: $A"; exit 3', args=args)
    assert error == "exit code 3: bad: " + "*" * 14
    (folder / "k.pem").write_text("the first line of a key\nthe second line of it\n")
    db.query("insert into pgrab.secret (name, value) values ('url', 'app:value-in-a-row@db/prod?key=behind-it'), ('long', (select string_agg(md5(i::text), '') from generate_series(1, 20) i))")
    more = {"env": {"A": {"secret": "token"}, "U": {"secret": "url"}, "K": {"file": "k.pem"}, "L": {"secret": "long"}}}
    run = db.wait_run(db.add(kind="shell", command='echo "to $U"; echo "$K"; exit 3', args=more, max_attempts=1))
    assert (run.output, run.error) == (f"to {'*' * 40}\n{'*' * 45}\n", "exit code 3: " + "*" * 21)
    for printed in ('echo "$L"', 'printf %s "$L"', 'echo "é$L"'):
        assert set(failure(db, kind="shell", command=f"{printed}; exit 3", args=more).removeprefix("exit code 3: ...")) == {"*"}
    assert "there is no secret \"missing\" of " + me in failure(db, kind="shell", command="env", args={"env": {"A": {"secret": "missing"}}})
    for path, why in {"nothing": "No such file", "../theirs": "Invalid cross-device link", "link": "Too many levels of symbolic links",
                      "/etc/passwd": "Invalid cross-device link", ".": "not a plain file"}.items():
        assert why in failure(db, kind="shell", command="env", args={"env": {"A": {"file": path}}})
    assert output(db, kind="shell", command="echo ${#A}", args={"env": {"A": {"file": str(folder / "api.key")}}}) == "15"


def test_a_node_without_a_folder_reads_no_files(db, nodes):
    nodes.start("n1")
    assert failure(db, kind="exec", command="/usr/bin/env", args={"env": {"A": {"file": "/etc/passwd"}}}) == \
        "this node reads no secrets from files (secret_dir)"


def test_http_headers_may_name_secrets(db, nodes, overloaded):
    nodes.start("n1")
    db.query("insert into pgrab.secret (name, value) values ('key', E'evil\\r\\nX-Second: header')")
    error = failure(db, kind="http", command=overloaded, args={"headers": {"X-Api-Key": {"secret": "key"}}})
    assert error == "args.headers: the value of X-Api-Key has a control character (byte 0x0d) in it"


def test_a_bell_that_never_stops_does_not_make_a_node_beat_for_ever(db, nodes):
    nodes.start("n1", heartbeat="1s", fence_after="5s", dead_after="10s")
    beat = "select beat from pgrab.node where name = 'n1'"
    before, since = db.one(beat), time.monotonic()
    while time.monotonic() < since + 3:
        db.query("notify pgrab, 'wish'")
    assert 3 <= db.one(beat) - before <= 40  # ten a second at most; it was more than a hundred
    with db.connect() as conn:
        conn.execute("select pgrab.drain('n1')")
    db.wait("select state = 'draining' from pgrab.nodes where name = 'n1'", timeout=2)


def test_a_file_that_others_may_read_or_write_is_refused(db, config, tmp_path):
    path = config("dsn = postgresql://app:very-secret@127.0.0.1:1/x\n", 0o644)
    done = run_pgrab("run", "--config", path, check=False)
    assert f"{path} holds a password and everybody can read it; run: chmod o= {path}" in done.stderr
    assert "very-secret" not in done.stderr
    path = config("workers = 1\n[owner app]\ndsn = password=very-secret\n", 0o604)
    assert "run: chmod o= " in run_pgrab("run", "--config", path, check=False).stderr
    path = config("workers = 1\n", 0o666)
    assert f"everybody can write {path}" in run_pgrab("run", "--config", path, check=False).stderr
    path = config("workers = none\n", 0o644)  # without a password it is as good as any
    assert "workers cannot be" in run_pgrab("run", "--config", path, check=False).stderr
