"""What something cost: CPU of processes and of the server, log, commits, statements."""
import os
import time
from pathlib import Path

from server import MEASURED_ROLE

TICKS = os.sysconf("SC_CLK_TCK")


def process_times():
    """pid -> (parent, own ticks, ticks of the children it has waited for) of every process."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            table[int(entry)] = (int(fields[1]), sum(map(int, fields[11:13])), sum(map(int, fields[13:15])))
    return table


def tree_cpu_s(pids, without=(), table=None):
    """What these processes and all below them have used, the ended ones too as far as somebody has waited for them."""
    table = table or process_times()
    children = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    todo, ticks = [pid for pid in pids if pid in table], 0
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        if pid not in without:
            ticks += table[pid][1] + table[pid][2]
    return ticks / TICKS


class Meter:
    """From its making to stop(); counted() is asked when the processes have ended, because backends count when they are idle or gone."""

    def __init__(self, database, processes=()):
        self.db, self.server = database, database.server
        self.processes = list(processes)
        self.statements, self.commits = self.statement_count(), self.commit_count()
        self.lsn = self.server.one("select pg_current_wal_insert_lsn()")
        table = process_times()
        self.server_cpu, self.client_cpu = self.server_cpu_s(table), self.client_cpu_s(table)
        self.began = time.time()

    def client_cpu_s(self, table):
        return tree_cpu_s([p.proc.pid for p in self.processes], table=table)

    def server_cpu_s(self, table):
        return tree_cpu_s([self.server.postmaster], without=(self.db.backend,), table=table)

    def commit_count(self):
        self.db.query("select pg_stat_force_next_flush()")
        return self.db.one("select xact_commit from pg_stat_database where datname = current_database()") - self.db.asked

    def statement_count(self):
        """Without those that the server itself runs for deferred foreign keys."""
        return self.server.one("select coalesce(sum(calls), 0) from pg_stat_statements s join pg_database d on d.oid = s.dbid "
                               "where datname = %s and userid = %s::regrole and query not like 'SELECT %% FROM ONLY %%'",
                               self.db.name, MEASURED_ROLE)

    def stop(self):
        self.seconds = time.time() - self.began
        table = process_times()
        self.client_cpu = self.client_cpu_s(table) - self.client_cpu
        self.server_cpu = self.server_cpu_s(table) - self.server_cpu
        self.end_lsn = self.server.one("select pg_current_wal_insert_lsn()")

    def counted(self, tasks):
        """Per task."""
        wal = self.server.one("select pg_wal_lsn_diff(%s, %s)", self.end_lsn, self.lsn)
        images = self.server.one("select coalesce(sum(fpi_size), 0) from pg_get_wal_stats(%s, least(%s, pg_current_wal_flush_lsn()), false)",
                                 self.lsn, self.end_lsn)
        self.db.wait_alone()
        return {"client_us": self.client_cpu * 1e6 / tasks, "server_us": self.server_cpu * 1e6 / tasks,
                "wal_b": float(wal) / tasks, "images_b": float(images) / tasks,
                "commits": max(0, self.commit_count() - self.commits) / tasks,
                "statements": float(self.statement_count() - self.statements) / tasks}
