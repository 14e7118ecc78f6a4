#!/usr/bin/python3
"""Schedules that keep to a calendar's open days, by an oracle of their own.

    calendar_days.py [--count N] [--seed S]

The oracle goes forward from what the documentation says: each fire of the schedule is looked at by itself, and is kept, left
out, or moved to the first moment at which the clock of another day shows its time.  What pgrab does, going from open day to
open day, it knows nothing of.  Fires are found by multiplying hours, minutes and seconds; on days around a clock change by
walking minute by minute.  Connects as libpq does. Exit 1 on any difference.
"""

import argparse
import bisect
import datetime as dt
import functools
import random
import sys
import zoneinfo

import calendar_oracle as oracle
import psycopg
from calendar_oracle import DAY, MINUTE, UTC

WEEKDAYS = "mon tue wed thu fri sat sun".split()


class Calendar:
    def __init__(self, name, closed="sat sun", days=()):
        self.name, self.closed = name, closed.split()
        self.days = {day: (is_open, note) for day, is_open, note in days}

    def open(self, day):
        return self.days[day][0] if day in self.days else WEEKDAYS[day.weekday()] not in self.closed

    def store(self, conn):
        conn.execute("insert into pgrab.calendar (name, closed_weekdays) values (%s, %s)", (self.name, self.closed))
        conn.execute("insert into pgrab.calendar_day (calendar, day, open, note) select %s, * from unnest(%s::date[], %s::boolean[], %s::text[])",
                     (self.name, list(self.days), [o for o, _ in self.days.values()], [n for _, n in self.days.values()]))


def span(text, is_open, note):
    """Days of 2026, such as 02-15..02-23."""
    first, _, last = text.partition("..")
    day, end = (dt.date.fromisoformat(f"2026-{t}") for t in (first, last or first))
    return [(day + n * DAY, is_open, note) for n in range((end - day).days + 1)]


# What is closed in all of Germany in 2026.
GERMAN = Calendar("german", days=sum((span(*d) for d in [
    ("01-01", False, "Neujahr"), ("04-03", False, "Karfreitag"), ("04-06", False, "Ostermontag"), ("05-01", False, "Tag der Arbeit"),
    ("05-14", False, "Christi Himmelfahrt"), ("05-25", False, "Pfingstmontag"), ("10-03", False, "Tag der Deutschen Einheit"),
    ("12-25..12-26", False, "Weihnachten")]), []))
# Days off and days worked instead, as announced by the State Council for 2026.
CHINESE = Calendar("chinese", days=sum((span(*d) for d in [
    ("01-01..01-03", False, "New Year"), ("01-04", True, "worked for New Year"),
    ("02-15..02-23", False, "Spring Festival"), ("02-14", True, "worked for Spring Festival"), ("02-28", True, "worked for Spring Festival"),
    ("04-04..04-06", False, "Qingming"), ("05-01..05-05", False, "Labour Day"), ("05-09", True, "worked for Labour Day"),
    ("06-19..06-21", False, "Dragon Boat"), ("09-25..09-27", False, "Mid-Autumn"), ("09-20", True, "worked for National Day"),
    ("10-01..10-07", False, "National Day"), ("10-10", True, "worked for National Day")]), []))


def quiet(zone, at):
    """Whether the clock does not change within three days."""
    near = oracle.changes(zone)
    n = bisect.bisect_left(near, at - 3 * DAY)
    return n == len(near) or near[n] > at + 3 * DAY


@functools.lru_cache(maxsize=100000)
def fires_of_day(cron, zone, day):
    """The instants at which a schedule fires while the clock shows this date."""
    if not any(cron.day_matches(day + n * DAY) for n in (-2, -1, 0)):
        return []
    noon = dt.datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    if quiet(zone, noon):
        midnight = dt.datetime(day.year, day.month, day.day)
        shift = noon.astimezone(zone).utcoffset()
        return [(midnight - shift).replace(tzinfo=UTC) + dt.timedelta(hours=h, minutes=m, seconds=s)
                for h in cron.hours for m in cron.minutes for s in cron.seconds] if cron.day_matches(day) else []
    return [fire for fire in walk(cron, zone, noon) if fire.astimezone(zone).date() == day]


def walk(cron, zone, noon):
    """The fires from two days before an instant to a day and a half after it, minute by minute, by oracle.brute_fire()'s rules."""
    at, found = noon - 2 * DAY, []
    high = at.astimezone(zone).replace(tzinfo=None) - MINUTE
    while at < noon + 36 * 60 * MINUTE:
        local = at.astimezone(zone).replace(tzinfo=None)
        skipped, hit = high + MINUTE, cron.matches(local) and (cron.elapsed or local > high)
        while not cron.elapsed and not found[-1:] == [at] and skipped < local:
            if cron.matches(skipped):
                found.append(at)        # right after the gap
            skipped += MINUTE
        if hit:
            found += [at + dt.timedelta(seconds=s) for s in sorted(cron.seconds) if found[-1:] != [at] or s > 0]
        high, at = max(high, local), at + MINUTE
    return found


def reached(zone, local):
    """The first instant at which the clock has reached this time, which may be one that it skips."""
    if quiet(zone, local.replace(tzinfo=UTC)):
        return local.replace(tzinfo=zone).astimezone(UTC)
    at = local.replace(second=0, tzinfo=UTC) - 28 * 60 * MINUTE
    while at.astimezone(zone).replace(tzinfo=None) < local.replace(second=0):
        at += MINUTE
    exact = at.astimezone(zone).replace(tzinfo=None) == local.replace(second=0)
    return at + dt.timedelta(seconds=local.second if exact else 0)


def moved(calendar, on_closed, zone, fire):
    """When a fire comes; None: it is left out."""
    local = fire.astimezone(zone).replace(tzinfo=None)
    day = local.date()
    if calendar.open(day):
        return fire
    if on_closed == "skip":
        return None
    while not calendar.open(day):
        day += DAY if on_closed == "next" else -DAY
    return reached(zone, dt.datetime.combine(day, local.time()))


def fires(calendar, on_closed, cron, zone, after, until):
    """All fires with after < fire <= until.  No test calendar is closed for more than 20 days on end."""
    day, last = after.astimezone(zone).date() - 21 * DAY, until.astimezone(zone).date() + 21 * DAY
    found = set()
    while day <= last:
        if on_closed != "skip" or calendar.open(day):
            found |= {moved(calendar, on_closed, zone, fire) for fire in fires_of_day(cron, zone, day)}
        day += DAY
    return sorted(f for f in found if f is not None and after < f <= until)


def next_fire(calendar, on_closed, cron, zone, after):
    """The next fire within two years; None: there is none."""
    for days in (2, 10, 60, 760):
        found = fires(calendar, on_closed, cron, zone, after, after + days * DAY)
        if found:
            return found[0]
    return None


# ------------------------------------------------------------------------------------------------- the random part

def random_calendar(rnd, name):
    closed = rnd.choice(["sat sun", "sat sun", "sun", "fri sat", "", "mon wed fri", "sat sun mon tue wed thu"])
    first, days = dt.date(2020, 1, 1), {}
    for _ in range(rnd.randint(0, 200)):
        day = first + rnd.randrange(4000) * DAY
        days.update({day + n * DAY: (rnd.random() < 0.3, "because") for n in range(rnd.choice([1, 1, 1, 2, 3, 9]))})
    return Calendar(name, closed, [(day, is_open, note) for day, (is_open, note) in days.items()])


def widest(calendar):
    """The longest time for which a calendar is closed."""
    longest = run = 0
    for n in range(5000):
        run = 0 if calendar.open(dt.date(2019, 6, 1) + n * DAY) else run + 1
        longest = max(longest, run)
    return longest


def calendars(rnd, count):
    made = [random_calendar(rnd, f"random {n}") for n in range(count)]
    return [GERMAN, CHINESE] + [c for c in made if widest(c) <= 20]


def random_text(rnd):
    if rnd.random() < 0.3:
        return oracle.random_expression(rnd)
    minute, hour = rnd.choice(["0", "30", "*/20", str(rnd.randint(0, 59))]), rnd.choice(["2", "3", "0", "23", "9", "9,17", "*", "*/6"])
    return f"{minute} {hour} " + rnd.choice(["* * *", "* * *", "L * *", "LW * *", "1 * *", "1,15 * *", "* * SUN", "* * 6L", "* * MON-FRI",
                                             "31 * *", "15W * *"])


def random_case(rnd, made):
    calendar = rnd.choice(made[:2] if rnd.random() < 0.4 else made)
    zone = zoneinfo.ZoneInfo(rnd.choice(["Europe/Berlin", "Asia/Shanghai"] if rnd.random() < 0.4 else oracle.ZONES))
    near = [c for c in oracle.changes(zone) if 2021 <= c.year <= 2029]
    start = dt.datetime(2021, 1, 1, tzinfo=UTC)
    if calendar.name in ("german", "chinese") and rnd.random() < 0.7:
        start = dt.datetime(2025, 12, 28, tzinfo=UTC) + rnd.randrange(366 * 86400) * dt.timedelta(seconds=1)
    elif near and rnd.random() < 0.6:
        start = rnd.choice(near) + rnd.randint(-5 * 86400, 3 * 86400) * dt.timedelta(seconds=1)
    else:
        start += rnd.randrange(8 * 366 * 86400) * dt.timedelta(seconds=1)
    return calendar, rnd.choice(["skip", "next", "previous"]), random_text(rnd), zone, start.replace(second=rnd.choice([0, start.second]))


def check_random(conn, rnd, count):
    made = calendars(rnd, 40)
    for calendar in made:
        calendar.store(conn)
    cases, bad, none = [], 0, 0
    while len(cases) < count:
        case = random_case(rnd, made)
        cron = oracle.read(case[2])
        if cron.can_fire() and len(cron.hours) * len(cron.minutes) * len(cron.seconds) < 200:
            cases.append((case, cron))
    for start in range(0, count, 500):
        batch = cases[start:start + 500]
        answers = dict(conn.execute(
            "select ord, fire from pgrab_internal.next_fires(%s::text[], %s::text[], %s::timestamptz[], %s::text[], %s::text[])",
            tuple(map(list, zip(*[(text, zone.key, after, calendar.name, on_closed)
                                  for (calendar, on_closed, text, zone, after), _ in batch])))).fetchall())
        for n, ((calendar, on_closed, text, zone, after), cron) in enumerate(batch, 1):
            want, got = next_fire(calendar, on_closed, cron, zone, after), answers[n]
            none += want is None
            if got != want and not (want is None and (got is None or got > after + 740 * DAY)):
                bad += 1
                print(f"DIFFERENT {text!r} {zone.key} {calendar.name} {on_closed} after {after.isoformat()}: "
                      f"pgrab {oracle.show(got)}, oracle {oracle.show(want)}")
    print(f"fires on open days: {count} compared, {bad} different ({none} without a fire in two years)")
    return bad


# ------------------------------------------------------------------------------------------------- the given years

YEAR = [("30 2 * * *", "Europe/Berlin", GERMAN), ("0 6 * * MON-FRI", "Europe/Berlin", GERMAN), ("0 18 L * *", "Europe/Berlin", GERMAN),
        ("0 9 1 * *", "Europe/Berlin", GERMAN), ("*/30 * * * *", "Europe/Berlin", GERMAN), ("0 9 * * *", "Asia/Shanghai", CHINESE),
        ("0 9 * * MON-FRI", "Asia/Shanghai", CHINESE), ("0 18 L * *", "Asia/Shanghai", CHINESE), ("15 8 * * SUN", "Asia/Shanghai", CHINESE)]


def check_years(conn):
    """Every fire of 2026 of a few schedules; the calendars are stored."""
    bad = 0
    after, until = dt.datetime(2025, 12, 31, 12, tzinfo=UTC), dt.datetime(2026, 12, 31, 12, tzinfo=UTC)
    for text, zone, calendar in YEAR:
        cron = oracle.read(text)
        for on_closed in ("skip", "next", "previous"):
            want = fires(calendar, on_closed, cron, zoneinfo.ZoneInfo(zone), after, until)
            got = [r[0] for r in conn.execute("select pgrab.fires(%s, %s, %s, %s, %s, %s)",
                                              (text, zone, after, until, calendar.name, on_closed))]
            if got != want:
                bad += 1
                print(f"DIFFERENT {text!r} {zone} {calendar.name} {on_closed}: {sorted(set(got) ^ set(want))[:5]}")
    print(f"years: {len(YEAR) * 3} compared, {bad} different")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10000, help="random cases (10000)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args()
    print(f"seed {args.seed}")
    with psycopg.connect("") as conn:           # rolled back
        conn.execute("set timezone = 'UTC'")
        bad = check_random(conn, random.Random(args.seed), args.count) + check_years(conn)
        conn.rollback()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
