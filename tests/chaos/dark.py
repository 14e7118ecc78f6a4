"""Blackouts in the load of a seed: two windows for some tasks, of which one is ended early, and the rule for them."""
import collections
import random
import threading
import time

import psycopg

Window = collections.namedtuple("Window", "since until")  # acknowledged; its end, or when somebody began to end it


class Dark:
    """load: where the tasks are inserted that windows are for."""

    def __init__(self, load, seed, over):
        self.load, self.db, self.over = load, load.db, over
        self.rng = random.Random(f"{seed} dark")
        self.windows, self.thread = [], None

    def begin(self):
        for i in range(10):
            run_at = self.db.one("select now() + %s * interval '1 s'", self.rng.uniform(0.5, 9))
            self.load.shell("once", f"dark{i}", most=0.3, run_at=run_at)
        first, second = self.rng.uniform(0.5, 2), self.rng.uniform(5, 6)
        self.thread = threading.Thread(target=lambda: (self.window(first, 3, None), self.window(second, 60, self.rng.uniform(1, 3))), daemon=True)
        self.thread.start()

    def until(self, statement, *given):
        """Until it is acknowledged: what it returns, and when.  None: all is over."""
        while not self.over.is_set():
            try:
                with self.db.connect() as conn:
                    rows = conn.execute(statement, given)
                    return rows.fetchone() if rows.description else None, time.time()
            except psycopg.Error:
                self.over.wait(0.05)
        return None, None

    def window(self, wait, lasts, ended_after):
        """ended_after: seconds, after which somebody ends it."""
        name = f"dark {lasts}"
        self.over.wait(wait)
        self.until("""insert into pgrab.blackout (name, during, task_like) values (%s, tstzrange(now(), now() + %s * interval '1 s'), 'dark%%')
                      on conflict (name) do nothing""", name, lasts)
        row, since = self.until("select extract(epoch from upper(during))::float8 as until from pgrab.blackout where name = %s", name)
        if row is None:
            return
        until = row.until
        if ended_after is not None:
            self.over.wait(ended_after)
            until = min(until, time.time())
            self.until("select pgrab.delete_blackout(%s)", name)
        self.windows.append(Window(since, until))

    def settle(self):
        self.thread.join(30)


def closed(h):
    """I21: nothing that a window holds is let start from its commit to its end."""
    return [f"I21 {name}: started {at - w.since:.3f} s after its window was acknowledged, {w.until - at:.3f} s before its end"
            for name, at in h.begun if name is not None and name.startswith("dark") for w in h.windows if w.since < at < w.until]


CHECKS = [closed]
