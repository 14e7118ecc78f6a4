"""pgrab top: one frame as text and JSON, and the live screen on a terminal of our own making."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from cluster import clean_env, pgrab_bin, run_pgrab, wait_until

ENTER, LEAVE = "\033[?1049h\033[?25l\033[?7l", "\033[?7h\033[?25h\033[?1049l"


class Screen:
    """A command on a pseudo-terminal that is its controlling terminal, so that keys and sizes become signals."""

    def __init__(self, *args, rows=24, columns=80, env=None):
        self.ours, theirs = pty.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.ours)
        self.text = ""
        self.process = subprocess.Popen([pgrab_bin(), *map(str, args)], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env=clean_env(TERM="xterm", **(env or {})))
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        if self.ours is not None:
            os.close(self.ours)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def keys(self, keys):
        os.write(self.ours, keys.encode())

    def read(self):
        """Takes in what has been written, without waiting."""
        while select.select([self.ours], [], [], 0)[0]:
            try:
                chunk = os.read(self.ours, 65536)
            except OSError:  # EIO: nobody has the other side open any more
                return
            if not chunk:
                return
            self.text += chunk.decode(errors="replace")

    def frame(self):
        """The lines of the last frame, without colours."""
        self.read()
        last = self.text.rpartition("\033[H")[2].partition(LEAVE)[0]
        return [line.removeprefix("\033[K") for line in re.sub("\033\\[[0-9]*m|\033\\[J", "", last).split("\r\n")]

    def wait(self, pattern, timeout=10.0):
        """Waits for a frame that shows it, and checks that every frame seen meanwhile fits the screen."""
        def shown():
            lines = self.frame()
            assert len(lines) <= self.rows + 1 and all(len(line) <= self.columns for line in lines), lines
            return re.search(pattern, "\n".join(lines), re.M)
        return wait_until(shown, timeout, f"/{pattern}/ on the screen")

    def wait_exit(self, timeout=5.0):
        """Its exit status; what it leaves behind must be what it found."""
        wait_until(lambda: self.read() or self.process.poll() is not None, timeout, "the end of pgrab top")
        self.read()
        assert self.text.count(ENTER) == self.text.count(LEAVE) and LEAVE in self.text
        assert termios.tcgetattr(self.ours) == self.modes
        return self.process.returncode


def top(db, *args, **options):
    return Screen("top", "--interval", "200ms", "--dsn", db.dsn, *args, **options)


# --------------------------------------------------------------------------------------------------------- one frame

def test_one_frame_as_text(db, nodes):
    text = run_pgrab("top", dsn=db.dsn).stdout
    assert "nodes 0 up" in text and "no node is up; start one: pgrab run" in text
    nodes.start("n1", allow="shell,sql")
    running = db.add(kind="shell", command="sleep 60", name="long")
    late = db.add(kind="noop", name="\033[31mevil\n", run_at="2000-01-01", priority=3)
    parked = db.add(kind="sql", command="select 1/0", max_attempts=1)
    db.wait("select status = 'running' from pgrab.task where id = %s", running)
    db.wait("select status = 'parked' from pgrab.task where id = %s", parked)
    db.wait("select running = 1 from pgrab.node")  # said with its heartbeat
    text = run_pgrab("top", "--once", dsn=db.dsn).stdout
    assert "\033" not in text and text.splitlines()[0].endswith(f" UTC  {db.name}")
    assert re.search(r"^nodes 1 up   running 1   due 1   late 1, the oldest for \d+ days .*parked 1   failing 1   waiting 0$", text, re.M)
    assert re.search(r"last minute: 1 runs, 1 failed$", text, re.M)
    assert re.search(r"^n1 +up +1/8 ", text, re.M)
    assert re.search(rf"^ *{running} +long +shell +1 +n1 +00:00:", text, re.M)
    assert re.search(rf"^ *{late} +\\x1b\[31mevil\\n .*no live node runs kind noop +noop$", text, re.M)
    frame = json.loads(run_pgrab("top", "--once", "--json", dsn=db.dsn).stdout)
    assert list(frame) == ["overview", "nodes", "running", "late", "rates"]
    assert (frame["overview"]["late"], frame["overview"]["running"], frame["overview"]["due_more"]) == (1, 1, False)
    assert (frame["nodes"][0]["name"], frame["running"][0]["id"]) == ("n1", running)
    assert (frame["late"][0]["id"], frame["late"][0]["name"]) == (late, "\033[31mevil\n")


def test_one_frame_agrees_with_the_overview(db):
    for priority in 0, 5, -2:
        db.query("insert into pgrab.task (kind, run_at, priority) select 'noop', now() - interval '1 hour', %s from generate_series(1, 50)", priority)
    db.query("insert into pgrab.limit (key, max_running) values ('k', 1)")
    db.query("insert into pgrab.task (kind, run_at, limit_key) select 'noop', now() - interval '1 hour', 'k' from generate_series(1, 5)")
    db.query("insert into pgrab.task (kind, run_at) values ('noop', now() + interval '1 hour')")
    frame = json.loads(run_pgrab("top", "--json", dsn=db.dsn).stdout)
    assert db.query("select due::int, late::int, running::int, parked::int from pgrab.overview")[0] == tuple(
        frame["overview"][name] for name in ("due", "late", "running", "parked"))
    assert frame["overview"]["due"] == 155 and len(frame["late"]) == 155


def test_a_backlog_is_a_lower_bound(db):
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() - interval '1 hour' + i * interval '1 ms' from generate_series(1, 60000) i")
    text = run_pgrab("top", dsn=db.dsn).stdout
    count = int(re.search(r"due (\d+)\+   late \1\+, the oldest for (?:01:00:|00:59:)", text)[1])
    assert 10000 <= count < 60000
    first = db.one("select min(id) from pgrab.task")
    assert json.loads(run_pgrab("top", "--json", dsn=db.dsn).stdout)["late"][0]["id"] == first


def test_one_frame_without_a_database(tmp_path):
    for args in [], ["--once", "--json"]:
        done = run_pgrab("top", *args, dsn=f"host={tmp_path} dbname=x", check=False)
        assert (done.returncode, done.stdout) == (1, "") and "pgrab top: could not connect" in done.stderr


# ------------------------------------------------------------------------------------------------------- the terminal

def test_a_live_screen_fits_80_by_24(db, nodes):
    nodes.start("n1", allow="shell", workers=30)
    for i in range(25):
        db.add(kind="shell", command="sleep 60", name=f"run {i} " + "long " * 20)
        db.add(kind="noop", name="\033[2J\u009b2Jlate\t日本 " * 9, run_at="2000-01-01")
    db.wait("select count(*) = 25 from pgrab.task where status = 'running'")
    with top(db) as screen:
        screen.wait(r"^nodes 1 up   running 25   due 25   late 25, the oldest for ")
        lines = screen.frame()
        assert len(lines) == 24 and all(title in lines for title in ("NODES", "RUNNING, the longest first", "LATE, the oldest first"))
        # the two long lists share what is left
        assert abs(sum("sleep" in line or "shell" in line for line in lines) - sum("noop" in line for line in lines)) <= 1
        assert not re.search("[\x00-\x09\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]", screen.text)
        assert set(re.findall("\033.[0-9?]*[a-zA-Z]", screen.text)) <= {"\033[?1049h", "\033[?25l", "\033[?7l", "\033[H", "\033[K", "\033[J", "\033[1m", "\033[31m", "\033[0m"}
        screen.keys("q")
        assert screen.wait_exit() == 0


def test_a_narrow_screen_has_the_whole_reason(db, nodes):
    nodes.start("n1")
    db.add(kind="noop", name="a name that is rather long", run_at=db.one("select now() - interval '25 hours'"), require={"disk": "fast"})
    with top(db) as screen:
        screen.wait("LATE")
        assert any('no live node has labels {"disk": "fast"}' in line for line in screen.frame()), screen.frame()
        screen.keys("q")
        assert screen.wait_exit() == 0


def test_a_reason_that_is_longer_than_the_screen_goes_on_below(db, nodes):
    nodes.start("n1")
    where = {f"label {i}": "a value" for i in range(9)}
    db.add(kind="noop", name="far", run_at="2000-01-01", require=where)
    with top(db) as screen:
        screen.wait("LATE")
        told = "".join(line.removeprefix("    ") for line in screen.frame())
        assert all(label in told for label in where) and "noop" in told, screen.frame()
        screen.keys("q")
        assert screen.wait_exit() == 0


def test_it_draws_the_slots_and_the_last_hour(db, nodes):
    nodes.start("n1", allow="shell", workers=4)
    db.add(kind="shell", command="exit 1", max_attempts=1)
    task = db.add(kind="shell", command="exit 0", schedule="@every 1s")
    db.wait_run(task, 3)
    text = run_pgrab("top", "--once", dsn=db.dsn, env={"LC_ALL": "C.UTF-8"}).stdout
    assert re.search("^slots     [█░]{50}  [01] of 4 in use$", text, re.M) and re.search("^runs 1h   ▁{50,59}[▁-█]+  0.0[0-9]+/s$", text, re.M), text
    assert re.search("^failed 1h ▁{50,59}[▁█]+  0.017/s$", text, re.M), text
    assert re.search(r"^runs 1h   _{50,59}[-_.:=+*#]+  ", run_pgrab("top", "--once", dsn=db.dsn, env={"LC_ALL": "C"}).stdout, re.M)
    shown = run_pgrab("show", task, dsn=db.dsn, env={"LC_ALL": "C.UTF-8"}).stdout
    assert re.search("^took [▁-█]{3,}  up to [0-9.e-]+ s$", shown, re.M), shown
    assert all(len(line) <= 80 for line in text.splitlines() if "▁" in line or "░" in line)


@pytest.mark.parametrize("rows, columns", [(10, 40), (3, 20), (1, 1), (60, 200)])
def test_a_screen_of_another_size(db, nodes, rows, columns):
    nodes.start("n1")
    for i in range(9):
        db.add(kind="noop", run_at="2000-01-01", paused=i > 5, require={"no": "where"})
    with top(db) as screen:
        def resize(rows, columns):
            screen.resize(rows, columns)
            wait_until(lambda: max(map(len, screen.frame())) <= columns and len(screen.frame()) <= rows + 1, 5, "a frame of the new size")

        screen.wait(r"late 6, the oldest")
        resize(rows, columns)
        screen.wait("^p")
        resize(24, 80)
        screen.wait("^LATE, the oldest first$")
        screen.keys("q")
        assert screen.wait_exit() == 0


def test_it_goes_on_by_itself_and_stops_on_space(db):
    with top(db) as screen:
        screen.wait("parked 0.*\n(.*\n)*no node is up")
        db.add(kind="noop", run_at="2000-01-01")
        screen.wait("due 1   late 1")
        screen.keys(" ")
        screen.wait("PAUSED, space goes on")
        db.query("update pgrab.task set paused = true")
        screen.keys("?")
        assert "q quit" in screen.wait(r"q quit.*\Z")[0] and len(screen.frame()) == 24
        assert "due 1 " in "\n".join(screen.frame())
        screen.keys("? ")
        screen.wait("due 0   late 0")
        assert "q quit" not in screen.frame()[-1]
        screen.keys("q")
        assert screen.wait_exit() == 0


def test_rates_are_those_of_the_nodes_counters(db, nodes):
    nodes.start("n1")
    with top(db) as screen:
        screen.wait("^0.0 runs/s, 0.0 failures/s")
        db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 200)")
        assert float(screen.wait(r"^([1-9][0-9]*\.[0-9]) runs/s, 0.0 failures/s   last minute: 200 runs, 0 failed")[1]) <= 2500  # 200 within a frame, and frames are not equally long
        screen.wait("^0.0 runs/s")
        screen.keys("q")
        assert screen.wait_exit() == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, "\x03"])
def test_signals_leave_the_terminal_as_it_was(db, end):
    with top(db) as screen:
        screen.wait("nodes 0 up")
        assert termios.tcgetattr(screen.ours) != screen.modes
        if isinstance(end, str):
            screen.keys(end)
        else:
            screen.process.send_signal(end)
        assert screen.wait_exit() == 0


@pytest.mark.parametrize("crash", [signal.SIGABRT, signal.SIGSEGV])
def test_a_crash_leaves_the_terminal_as_it_was(db, crash):
    with top(db) as screen:
        screen.wait("nodes 0 up")
        screen.process.send_signal(crash)
        # raised from outside, the handler returns; the second one has the default action
        wait_until(lambda: screen.read() or LEAVE in screen.text, 5, "the way back")
        screen.process.send_signal(crash)
        assert screen.process.wait(5) == -crash
        assert termios.tcgetattr(screen.ours) == screen.modes


def test_ctrl_z_gives_the_terminal_back_until_it_is_continued(db):
    with top(db) as screen:
        screen.wait("nodes 0 up")
        screen.keys("\x1a")
        wait_until(lambda: os.waitid(os.P_PID, screen.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT), 5, "it to be stopped")
        screen.read()
        assert screen.text.endswith(LEAVE) and termios.tcgetattr(screen.ours) == screen.modes
        screen.process.send_signal(signal.SIGCONT)
        wait_until(lambda: screen.read() or screen.text.count(ENTER) == 2, 5, "it to be back")
        screen.wait("nodes 0 up")
        screen.keys("q")
        assert screen.wait_exit() == 0


def test_it_ends_when_its_terminal_is_gone(db):
    with top(db) as screen:
        screen.wait("nodes 0 up")
        os.close(screen.ours)
        screen.ours = None
        assert screen.process.wait(5) == 0


def test_a_refusal_at_the_start_is_an_error(cluster):
    with Screen("top", "--dsn", cluster.dsn_of("no_such_database")) as screen:
        assert screen.wait_exit() == 1
        assert 'database "no_such_database" does not exist' in screen.text.partition(LEAVE)[2]


@pytest.mark.private_server
def test_the_database_goes_and_comes_back(cluster, db):
    with top(db) as screen:
        screen.wait("nodes 0 up")
        cluster.pg_stop("fast")
        screen.wait("^THE DATABASE IS AWAY for [0-9]+ s; trying again. ")
        screen.wait("AWAY for [1-9]")
        assert "nodes 0 up" in "\n".join(screen.frame())
        cluster.pg_start()
        db.add(kind="noop", run_at="2000-01-01")
        screen.wait("due 1   late 1")
        assert "AWAY" not in "\n".join(screen.frame())
        screen.keys("q")
        assert screen.wait_exit() == 0
    cluster.pg_stop("fast")
    with top(db) as screen:  # it can be started while there is none
        screen.wait("^THE DATABASE IS AWAY")
        cluster.pg_start()
        screen.wait("nodes 0 up")
        screen.keys("q")
        assert screen.wait_exit() == 0


def test_keys_are_answered_while_the_server_is_not(db):
    with top(db) as screen:
        screen.wait("nodes 0 up")
        backend = db.one("select pid from pg_stat_activity where application_name = 'pgrab top' and datname = current_database()")
        os.kill(backend, signal.SIGSTOP)
        try:
            screen.wait("waiting for the database for [2-9] s")
            screen.keys("?")
            screen.wait("q quit", timeout=1)
            began = time.monotonic()
            screen.keys("q")
            assert screen.wait_exit() == 0 and time.monotonic() - began < 1.5
        finally:
            os.kill(backend, signal.SIGCONT)
