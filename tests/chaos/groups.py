"""Short sql tasks in the load of a seed, of two owners and many at a time, so that nodes with sql_group carry out several of them in one
transaction: texts that fail, wait for each other's locks, leave something in the session or end it; and people who stop some of them."""
import collections
import random
import threading
import time

import psycopg
from cluster import conninfo
from faults import LENGTHS

OTHER = "chaos_other"  # an owner beside the nodes' own role
BURSTS, TASKS = 4, 40
SIZE = 20

EFFECT = "insert into public.effect select '{name}', pg_current_xact_id()::text"
TALLY = "update public.tally set n = n + 1 where id = {%s}"
TEXTS = [EFFECT] * 30 + [
    EFFECT + "; select pg_sleep({seconds})",
    EFFECT + "; " + TALLY % "a" + "; " + TALLY % "b",
    EFFECT + "; " + TALLY % "b" + "; " + TALLY % "a",
    EFFECT + "; select 1 / mod(nextval('public.flaky'), 3)",
    EFFECT + "; set local search_path = pg_temp; create temporary table effect (name text); listen spare; prepare spare as select 1",
    EFFECT + "; deallocate all; select pg_advisory_lock({a})",
    "insert into public.child values ('{name}'); insert into public.parent values ('{name}'); " + EFFECT,
    EFFECT + "; insert into pgrab.task (name, command, max_attempts) values ('{name} child', $$" + EFFECT.replace("{name}", "{name} child") + "$$, 100)",
    EFFECT + "; select pg_terminate_backend(pg_backend_pid()) where mod(nextval('public.flaky'), 3) = 0",
]


def draw(seed, seconds, nodes):
    """More faults, around the statements of a group: (at, name, arguments)."""
    rng = random.Random(f"{seed} groups faults")
    words = ["group", "group_finish", "group_finish", "commit", "commit"]
    cuts = [(rng.uniform(0.5, seconds), "cuts", {"words": [(rng.choice(words), rng.random() < 0.3) for _ in range(6)]}) for _ in range(2)]
    stuck = [(rng.uniform(0.5, seconds), "stuck", {}) for _ in range(2)]
    return [(round(at, 2), kind, {"node": rng.randrange(nodes), "length": rng.choice(LENGTHS[:3]), "pick": rng.random(), **more})
            for at, kind, more in cuts + stuck]


class Groups:
    """load: where the tasks are inserted."""

    def __init__(self, load, seed, over):
        self.load, self.db, self.over = load, load.db, over
        self.rng = random.Random(f"{seed} groups")
        self.sizes = [self.rng.choice([SIZE, SIZE, None]) for _ in range(10)]
        self.tallied, self.parents = [], []  # names
        self.thread = None

    def size(self, node):
        """The setting of a node."""
        return self.sizes[node]

    def section(self, dsn):
        """Of a node's file."""
        return f"[owner {OTHER}]\ndsn = {conninfo.make_conninfo(dsn, user=OTHER)}\n"

    def begin(self):
        self.db.query(f"""
            do $$ begin create role {OTHER} login; exception when duplicate_object then null; end $$;
            grant {OTHER} to current_user;
            grant usage on schema pgrab to {OTHER};
            grant select, insert on pgrab.task to {OTHER};
            create table public.tally (id int primary key, n int not null);
            insert into public.tally select i, 0 from generate_series(1, 4) i;
            create sequence public.flaky;
            create table public.parent (name text primary key);
            create table public.child (name text references public.parent deferrable initially deferred);
            grant all on public.effect, public.tally, public.parent, public.child, public.flaky to {OTHER}""")
        for burst in range(BURSTS):
            self.burst(burst, self.rng.uniform(0.5, 7))
        self.thread = threading.Thread(target=self.people, daemon=True)
        self.thread.start()

    def burst(self, number, delay):
        owner = self.rng.choice([None, OTHER])
        rows = []
        for i in range(TASKS):
            name, (a, b) = f"group{number}.{i}", self.rng.sample(range(1, 5), 2)
            text = self.rng.choice(TEXTS)
            rows.append((name, text.format(name=name, a=a, b=b, seconds=self.rng.choice([0.01, 0.08, 0.3]))))
            self.load.promises[name] = "sql"
            if "child', $$" in text:
                self.parents.append(name)
            if "tally" in text:
                self.tallied.append(name)
        with self.db.connect(autocommit=False, **({"user": owner} if owner else {})) as conn:
            conn.cursor().executemany("""insert into pgrab.task (name, command, max_attempts, backoff, run_at)
                values (%s, %s, 100, '50 ms', now() + %s * interval '1 s')""", [(*row, delay) for row in rows])

    def people(self):
        """What is running is what may be in a group."""
        while not self.over.wait(self.rng.uniform(0.1, 0.4)):
            act = self.rng.choice(["cancel", "cancel", "delete", "pause", "edit"])
            try:
                with self.db.connect() as conn:
                    task = conn.execute("""select id, name from pgrab.task where name like 'group%%' and name not like '%% child' and kind = 'sql'
                        and status = 'running' order by hashtext(name || %s) limit 1""", [str(self.rng.random())]).fetchone()
                    if task is None:
                        continue
                    if act == "edit":
                        conn.execute("update pgrab.task set priority = -1 where id = %s", [task.id])
                        continue
                    was = conn.execute(f"select status from pgrab.{act}(%s)", [task.id]).fetchall()
                    if act == "pause" or was and was[0].status == "cancelled":
                        self.load.acks.append((task.name, act, time.time()))
            except psycopg.Error:  # it has ended; or a fault is in the way
                pass

    def grouped(self):
        """How many effects shared their transaction with another one."""
        return self.db.one("select coalesce(sum(n) filter (where n > 1), 0)::int from (select count(*) as n from public.effect where name like 'group%%' group by x) s")

    def faults(self):
        """I6: what texts have counted together, and the tasks that they have inserted."""
        effects = collections.Counter(r.name for r in self.db.query("select name from public.effect"))
        expected, counted = 2 * sum(effects[name] for name in self.tallied), self.db.one("select sum(n) from public.tally")
        faults = [f"I6 {name}: {effects[name]} effects, and {effects[f'{name} child']} of the task that it has inserted"
                  for name in self.parents if effects[name] != effects[f"{name} child"]]
        return faults + ([] if counted == expected else [f"I6 tally: {counted} instead of {expected}"])
