#!/usr/bin/python3
"""What blackouts make of the fires of schedules, by an oracle of their own.

    blackouts.py [--count N] [--seed S]

The oracle lists all windows of some weeks and looks at each fire by itself, as docs/calendar.md says: it comes, is skipped, or is
held until no window is on.  Schedules and open days are calendar_days.py's.  Compared are, for one or two windows and a task:
the window that is on at an instant, or the next; what the forecast makes of nine days of fires; and, for windows that are over,
what nodes make of them: the history, the next fire, and what one run behind the window leaves of those that it held.
Connects as libpq does.  Exit 1 on any difference.
"""

import argparse
import datetime as dt
import random
import sys
import zoneinfo
from dataclasses import dataclass

import calendar_days as days
import calendar_oracle as oracle
import psycopg
from calendar_oracle import DAY, UTC

ALWAYS_OPEN = days.Calendar("", "")
HOUR = dt.timedelta(hours=1)
SECOND = dt.timedelta(seconds=1)


@dataclass
class Blackout:
    name: str
    schedule: str
    zone: zoneinfo.ZoneInfo
    days: int
    hours: float
    action: str

    def end(self, begin):
        """Days by the clock on the wall, and then elapsed time."""
        if self.days:
            local = begin.astimezone(self.zone).replace(tzinfo=None) + self.days * DAY
            first, second = (local.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
            skipped = first.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != local
            begin = (first if skipped else second).astimezone(UTC)      # PostgreSQL takes the second of two
        return begin + self.hours * HOUR

    def windows(self, after, until):
        """Those that begin in that time; without a gap between them they are one."""
        cron, found = oracle.read(self.schedule), []
        day = after.astimezone(self.zone).date()
        while day <= until.astimezone(self.zone).date():
            for begin in sorted(days.fires_of_day(cron, self.zone, day)):
                if found and begin <= found[-1][1]:
                    found[-1] = (found[-1][0], max(found[-1][1], self.end(begin)))
                else:
                    found.append((begin, self.end(begin)))
            day += DAY
        return found


class Shut:
    """When which blackout is on."""

    def __init__(self, blackouts, after, until):
        self.until = until
        self.of = [(b, b.windows(after, until)) for b in blackouts]

    def at(self, instant):
        """The blackout that counts and the end of its window: one that skips, else the one that ends last."""
        on = [(b, end) for b, windows in self.of for begin, end in windows if begin <= instant < end]
        return max(on, key=lambda w: (w[0].action == "skip", w[1]), default=None)

    def comes(self, fire):
        """When a fire comes; None: it is skipped, or windows follow each other without an end."""
        on = self.at(fire)
        while on is not None:
            if on[0].action == "skip" or on[1] > self.until - 10 * DAY:
                return None
            fire = on[1]
            on = self.at(fire)
        return fire


def forecast(shut, fires, misfire, misfire_after):
    """Of the fires that are held until one moment the first stands for those that are too late by then."""
    coming, moment, over = [], None, None
    for fire in fires:
        at = shut.comes(fire)
        if at is None:
            continue
        if at != fire and misfire != "all" and at == moment:
            if (over is None or fire >= over) and at - fire > misfire_after:
                over = shut.at(fire)[1]         # with it all that fell into that window
            if over is not None and fire < over:
                continue
        if at != fire and at != moment:
            moment, over = at, None
        coming.append(at)
    return coming


# ---------------------------------------------------------------------------------------------------- the cases

WINDOWS = ["0 22 * * SAT", "0 22 * * SAT", "30 2 * * SUN", "0 2 * * SUN", "0 0 * * SUN", "0 0 * * SAT,SUN", "0 0 * * FRI,SAT,SUN",
           "15 1 * * SUN", "0 3 * * SUN", "0 20 * * FRI", "0 6 * * MON-FRI", "30 2 * * *", "0 22 L * *", "0 */6 * * SAT"]
TASKS = ["30 2 * * *", "*/30 * * * *", "0 * * * *", "15 */2 * * *", "0 9 * * *", "0 9 * * MON-FRI", "0 18 L * *", "0 23,1,3 * * *",
         "0 2 * * SUN", "10 3 * * SAT,SUN", "*/20 1-4 * * *", "5 0 1 * *", "45 23 * * SAT", "0 12 */2 * *"]


def random_blackout(rnd, n, zones):
    lasts = rnd.choice([(0, 8), (0, 8), (0, 1.5), (0, 1), (0, 3), (1, 0), (1, 0), (1, 2), (0, 24), (0, 26), (2, 0), (1, 12)])
    return Blackout(f"w{n}", rnd.choice(WINDOWS), zoneinfo.ZoneInfo(rnd.choice(zones)), *lasts, rnd.choice(["hold", "hold", "skip"]))


def random_case(rnd, made):
    calendar, on_closed, _, zone, start = days.random_case(rnd, made)
    if rnd.random() < 0.4:
        calendar = ALWAYS_OPEN
    return {"calendar": calendar, "on_closed": on_closed, "schedule": rnd.choice(TASKS), "zone": zone, "start": start,
            "misfire": rnd.choice(["once", "once", "skip", "all"]), "misfire_after": rnd.choice([60, 60, 5400, 86400]) * SECOND,
            "blackouts": [random_blackout(rnd, n, [zone.key, zone.key, "Europe/Berlin", "UTC"])
                          for n in range(rnd.choice([1, 1, 1, 2]))]}


# --------------------------------------------------------------------------------------------- what is compared

class Difference(Exception):
    """What pgrab says and what the oracle says."""


def shown(value):
    return oracle.show(value) if isinstance(value, dt.datetime) else [*map(shown, value)] if isinstance(value, (list, tuple)) else value


def same(what, got, want):
    if got != want:
        raise Difference(f"{what}: pgrab {shown(got)}, oracle {shown(want)}")


def check_spans(conn, case, shut):
    for blackout, windows in shut.of:
        got = conn.execute("select s.begins_at, s.ends_at from pgrab.blackout b cross join lateral"
                           " pgrab_internal.blackout_span(row(b.*)::pgrab_internal.blackout, %s) s where b.name = %s",
                           (case["start"], blackout.name)).fetchone()
        want = next((w for w in windows if w[1] > case["start"]), None)
        if want is not None:
            same(f"window of {blackout.name}", got, want)


def check_forecast(conn, case, shut, task, fires):
    got = [row[0] for row in conn.execute("select at from pgrab_internal.forecast_closed(%s, %s, %s, 1000)", (task, fires[0], fires[-1]))]
    same("forecast", got, forecast(shut, fires, case["misfire"], case["misfire_after"]))


class Past:
    """A task that nodes find due in a window that is over."""

    def __init__(self, conn, shut, task, fires, misfire):
        self.conn, self.shut, self.task, self.fires, self.misfire = conn, shut, task, fires, misfire
        self.fire = self.due = fires[0]
        self.skipped, self.ran = [], None

    def next_at(self, instant):
        return next((f for f in self.fires if f >= instant), None)

    def step(self):
        """What a look should make of it; False: nothing."""
        on = self.shut.at(self.due)
        if on is None:
            return False
        stands = self.ran is not None and self.misfire != "all" and self.ran >= on[1]
        if on[0].action == "skip" or stands:
            self.skipped += [f for f in self.fires if self.fire <= f < on[1]]
            self.fire = self.due = self.next_at(on[1])
        else:
            self.due = on[1]
        return True

    def check(self, what):
        """One look at a time, until it can run, or its next fire is not among those that are known."""
        for n in range(4):
            moves = self.step()
            if self.fire is None:
                return False
            did = self.conn.execute("select pgrab_internal.put_off(array[id], array[version]) > 0 from pgrab.task where id = %s",
                                    (self.task,)).fetchone()[0]
            same(f"{what}, look {n}", did, moves)
            if not moves:
                return True
            row = self.conn.execute("select fire_at, due_at from pgrab.task where id = %s", (self.task,)).fetchone()
            same(f"{what}, look {n}", row, (self.fire, self.due))
            rows = self.conn.execute("select distinct fire_at from pgrab.run where task_id = %s and error like 'blackout%%' order by 1",
                                     (self.task,)).fetchall()
            same(f"{what}, look {n}, skipped", [r[0] for r in rows], self.skipped)
        return False

    def run(self):
        """The next fire is planned as the end of a run plans it."""
        self.ran, following = self.due + SECOND, self.next_at(self.fire + SECOND)
        if following is None:
            return False
        self.conn.execute("update pgrab.task set last_finished_at = %s, last_outcome = 'succeeded', run_at = %s where id = %s",
                          (self.ran, following, self.task))
        self.fire = self.due = following
        return True


def check_past(conn, case, shut, task, fires):
    now = dt.datetime.now(UTC)
    if case["start"] > now - 60 * DAY or Shut(case["blackouts"], now - 9 * DAY, now + DAY).at(now):
        return
    past = Past(conn, shut, task, fires, case["misfire"])
    if past.check("past") and past.run():
        past.check("behind a run")


def check_case(conn, case):
    start, calendar = case["start"], case["calendar"]
    shut = Shut(case["blackouts"], start - 40 * DAY, start + 45 * DAY)
    fires = days.fires(calendar, case["on_closed"], oracle.read(case["schedule"]), case["zone"], start, start + 9 * DAY)
    for b in case["blackouts"]:
        conn.execute("insert into pgrab.blackout (name, schedule, timezone, lasts, action) values (%s, %s, %s, %s, %s)",
                     (b.name, b.schedule, b.zone.key, f"{b.days} days {b.hours} hours", b.action))
    check_spans(conn, case, shut)
    fires = fires[next((n for n, f in enumerate(fires) if shut.at(f)), 0):][:100]
    if not fires:
        return False
    task = conn.execute("insert into pgrab.task (kind, schedule, timezone, run_at, calendar, on_closed, misfire, misfire_after)"
                        " values ('noop', %s, %s, %s, %s, %s, %s, %s) returning id",
                        (case["schedule"], case["zone"].key, fires[0], calendar.name or None, case["on_closed"], case["misfire"],
                         case["misfire_after"])).fetchone()[0]
    check_forecast(conn, case, shut, task, fires)
    check_past(conn, case, shut, task, fires)
    return shut.at(fires[0]) is not None


def never_ends(blackout):
    """More than five days on end, or none that pgrab takes."""
    some = blackout.windows(dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 2, 15, tzinfo=UTC))
    return any(end - begin > 5 * DAY for begin, end in some)


def check_random(conn, rnd, count):
    made = days.calendars(rnd, 20)
    for calendar in made:
        calendar.store(conn)
    bad = shut = 0
    for _ in range(count):
        case = random_case(rnd, made)
        while any(never_ends(b) for b in case["blackouts"]):
            case = random_case(rnd, made)
        with conn.transaction() as alone:
            try:
                shut += check_case(conn, case)
            except Difference as difference:
                bad += 1
                print("DIFFERENT", {k: str(getattr(v, "name", v)) for k, v in case.items()}, str(difference)[:1000], sep="\n  ")
            raise psycopg.Rollback(alone)
    print(f"blackouts: {count} compared, {bad} different ({shut} with fires in a window)")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10000, help="random cases (10000)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args()
    print(f"seed {args.seed}")
    with psycopg.connect("") as conn:           # rolled back
        conn.execute("set timezone = 'UTC'")
        bad = check_random(conn, random.Random(args.seed), args.count)
        conn.rollback()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
