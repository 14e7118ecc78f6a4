"""When, in the load of a seed: two blackouts, of which one is ended early; a schedule with a calendar that is edited; past fires that
are made up for; alerts by the clock.  And the rules for them."""
import collections
import random
import threading
import time

import psycopg

Window = collections.namedtuple("Window", "since until")  # acknowledged; its end, or when somebody began to end it
PAST = 12  # fires that are made up for


class When:
    """load: where the tasks are inserted that windows are for."""

    def __init__(self, load, seed, over):
        self.load, self.db, self.over = load, load.db, over
        self.rng = random.Random(f"{seed} dark")
        self.windows, self.thread = [], None

    def begin(self):
        for i in range(10):
            run_at = self.db.one("select now() + %s * interval '1 s'", self.rng.uniform(0.5, 9))
            self.load.shell("once", f"dark{i}", most=0.3, run_at=run_at)
        self.db.query("insert into pgrab.calendar (name, closed_weekdays) values ('daily', '{}')")
        self.load.shell("grid", "daily", most=0.2, schedule="@every 1s", misfire="all", misfire_limit=1000, misfire_after="10 min", calendar="daily")
        self.load.effect("past", "past", schedule="0 0 1 * *")
        for name, schedule in (("alive", "@every 1s"), ("digest", "@every 3s")):
            self.db.query("insert into pgrab.alert (name, events, schedule, template) values (%s, array[%s], %s, '{\"kind\": \"noop\"}')", name, name, schedule)
        first, second = self.rng.uniform(0.5, 2), self.rng.uniform(5, 6)
        self.thread = threading.Thread(target=lambda: (self.window(first, 3, None), self.edit(), self.window(second, 60, self.rng.uniform(1, 3))), daemon=True)
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

    def edit(self):
        """The calendar, which plans its tasks again, to the same fires; and the past, once: the batch is made with the acknowledgement."""
        self.until("insert into pgrab.calendar_day (calendar, day) values ('daily', '2099-01-01') on conflict do nothing")
        self.until("""select pgrab.backfill('past', date_trunc('month', now()) - interval '11 months', now(), 3)
            where not exists (select from pgrab.event where what = 'backfill')""")

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
        self.db.query("delete from pgrab.alert")


def closed(h):
    """I21: nothing that a window holds is let start from its commit to its end.  Says when the start was asked for, too: what is being
    started at the very moment of the commit runs (docs/calendar.md), and is found guilty here all the same."""
    return [f"I21 {b.name}: started {b.at - w.since:.3f} s after its window was acknowledged, {w.until - b.at:.3f} s before its end, "
            f"as was asked for {b.at - b.asked_at:.3f} s before that"
            for b in h.begun if b.name is not None and b.name.startswith("dark") for w in h.windows if w.since < b.at < w.until]


def past(h):
    """I22: each past fire that is made up for is carried out exactly once."""
    if "past" not in h.promises:
        return []
    fires = collections.Counter(r.fire_at for r in h.runs["past"] if r.outcome == "succeeded")
    return [f"I22 past: fire {t} has succeeded {n} times" for t, n in fires.items() if n > 1] + (
        [] if len(fires) == h.effects.get("past") == PAST else [f"I22 past: {len(fires)} fires and {h.effects.get('past', 0)} effects of {PAST}"])


def told(h):
    """I23: alerts by the clock are told, whoever dies."""
    return [f"I23 {name}: was never told" for name in ("alert: cluster", "alert: digest digest")
            if "past" in h.promises and not any(r.outcome == "succeeded" for r in h.runs[name])]


CHECKS = [closed, past, told]
