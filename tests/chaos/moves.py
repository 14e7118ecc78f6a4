"""What the server's own log says of each task, replayed: every change of a status is a move of the table of the door, and version,
holder and attempt change with it as the model (tests/model/protocol.pml) says.

A replication slot decodes the log, so nothing is added to the database that could change what happens there."""
import os
import re
from collections import Counter

VALUE = re.compile(r" (\w+)\[[^\]]*(?:\[\])?\]:('(?:[^']|'')*'|\S+)")
CHANGE = re.compile(r"^table (\w+)\.task: (INSERT|UPDATE|DELETE):")
HELD = {"claimed", "running"}
AT_A_TIME = 20000


def row(line):
    """The columns that count.  A column that was not changed may be left out."""
    values = {}
    for name, value in VALUE.findall(line):
        if name in ("id", "version", "attempt", "max_attempts", "incarnation"):
            values.setdefault(name, int(value) if re.fullmatch(r"-?\d+", value) else None)
        elif name == "status":
            values.setdefault(name, value.strip("'"))
    return values


def wrong(was, now, table):
    """What the model does not have, in words; empty if it is well."""
    move = (was["status"], now["status"])
    if move[0] != move[1] and move not in table:
        yield "no move of the table"
    if now["version"] < was["version"]:
        yield f"version {was['version']} became {now['version']}"
    stays = move == ("claimed", "running") or move[0] == "running" and move[1] == "waiting" and now["incarnation"] is not None
    if move[0] != move[1] and not stays and now["version"] == was["version"]:
        yield f"version {was['version']} stayed"
    if stays and now["incarnation"] != was["incarnation"]:
        yield f"incarnation {was['incarnation']} became {now['incarnation']}"
    if (now["status"] in HELD) != (now["incarnation"] is not None) and now["status"] != "waiting":
        yield f"incarnation is {now['incarnation']}"
    if move[1] == "running" and move[0] != "running" and now["attempt"] != was["attempt"] + 1:
        yield f"attempt {was['attempt']} became {now['attempt']}"
    if move[1] == "running" and now["attempt"] > now["max_attempts"]:
        yield f"attempt {now['attempt']} of {now['max_attempts']}"


def replay(lines, table, tasks, moves):
    """tasks: the rows so far, by id; moves: how often each was made.  Both are carried on."""
    for line in lines:
        change = CHANGE.match(line)
        if not change:
            continue
        now = row(line)
        was = tasks.pop(now["id"], None)
        if change[2] == "DELETE":
            continue
        tasks[now["id"]] = now
        if was is not None:
            moves[was["status"], now["status"]] += was["status"] != now["status"]
            for fault in wrong(was, now, table):
                yield f"I24 task {now['id']}: {was['status']} -> {now['status']}: {fault}"


class Moves:
    """The slot of one database, from before its first task."""

    def __init__(self, db):
        self.db, self.slot = db, f"moves_{db.name}"[-63:]
        if db.one("show wal_level") != "logical":
            db.cluster.superuser("alter system set wal_level = logical")
            db.cluster.pg_stop()
            db.cluster.pg_start()
        self.made = Counter()
        self.ask("select pg_create_logical_replication_slot(%s, 'test_decoding')", self.slot)

    def ask(self, statement, *values):
        with self.db.connect(user=os.environ.get("PGRAB_SUPERUSER", "postgres")) as conn:
            return conn.execute(statement, values).fetchall()

    def faults(self):
        """Reads all that is in the slot."""
        table = {(r.was, r.becomes) for r in self.db.query("select distinct was, becomes from pgrab_internal.transition")}
        tasks, faults = {}, []
        while True:
            rows = self.ask("select data from pg_logical_slot_get_changes(%s, null, %s)", self.slot, AT_A_TIME)
            faults += replay((r[0] for r in rows), table, tasks, self.made)
            if not rows:
                return faults

    def close(self):
        self.ask("select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s", self.slot)
