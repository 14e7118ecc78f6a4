"""What the system tests are made of: a PostgreSQL server, a fresh database on it, and real nodes.

Nothing here sleeps for a time and hopes: each wait names its condition and has a deadline.
"""
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
from psycopg import conninfo, sql
from psycopg.rows import namedtuple_row

ROOT = Path(__file__).resolve().parents[2]
ALLOW_ALL = "sql,noop,notify,shell,exec,http"
SCHEMA = os.environ.get("PGRAB_TEST_SCHEMA", "pgrab")
"""The schema of all databases and nodes that do not name one (scripts/test --schema)."""


def wait_until(cond, timeout=10.0, what="the condition", step=0.02):
    """Waits until cond() is true and returns what it returned; fails after timeout seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = cond()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout} s for {what}; it was last {value!r}")
        select.select([], [], [], step)


def end_by_signals():
    """SIGTERM, and SIGINT also in the background, end this process as Ctrl-C does; a second one while it cleans up does not."""
    def interrupted(signum, frame):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)


def let_others_in(folder):
    """Other users of the machine get to a folder of pytest's, which are closed to them at every level."""
    for level in [folder, *(parent for parent in folder.parents if "pytest-of-" in str(parent))]:
        level.chmod(level.stat().st_mode | 0o755)


def entered_by_others(folder):
    """Whether other users of the machine can get there: a checkout under /root is closed to them."""
    return all(level.stat().st_mode & 0o001 for level in [folder, *folder.parents])


def program_for_others(folder):
    """A copy of the program in a folder of pytest's that other users of the machine can run."""
    program = folder / "program"
    shutil.copy(pgrab_bin(), program)
    let_others_in(folder)
    return program


def stays(cond, duration, what="the condition", step=0.05):
    """The opposite wait: fails as soon as cond() is not true, returns after duration seconds."""
    deadline = time.monotonic() + duration
    while time.monotonic() < deadline:
        assert cond(), f"{what} did not stay so for {duration} s"
        select.select([], [], [], step)


def pgrab_bin():
    """The program under test: PGRAB_BIN, or what scripts/build made."""
    named = os.environ.get("PGRAB_BIN")
    for path in [named] if named else [ROOT / "build/pgrab", ROOT / "build/src/pgrab"]:
        if os.access(path, os.X_OK):
            return str(path)
    raise FileNotFoundError(f"there is no {named or 'build/pgrab'}. Run scripts/build, or set PGRAB_BIN to the program.")


def clean_env(**extra):
    """The environment without anything that would change whom a pgrab talks to, or how."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    if os.geteuid() == 0:  # else no node here would run shell tasks; what is said of root has its own tests
        env["PGRAB_ALLOW_ROOT"] = "yes"
    if SCHEMA != "pgrab":
        env["PGRAB_SCHEMA"] = SCHEMA
    return {**env, **{k: str(v) for k, v in extra.items()}}


def in_schema(statement, schema):
    """A statement that was written for the schema pgrab, for another one."""
    return re.sub(r"\bpgrab(?=\.|_(internal|sql|owner|node|submit|operator|read|serve)\b|_kind_|'::)"
                  r"|(?<=')pgrab(?=[' ])|(?<=schema )pgrab\b", schema, statement)


def cursor_in(schema):
    """For the cursor_factory of a connection: what it executes was written for the schema pgrab."""
    class InSchema(psycopg.Cursor):
        def execute(self, query, *args, **options):
            text = query.as_string(self.connection) if isinstance(query, sql.Composable) else query
            params = [in_schema(v, schema) if isinstance(v, str) else v for v in args[0]] if args and isinstance(args[0], (list, tuple)) else None
            return super().execute(in_schema(text, schema), *([params] if params else args), **options)
    return InSchema if schema != "pgrab" else psycopg.Cursor


def run_pgrab(*args, dsn=None, timeout=30, check=True, env=None):
    """Runs one pgrab command to its end; returns the CompletedProcess with text output."""
    command = [pgrab_bin(), *map(str, args)] + (["--dsn", dsn] if dsn else [])
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                          env=clean_env(**(env or {})), check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def migrate_beside_nodes(*options, dsn, timeout=30):
    """On a busy machine it is undone rather than that nodes lose their leases: then it is tried again, as it says."""
    for _ in range(20):
        done = run_pgrab("migrate", *options, dsn=dsn, timeout=timeout, check=False)
        if done.returncode == 0:
            return done
        assert "it was undone: try again" in done.stderr, done.stderr
    raise AssertionError(f"pgrab migrate was undone again and again: {done.stderr}")


class Cluster:
    """A PostgreSQL server: one that is given by its DSN, or a private one that the tests may stop and start."""

    def __init__(self, dsn=None, stoppable=False, pg_bin=None):
        self.own, self.stoppable = dsn is None, stoppable
        self.pg_bin = pg_bin or os.environ.get("PGRAB_PG_BIN", "")
        self.folder = None
        self.template = None
        self.databases = []  # their connections do not outlive a stop of the server
        self.numbers = itertools.count(1)
        self.prefix = f"pgrab_test_{os.getpid()}_{id(self) % 10007}"
        self.dsn = dsn
        if self.own:
            (ROOT / ".pgrab").mkdir(exist_ok=True)
            # Root hands the server, and what tests put beside it, to another user.
            self.folder = tempfile.mkdtemp(prefix="system.", dir=ROOT / ".pgrab" if entered_by_others(ROOT) else None)
            os.chmod(self.folder, 0o755)
            try:
                self.start_own()
            except BaseException:
                self.close()
                raise

    def scripts_pg(self, *args, **env):
        process = subprocess.Popen([ROOT / "scripts/pg", *args, "--dir", f"{self.folder}/pg"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=clean_env(PGRAB_PG_BIN=self.pg_bin, **env))
        try:
            out, errors = process.communicate(timeout=180)
        except KeyboardInterrupt:
            process.wait()  # killed, it would leave the programs that make or start the server
            raise
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if process.returncode != 0:
            raise AssertionError(f"scripts/pg {' '.join(args)} failed:\n{out}{errors}")
        return out

    def start_own(self, **env):
        reap("postgres")
        out = self.scripts_pg("start", **env)
        self.dsn = subprocess.run(["sh", "-c", 'eval "$1"; printf %s "$PGRAB_DSN"', "sh", out], check=True,
                                  capture_output=True, text=True).stdout

    def must_be_stoppable(self):
        assert self.stoppable, "other tests use this server too: mark the test with @pytest.mark.private_server"

    def pg_start(self, **env):
        """Nothing happens when it runs.  env: for the server."""
        self.must_be_stoppable()
        self.start_own(**env)

    def pg_stop(self, mode="fast"):
        """smart, fast or immediate; immediate is a crash of the server, recovery and all."""
        self.must_be_stoppable()
        self.scripts_pg("stop", "--mode", mode)
        self.hang_up()

    def pg_pid(self):
        return int(re.search(r"pid (\d+)", self.scripts_pg("status"))[1])

    def pg_kill9(self):
        """Kills the postmaster as the kernel would when memory is short."""
        self.must_be_stoppable()
        pid = self.pg_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: reap("postgres") or not alive(pid), 10, "the postmaster's end")
        self.hang_up()

    def hang_up(self):
        reap("postgres")
        for database in self.databases:
            database.close()

    def admin(self, statement, database=None, **options):
        with psycopg.connect(self.dsn_of(database) if database else self.dsn, autocommit=True, **options) as conn:
            conn.execute(statement)

    def superuser(self, statement, database=None):
        """For what the role of PGRAB_DSN may not do; with a server that was given, PGRAB_SUPERUSER names one."""
        self.admin(statement, database, user=os.environ.get("PGRAB_SUPERUSER", "postgres"))

    def dsn_of(self, name):
        return conninfo.make_conninfo(self.dsn, dbname=name)

    def migrated_template(self):
        """The database that each test gets a copy of; `pgrab migrate` runs once per server."""
        if not self.template:
            name = f"{self.prefix}_template"
            self.admin(sql.SQL("create database {}").format(sql.Identifier(name)))
            run_pgrab("migrate", dsn=self.dsn_of(name), timeout=60)
            self.template = name
        return self.template

    def create_database(self, template=None):
        name = f"{self.prefix}_{next(self.numbers)}"
        self.admin(sql.SQL("create database {} template {}").format(
            sql.Identifier(name), sql.Identifier(template or self.migrated_template())))
        return name

    def drop_database(self, name):
        """By force only when somebody is left: an autovacuum worker is sent away by the plain form, and is not ours to end."""
        def drop():
            for force in ("", " with (force)"):
                try:
                    self.admin(sql.SQL("drop database if exists {}" + force).format(sql.Identifier(name)))
                    return True
                except (psycopg.errors.ObjectInUse, psycopg.errors.InsufficientPrivilege):
                    pass
            return False
        wait_until(drop, 20, f"the end of everybody in {name}")

    def close(self):
        if self.own:
            self.scripts_pg("stop", "--mode", "immediate", "--remove")
            shutil.rmtree(self.folder)  # with what a test that failed has left
            reap("postgres")
        elif self.template or next(self.numbers) > 1:
            with psycopg.connect(self.dsn, autocommit=True) as conn:
                names = conn.execute("select datname from pg_database where starts_with(datname, %s)",
                                     [self.prefix + "_"]).fetchall()
            for (name,) in names:
                self.drop_database(name)


class Db:
    """One database, and a connection to it that comes back by itself after a restart of the server."""

    def __init__(self, cluster, name, schema=SCHEMA):
        self.cluster, self.name, self.schema = cluster, name, schema
        self.conn = None
        cluster.databases.append(self)

    @property
    def dsn(self):
        return self.cluster.dsn_of(self.name)

    def connect(self, **options):
        """A connection of the caller's own, autocommit unless told otherwise."""
        options = {"autocommit": True, "row_factory": namedtuple_row, **options}
        return psycopg.connect(self.dsn, cursor_factory=cursor_in(self.schema), **options)

    def query(self, statement, *params):
        """Rows as named tuples; an empty list for statements that return none."""
        if self.conn is None or self.conn.closed:
            self.conn = self.connect()
        cursor = self.conn.execute(statement, params or None)
        if cursor.description:
            return cursor.fetchall()
        # `select from t`: rows without columns are rows all the same.
        return [()] * cursor.rowcount if (cursor.statusmessage or "").startswith("SELECT") else []

    def one(self, statement, *params):
        """The first column of the only row, or None when there is no row."""
        rows = self.query(statement, *params)
        assert len(rows) <= 1, f"{len(rows)} rows: {statement}"
        return rows[0][0] if rows else None

    def wait(self, statement, *params, timeout=10.0):
        """Waits until the first column of the first row is true, and returns it."""
        def look():
            rows = self.query(statement, *params)
            return rows[0][0] if rows else None
        return wait_until(look, timeout, f"{statement} {params or ''}")

    def add(self, **columns):
        """Inserts a task and returns its id; a dict becomes jsonb."""
        values = [json.dumps(v) if isinstance(v, dict) else v for v in columns.values()]
        statement = sql.SQL("insert into pgrab.task ({}) overriding system value values ({}) returning id").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join([sql.Placeholder()] * len(columns)))
        return self.one(statement, *values)

    def add_as(self, role, **columns):
        """The same as another role."""
        values = [json.dumps(v) if isinstance(v, dict) else v for v in columns.values()]
        statement = sql.SQL("insert into pgrab.task ({}) values ({}) returning id").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join([sql.Placeholder()] * len(columns)))
        with self.connect(user=role) as conn:
            return conn.execute(statement, values).fetchone()[0]

    def runs(self, task_id):
        """The attempts of a task, oldest first."""
        return self.query("select * from pgrab.run where task_id = %s order by fire_at, attempt", task_id)

    def wait_run(self, task_id, count=1, timeout=10.0):
        """Waits until a task has count attempts in the history; returns the newest."""
        def enough():
            rows = self.runs(task_id)
            return rows if len(rows) >= count else None
        return wait_until(enough, timeout, f"{count} runs of task {task_id}")[-1]

    def listen(self, channel):
        return Listener(self, channel)

    def close(self):
        if self.conn:
            self.conn.close()


class Listener:
    """LISTEN on a connection of its own: with db.listen('c') as ear: ...; ear.wait(5)."""

    def __init__(self, db, channel):
        self.conn = db.connect()
        self.conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def wait(self, timeout=10.0):
        """The payload of the next notification."""
        deadline = time.monotonic() + timeout
        while True:
            self.conn.pgconn.consume_input()
            if note := self.conn.pgconn.notifies():
                return note.extra.decode()
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.conn.pgconn.socket], [], [], left)[0]:
                raise AssertionError(f"no notification within {timeout} s")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.conn.close()


class Node:
    """A real `pgrab run`.  Options are its flags: dead_after='4s' is --dead-after 4s, None leaves a default out."""

    DEFAULTS = {"heartbeat": "200ms", "fence_after": "1s", "dead_after": "4s", "kill_grace": "500ms",
                "drain_timeout": "2s", "allow": ALLOW_ALL}

    def __init__(self, db, name, folder, env=None, dsn=None, binary=None, **options):
        self.db, self.name = db, name
        self.log_path = Path(folder) / f"{name}.{time.monotonic_ns()}.log"
        self.command = [binary or pgrab_bin(), "run", "--dsn", dsn or db.dsn, "--name", name]
        if db.schema != SCHEMA:
            self.command += ["--schema", db.schema]
        for key, value in {**self.DEFAULTS, **options}.items():
            if value is not None:
                self.command += ["--" + key.replace("_", "-"), str(value)]
        with open(self.log_path, "wb") as log:
            # A session of its own: a Ctrl-C is for the tests, which then end the node in their own order.
            self.proc = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         env=clean_env(**(env or {})), start_new_session=True)
        self.pid = self.proc.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def memory(self, what="VmRSS"):
        """In MB; VmHWM is the most that it has had."""
        return int(re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text()).group(1)) // 1024

    def running(self):
        return self.proc.poll() is None

    def incarnation(self):
        return self.db.one("select incarnation from pgrab.node where name = %s and pid = %s", self.name, self.pid)

    def wait_up(self, timeout=10.0):
        """Waits until its row says up; fails at once when the process ends before that."""
        def up():
            assert self.running(), f"node {self.name} ended with {self.proc.returncode}:\n{self.log()[-4000:]}"
            return self.db.one("select true from pgrab.node where name = %s and pid = %s and state = 'up'",
                               self.name, self.pid)
        wait_until(up, timeout, f"node {self.name} to be up")
        return self

    def wait_log(self, pattern, timeout=10.0):
        """Waits until its log matches a regular expression; returns the match."""
        return wait_until(lambda: re.search(pattern, self.log()), timeout, f"/{pattern}/ in the log of {self.name}")

    def wait_exit(self, timeout=10.0):
        """Its exit status; -9 when a SIGKILL ended it."""
        try:
            return self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"node {self.name} still runs after {timeout} s") from None

    def kill9(self):
        """Ends the node's process at once; what it had forked is the keeper's to end."""
        self.proc.kill()
        return self.wait_exit(10)

    def term(self):
        self.proc.send_signal(signal.SIGTERM)

    def stop(self):
        """Freezes it."""
        self.proc.send_signal(signal.SIGSTOP)

    def cont(self):
        self.proc.send_signal(signal.SIGCONT)

    def end(self, timeout=10.0):
        """Ends it in order, thawed if it was frozen; kills it and fails when it does not end."""
        if not self.running():
            return
        self.cont()
        self.term()
        try:
            self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"node {self.name} did not end within {timeout} s of a SIGTERM") from None


class Nodes:
    """The nodes of one test.  pooled: starts a pooler when there is none yet, and says its DSN."""

    def __init__(self, db, folder, pooled=None):
        self.db, self.folder, self.pooled, self.all = db, folder, pooled, []

    def start(self, name="n1", wait=True, **options):
        if self.pooled and "dsn" not in options:
            options = {"listen_dsn": self.db.dsn, **options, "dsn": self.pooled()}
        node = Node(self.db, name, self.folder, **options)
        self.all.append(node)
        return node.wait_up() if wait else node

    def hang_up(self):
        """Who stays in the database when no node runs: the connections of a pooler."""
        if self.pooled:
            self.db.cluster.superuser(f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{self.db.name}'")

    def end(self):
        """Signals all of them first, so that they drain side by side; then fails for the first that did not end."""
        for node in filter(Node.running, self.all):
            node.cont()
            node.term()
        faults = []
        for node in self.all:
            try:
                node.end()
            except AssertionError as e:
                faults.append(str(e))
        assert not faults, "\n".join(faults)


def process_table():
    """pid -> (parent, state, command name) of every process."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text(errors="replace")
            except OSError:
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            table[int(entry)] = (int(parent), state, name)
    return table


def alive(pid):
    """Whether a process exists and is no zombie: the orphans of a killed node become ours to reap."""
    return process_table().get(pid, (0, "Z", ""))[1] not in "ZX"


def reap(only=None):
    """Collects the zombies that were handed to us, all or those of one command name.

    All is for the end of a test: before that it would take the exit status of a Popen from its owner.
    """
    for pid, (parent, state, name) in process_table().items():
        if parent == os.getpid() and state == "Z" and only in (None, name):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def descendants():
    """The living processes below this one, PostgreSQL's apart.  Needs conftest's subreaper to see orphans."""
    table, found = process_table(), []
    children = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    todo = list(children.get(os.getpid(), []))
    while todo:
        pid = todo.pop()
        if table[pid][2] == "postgres":
            continue
        todo += children.get(pid, [])
        if table[pid][1] not in "ZX":
            found.append(pid)
    return found


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "(gone)"


def end_leftovers(timeout=5.0):
    """Gives what a test has started so long to be gone; kills the rest and returns their command lines."""
    try:
        wait_until(lambda: not descendants(), timeout)
    except AssertionError:
        left = {pid: command_line(pid) for pid in descendants()}
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return [f"{pid}: {line}" for pid, line in left.items()]
    finally:
        reap()
    return []
