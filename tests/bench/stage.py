"""What a benchmark stands on: the programs, a private server, processes that are measured, and readings of the server."""
import os
import subprocess
import tempfile
import time
from pathlib import Path

import cluster
import psycopg
from process import Failed, Process

ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")


def build(*targets):
    folder = ROOT / "build-release"
    done = subprocess.run([ROOT / "scripts/build", "--release", folder, *targets], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"the build failed:\n{done.stdout}{done.stderr}")
    return folder


class Stage:
    """With a server, a database with the schema, and the programs; everything is gone when it closes."""

    def __init__(self, args, progress):
        self.args, self.progress = args, progress
        self.cluster = self.conn = None
        self.processes = []
        self.logs = tempfile.TemporaryDirectory(prefix="pgrab-bench.")

    def __enter__(self):
        try:
            self.progress.show("building")
            folder = build("tests/bench/floor", *([] if self.args.bin else ["src/pgrab"]))
            self.floor = folder / "tests/bench/floor"
            self.pgrab = os.path.abspath(self.args.bin or folder / "src/pgrab")
            if not os.access(self.pgrab, os.X_OK):
                raise Failed(f"{self.pgrab} is not a program")
            os.environ["PGRAB_BIN"] = self.pgrab  # for the cluster, which migrates
            self.progress.show("starting PostgreSQL")
            self.cluster = cluster.Cluster(stoppable=True)
            self.dsn = self.cluster.dsn_of(self.cluster.create_database())
            self.connect()
            self.must_be_durable()
            # Tells full-page images from the rest of the log.
            self.query("create extension if not exists pg_walinspect")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for process in self.processes:
            process.kill()
        if self.conn:
            self.conn.close()
        if self.cluster:
            self.cluster.close()
        self.logs.cleanup()

    def connect(self):
        self.conn = psycopg.connect(self.dsn, autocommit=True, user="postgres")  # checkpoints are a superuser's
        self.postmaster = self.cluster.pg_pid()

    def count_statements(self):
        """From here on pg_stat_statements says what each costs; the server is started anew."""
        self.query("alter system set shared_preload_libraries = 'pg_stat_statements'")
        self.conn.close()
        self.cluster.pg_stop()
        self.cluster.pg_start()
        self.connect()
        self.query("create extension pg_stat_statements")

    def must_be_durable(self):
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            value = self.one(f"show {name}")
            if value != "on":
                raise Failed(f"{name} is {value}: a number without durable commits says nothing")

    def query(self, statement, *params):
        found = self.conn.execute(statement, params or None)
        return found.fetchall() if found.description else []

    def one(self, statement, *params):
        return self.query(statement, *params)[0][0]

    def start(self, name, *command):
        process = Process(command, Path(self.logs.name) / f"{name}.log")
        self.processes.append(process)
        return process

    def start_node(self, name, **options):
        flags = dict(option.split("=", 1) for option in self.args.node_option)
        words = [word for key, value in {**options, **flags}.items() for word in (f"--{key}", value)]
        return self.start(name, self.pgrab, "run", "--dsn", self.dsn, "--name", name, *words)

    def start_floor(self, connections):
        return self.start("floor", self.floor, "--dsn", self.dsn, "--connections", connections)

    def wait_up(self, nodes, timeout=20):
        def up():
            for node in nodes:
                node.must_run()
            return self.one("select count(*) from pgrab.node where state = 'up'") == len(nodes)
        cluster.wait_until(up, timeout, "the nodes to be up")

    def reset(self):
        """No tasks, no history, no nodes, and nothing left for the server to do."""
        self.query("truncate pgrab.task, pgrab.run, pgrab.registration, pgrab.beat")

    def settle(self):
        self.query("vacuum analyze pgrab.task")
        self.query("vacuum analyze pgrab.run")
        self.query("checkpoint")

    def history_bytes(self):
        """Grows with every batch of finished tasks; costs the server nothing to tell."""
        return self.one("select sum(pg_relation_size(i.inhrelid)) from pg_inherits i where i.inhparent = 'pgrab.run'::regclass")

    def server_cpu_s(self):
        """All the server has used: the postmaster, its children that ended, and those that live."""
        ticks = 0
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            if int(entry) == self.postmaster:
                ticks += sum(map(int, fields[11:15]))  # its own, and of the children it has waited for
            elif int(fields[1]) == self.postmaster:
                ticks += sum(map(int, fields[11:13]))
        return ticks / TICKS


class Reading:
    """The server's counters between two moments.  Backends count their commits when they end: read after that."""

    def __init__(self, st):
        self.st = st
        self.lsn = st.one("select pg_current_wal_insert_lsn()")
        self.commits = self.committed()
        self.cpu_s = st.server_cpu_s()
        self.began = time.time()

    def committed(self):
        self.st.query("select pg_stat_force_next_flush()")
        return self.st.one("select xact_commit from pg_stat_database where datname = current_database()")

    def per_task(self, tasks, own_queries):
        """own_queries: commits of the benchmark itself in between."""
        st, now = self.st, self.st.one("select pg_current_wal_insert_lsn()")
        commits = self.committed() - self.commits - own_queries
        cpu_s = st.server_cpu_s() - self.cpu_s
        wal = st.one("select pg_wal_lsn_diff(%s, %s)", now, self.lsn)
        # It reads what is flushed; the rest is a commit or two.
        images = st.one("select sum(fpi_size) from pg_get_wal_stats(%s, least(%s, pg_current_wal_flush_lsn()), false)", self.lsn, now)
        return {"wal_bytes": float(wal) / tasks, "wal_image_bytes": float(images) / tasks, "commits": max(commits, 0) / tasks,
                "server_cpu_us": cpu_s * 1e6 / tasks}
