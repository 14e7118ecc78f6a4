"""What the nodes have to do while they are hurt: tasks of which each leaves a trace, and what has to come of them."""
import json

from cluster import wait_until
from probe import Probe


class Load:
    """The tasks of one seed."""

    def __init__(self, db, folder, rng):
        self.db, self.rng = db, rng
        self.probe = Probe(folder)
        self.steps_file = folder / "steps"  # what handlers have done in their steps
        self.steps_file.touch()
        self.promises = {}  # name -> once, amo, grid, sql, sqlgrid, link, limited; and those of waits.py and when.py
        self.parents = {}   # name of a link -> names of its parents
        self.acks = []      # (name, what, at): a person was told so; nothing starts after it

    def insert(self, promise, name, conn=None, **columns):
        columns = {"name": name, "key": name, "backoff": "50 ms", "max_attempts": 100, **self.place(), **columns}
        if columns.get("delivery") == "at_most_once":
            columns.pop("preemptible", None)
        values = [json.dumps(v) if isinstance(v, dict) else v for v in columns.values()]
        (conn or self.db).query(f"insert into pgrab.task ({', '.join(columns)}) values ({', '.join(['%s'] * len(values))}) "
                                "on conflict (key) do nothing", *values)
        self.promises[name] = promise

    def place(self):
        """Some take turns and are under quotas, some prefer nodes of which none may be there, and some give way to others."""
        shared = {"share_key": self.rng.choice("xyz")} if self.rng.random() < 0.3 else {}
        preferred = {"prefer": {"site": self.rng.choice("ab")}, "failover_after": "1 s"} if self.rng.random() < 0.2 else {}
        urgent = self.rng.choice([{"preemptible": True}, {"preemptible": True}, {"priority": 10}, {}])
        return {**shared, **preferred, **urgent}

    def slots(self):
        """Some take several of the four workers of a node."""
        return {"slots": self.rng.choice([2, 3, 4])} if self.rng.random() < 0.15 else {}

    def shell(self, promise, name, most=1.0, **columns):
        seconds = round(self.rng.uniform(0, most), 2)
        self.insert(promise, name, **self.probe.shell(name, seconds=seconds, deaf=self.rng.random() < 0.1), **self.slots(), **columns)

    def effect(self, promise, name, **columns):
        self.insert(promise, name, command=f"insert into public.effect select '{name}', pg_sleep({self.rng.uniform(0, 0.3):.2f})::text", **self.slots(), **columns)

    def chain(self, i):
        """a -> b, c -> d, which waits for both."""
        a, b, c, d = (f"chain{i}{x}" for x in "abcd")
        conn = self.db.connect(autocommit=False)
        with conn:
            ids = {}
            for name, parent in ((a, None), (b, a), (c, a), (d, b)):
                work = self.probe.shell(name, seconds=round(self.rng.uniform(0, 0.4), 2))
                row = conn.execute("""insert into pgrab.task (name, key, kind, command, args, parent_id, backoff, max_attempts, run_at)
                    values (%s, %s, 'shell', %s, %s, %s, '50 ms', 100, now() + %s * interval '1 s') returning id""",
                    [name, name, work["command"], json.dumps(work["args"]), ids.get(parent), self.rng.uniform(0, 4) if parent is None else 0]).fetchone()
                ids[name] = row[0]
                self.promises[name] = "link"
                self.parents[name] = [parent] if parent else []
            conn.execute("insert into pgrab.edge (parent_id, child_id) values (%s, %s)", [ids[c], ids[d]])
            self.parents[d].append(c)
        conn.close()

    def note_starts(self):
        """When the database let each run start; the history says when its program began, which a busy machine does later."""
        self.db.query("""
            create table public.begun (name text, at timestamptz, asked_at timestamptz);
            create function public.note_begun() returns trigger language plpgsql as
              'begin insert into public.begun values (new.name, clock_timestamp(), statement_timestamp()); return null; end';
            create trigger zz_begun after update of status on pgrab.task for each row
              when (new.status = 'running' and old.status <> 'running') execute function public.note_begun()""")

    def begin(self):
        rng, soon = self.rng, lambda: f"{rng.uniform(0, 6):.2f} s"
        self.db.query("create table public.effect (name text not null, x text)")
        self.note_starts()
        self.db.query("insert into pgrab.limit (key, max_running) values ('two', 2)")
        self.db.query("insert into pgrab.quota (share_key, max_running, max_tasks, when_full) values ('*', 3, null, 'refuse'), ('y', 3, 4, 'hold')")
        for i in range(30):
            self.later("once", f"once{i}", soon())
        for i in range(10):
            self.later("amo", f"amo{i}", soon(), delivery="at_most_once", max_attempts=1)
        for i in range(8):
            self.later("limited", f"limited{i}", soon(), most=0.5, limit_key="two")
        for i in range(3):
            self.shell("grid", f"grid{i}", most=0.2, schedule="@every 1s", misfire="all", misfire_limit=1000, misfire_after="10 min")
        for i in range(20):
            self.effect("sql", f"sql{i}")
        for i in range(2):
            self.effect("sqlgrid", f"sqlgrid{i}", schedule="@every 1s", misfire="all", misfire_limit=1000, misfire_after="10 min")
        for i in range(3):
            self.chain(i)
        self.db.query("update pgrab.task set run_at = now() + (hashtext(name) & 4095) * interval '1.5 ms' where name like 'sql%%' and schedule is null")

    def later(self, promise, name, delay, most=1.0, **columns):
        self.shell(promise, name, most=most, **columns)
        self.db.query("update pgrab.task set run_at = now() + %s::interval where key = %s", delay, name)

    def pools(self, tasks):
        """Once a node has told the database of their kinds."""
        wait_until(lambda: self.db.one("select exists (select from pgrab.pool)"), 20, "the kinds of the pools")
        for promise, name, delay, columns in tasks:
            self.insert(promise, name, run_at=self.db.one("select now() + %s * interval '1 s'", delay), **columns)

    def caught_up(self):
        """Every schedule is in time again."""
        return self.db.one("select bool_and(fire_at > now() - interval '1500 ms') from pgrab.task where schedule is not null")

    def settle(self):
        """No more fires: what is due still runs."""
        self.db.query("update pgrab.task set paused = true where schedule is not null")

    def left(self):
        """What has still to come to its end."""
        return self.db.query("""select name, status, attempt, last_error from pgrab.task
            where status = 'running' or schedule is null and not paused and status <> 'parked'""")

    def size(self):
        return len(self.promises)

    def starts(self):
        return len(self.probe.events("start"))

    def close(self):
        self.probe.close()
