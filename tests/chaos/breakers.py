"""A service that fails for a while, under limits that break, while nodes and the server are killed."""
import threading

from cluster import wait_until
from orders import OrderArena

AFTER = 2           # failures in a row that break a limit
KEYS = ["service", "tenant:a", "tenant:b"]
TASKS = 8           # under each


class Service:
    """Tasks that succeed only while it is up, and a note of each change of how a limit is used."""

    def __init__(self, db, rng):
        self.db, self.rng = db, rng

    def begin(self):
        self.db.query("""
            create table public.up (yes boolean);
            insert into public.up values (false);
            create table public.used (key text, no bigint, at timestamptz, taken bigint, failures integer, until timestamptz);
            create function public.note_used() returns trigger language plpgsql as
              'begin insert into public.used values (new.key, new.no, clock_timestamp(), new.taken, new.failures, new.broken_until); return null; end';
            create trigger zz_used after insert on pgrab.limit_use for each row execute function public.note_used();
            insert into pgrab.limit (key, max_running, break_after, break_for)
              values ('service', 4, %s, '300 ms'), ('tenant:*', null, %s, '500 ms')""" % (AFTER, AFTER))
        for key in KEYS:
            for i in range(TASKS):
                work = f"select pg_sleep({self.rng.uniform(0, 0.2):.2f}), 1 / (select yes::integer from public.up)"
                self.db.query("""insert into pgrab.task (key, command, limit_key, max_attempts, backoff, run_at)
                    values (%s, %s, %s, 1000, '50 ms', now() + %s * interval '1 s')""", f"{key} {i}", work, key, self.rng.uniform(0, 3))

    def set_up(self, yes):
        self.db.query("update public.up set yes = %s", yes)

    def has_broken(self):
        return self.db.one("select exists (select from public.used where failures >= %s)", AFTER)

    def caught_up(self):
        return True

    def left(self):
        return self.db.query("select key as name, status, attempt, last_error from pgrab.task")

    def size(self):
        return len(KEYS) * TASKS

    def starts(self):
        return self.db.one("select count(*) from public.used")

    def close(self):
        pass


class BreakerArena(OrderArena):
    KINDS = ["kill"] * 5 + ["freeze", "term", "cut_all", "half", "backends", "black"] + ["cuts"] * 4
    WORDS = ["claim", "limit", "limit", "start", "finish", "finish", "commit", "beat"]

    def prepare(self):
        self.load = Service(self.db, self.rng)
        self.config = None

    def begin(self):
        self.load.begin()
        for i in range(self.NODES):
            self.start(i)
        moments = sorted(self.rng.uniform(0, self.SECONDS) for _ in range(4))  # up, down, up, down
        self.moods = threading.Thread(target=self.change, args=(moments,), daemon=True)
        self.moods.start()

    def has_broken(self):
        with self.server_lock:
            return self.load.has_broken()

    def change(self, moments):
        wait_until(self.has_broken, 30, "a limit to break")
        before = 0
        for n, moment in enumerate(moments):
            self.over.wait(moment - before)
            before = moment
            with self.server_lock:
                self.load.set_up(n % 2 == 0)

    def settle(self):
        self.moods.join(60)
        self.load.set_up(True)

    def judge(self):
        runs = self.db.query("select key as name, outcome, ended from pgrab.run")
        used = self.db.query("select * from public.used order by key, no, at")
        (self.folder / "used").write_text("".join(f"{row}\n" for row in used), encoding="utf-8")
        return check(runs, used)


# --- the checker


def ended(runs):
    """I1: each of them succeeds once, however long it was down."""
    done = [r.name for r in runs if r.ended == "done"]
    return [f"I1 {key} {i}: has succeeded {done.count(f'{key} {i}')} times" for key in KEYS for i in range(TASKS) if done.count(f"{key} {i}") != 1]


def single(used):
    """I20: while a limit is broken nothing starts before its time, and then one at a time; each change is noted under its lock."""
    faults = []
    for old, new in zip(used, used[1:]):
        if old.key == new.key and old.failures >= AFTER and new.failures >= AFTER and new.taken > old.taken:
            if new.taken > 1:
                faults.append(f"I20 {new.key}: {new.taken} run while it is broken (change {new.no})")
            if old.until is not None and new.at < old.until:
                faults.append(f"I20 {new.key}: one was let start {old.until - new.at} too early (change {new.no})")
    return faults


def broken(used):
    """That something was tried at all."""
    return [] if any(u.failures >= AFTER for u in used) else ["harness: no limit has broken"]


def check(runs, used):
    return ended(runs) + single(used) + broken(used)
