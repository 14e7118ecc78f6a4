"""The private server of a comparison: one configuration for all, a role for what is measured, databases made from templates."""
import itertools
from pathlib import Path

import cluster
import psycopg

ROOT = Path(__file__).resolve().parents[2]

CONFIG = Path(__file__).with_name("postgresql.conf")
MEASURED_ROLE = "contender"  # what it runs is told from what the benchmark asks


def settings_of(path):
    """name -> value of a file of `name = value` lines."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines if line)}


class Database:
    """One database and the benchmark's own connection to it, whose statements are counted so that they can be left out."""

    def __init__(self, server, name):
        self.server, self.name, self.asked = server, name, 0
        self.conn = psycopg.connect(server.dsn(name), autocommit=True)
        self.backend = self.conn.info.backend_pid
        self.query("set max_parallel_workers_per_gather = 0")  # a worker would count as a commit

    @property
    def dsn(self):
        return self.server.dsn(self.name, MEASURED_ROLE)

    def query(self, statement, *params):
        self.asked += 1
        found = self.conn.execute(statement, params or None)
        return found.fetchall() if found.description else []

    def one(self, statement, *params):
        return self.query(statement, *params)[0][0]

    def settle(self):
        """Nothing is left for the server to do, and the log begins at a checkpoint."""
        self.query("vacuum analyze")
        self.query("checkpoint")

    def wait_alone(self):
        """What the backends of a process that ended have counted is known when they are gone."""
        cluster.wait_until(lambda: not self.query("select from pg_stat_activity where datname = current_database() and usename = %s",
                                                  MEASURED_ROLE), 30, f"the connections to {self.name} to end")

    def close(self):
        self.conn.close()


class Server:
    """Everything is gone when it closes."""

    def __init__(self, settings, pg_bin=None):
        self.numbers = itertools.count(1)
        self.admin = None
        self.cluster = cluster.Cluster(stoppable=True, pg_bin=pg_bin)
        try:
            self.configure({**settings_of(CONFIG), **settings})
            self.admin = psycopg.connect(self.dsn("postgres"), autocommit=True)
            self.must_be_durable()
            self.admin.execute(f"create role {MEASURED_ROLE} superuser login")
            self.admin.execute("create extension pg_walinspect")  # tells full-page images from the rest of the log
            self.admin.execute("create extension pg_stat_statements")
            self.postmaster = self.cluster.pg_pid()
        except BaseException:
            self.close()
            raise

    def configure(self, settings):
        conn = psycopg.connect(self.dsn("postgres"), autocommit=True)
        for name, value in settings.items():
            conn.execute(f"alter system set {name} = '{value}'")
        conn.close()
        self.cluster.pg_stop()
        self.cluster.pg_start()

    def must_be_durable(self):
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            if self.one(f"show {name}") != "on":
                raise AssertionError(f"{name} is off: a number without durable commits says nothing")

    def set(self, name, value):
        """At once, and for sessions to come, until it is set again.  None: what the configuration says."""
        value = value or settings_of(CONFIG).get(name)
        self.admin.execute(f"alter system set {name} = '{value}'" if value else f"alter system reset {name}")
        self.admin.execute("select pg_reload_conf()")
        cluster.wait_until(lambda: not self.admin.execute(
            "select from pg_file_settings f join pg_settings s using (name) where name = %s and applied and f.setting <> s.setting",
            [name]).fetchall(), 10, f"{name} to be in force")

    def one(self, statement, *params):
        return self.admin.execute(statement, params or None).fetchone()[0]

    def dsn(self, name, user="postgres"):
        return psycopg.conninfo.make_conninfo(self.cluster.dsn, dbname=name, user=user)

    def create(self, template=None):
        name = f"bench{next(self.numbers)}"
        self.admin.execute(f"create database {name}" + (f" template {template}" if template else ""))
        return Database(self, name)

    def drop(self, database):
        database.close()
        self.admin.execute(f"drop database {database.name} with (force)")

    def environment(self, database):
        """libpq's variables, for programs that take no DSN."""
        info = psycopg.conninfo.conninfo_to_dict(database.dsn)
        return {"PGHOST": info["host"], "PGPORT": str(info["port"]), "PGUSER": info["user"], "PGDATABASE": info["dbname"]}

    def tool(self, name):
        """A program of PostgreSQL's own: pgbench.  Servers from elsewhere come without, and Debian's talks to all."""
        own = Path(f"/proc/{self.postmaster}/exe").resolve().with_name(name)
        return own if own.exists() else Path("/usr/lib/postgresql/15/bin") / name

    def close(self):
        if self.admin:
            self.admin.close()
        self.cluster.close()
