#!/usr/bin/python3
"""Compare pgrab's calendar with other people's: croner (npm), croniter (Debian), and with the oracle at every clock change.

    calendar_compare.py [--cases N] [--seed S] [--changes N] [--croner FOLDER]

Random (expression, zone, instant) cases go to the server in arrays, and each is asked of
  croniter   right for UTC only, so the zone is UTC there;
  croner     in every zone, with the rules that come nearest to ours (fixedTimeRule: no-wildcard). FOLDER is where
             `npm pack croner` was unpacked; needs node. Zones for which node has other data than we are left out.
An expression is put into the other one's words first (5L is L5 there); what has no word is left out and counted.
Where they differ for a known reason the case satisfies the predicate of that reason in KNOWN; docs/calendar.md explains
each. A difference that no predicate covers is an error, printed with what the oracle says.

Then, with N schedules each, all fires around every clock change of five zones, 1970 to 2087, by the oracle's rules, and
next_fire asked on every edge of the change. Connects as libpq does. Exit 1 on any difference that is not known.
"""

import argparse
import bisect
import collections
import datetime as dt
import json
import random
import re
import subprocess
import sys
import zoneinfo

import calendar_oracle as oracle
import psycopg
from calendar_oracle import DAY, MINUTE, UTC

BATCH = 5000
SECOND = dt.timedelta(seconds=1)
FIRST, LAST = 1970, 2088
CHANGING = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]
Case = collections.namedtuple("Case", "text zone after")

CRONER = """
const { Cron } = require(process.argv[1]);
const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const shift = (format, at) => {
	const p = Object.fromEntries(format.formatToParts(at).map(x => [x.type, +x.value]));
	return (Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) - at) / 1000;
};
const shifts = ([zone, instants]) => {
	const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric',
		day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' });
	return instants.map(at => shift(format, at));
};
const fire = ([text, zone, after, both]) => {
	try {
		const options = { timezone: zone, domAndDow: both, fixedTimeRule: 'no-wildcard', sloppyRanges: true };
		const next = new Cron(text, options).nextRun(new Date(after));
		return next && next.getTime();
	} catch (error) {
		return String(error.message);
	}
};
console.log(JSON.stringify(input.map(process.argv[2] === 'shifts' ? shifts : fire)));
"""


# ------------------------------------------------------------------------------------------------ clock changes

def changes(zone, cache={}):
    """The instants at which a zone changed or will change its clock, to the second."""
    if zone.key not in cache:
        def shift(at):
            return at.astimezone(zone).utcoffset()
        found, low, end = [], dt.datetime(FIRST, 1, 2, tzinfo=UTC), dt.datetime(LAST, 1, 1, tzinfo=UTC)
        while low < end:
            high = low + DAY
            if shift(low) != shift(high):
                left, right = low, high
                while right - left > SECOND:
                    middle = left + dt.timedelta(seconds=(right - left) // SECOND // 2)
                    left, right = (middle, right) if shift(middle) == shift(low) else (left, middle)
                found.append(right)
            low = high
        cache[zone.key] = found
    return cache[zone.key]


def jump(zone, change):
    """By how much the clock went on (back: negative) at a change."""
    return change.astimezone(zone).utcoffset() - (change - SECOND).astimezone(zone).utcoffset()


def near_change(zone, low, high):
    """The changes from a day before low to a day after high; a gap or an overlap may bear on fires there."""
    found = changes(zone)
    return found[bisect.bisect_left(found, low - DAY):bisect.bisect_right(found, high + DAY)]


# ------------------------------------------------------------------------------------------------------- pgrab

def batches(cases):
    for start in range(0, len(cases), BATCH):
        yield cases[start:start + BATCH]


def ask_pgrab(conn, cases):
    """The fires of all cases; None where the schedule can never fire."""
    fires = []
    for part in batches(cases):
        texts, zones, afters = ([c.text for c in part], [c.zone.key for c in part], [c.after for c in part])
        distinct = sorted(set(texts))
        faults = dict(conn.execute(
            "select e.text, f.fault from unnest(%s::text[]) as e(text) cross join lateral pgrab_internal.schedule_fault(e.text, 'UTC') as f"
            " where f.fault is not null", (distinct,)).fetchall())
        assert all("can never fire" in fault for fault in faults.values()), faults
        rows = conn.execute("select ord, fire from pgrab_internal.next_fires(%s::text[], %s::text[], %s::timestamptz[])",
                            ([None if t in faults else t for t in texts], zones, afters)).fetchall()
        fires += [fire for _, fire in sorted(rows)]
    return fires


# ---------------------------------------------------------------------------------------------------- croniter

def croniter_words(text):
    """An expression as croniter has to be asked: (its words, day_or), or None when it has no word for it."""
    text = oracle.WORDS.get(text.lower(), text).upper().replace("?", "*")
    fields = text.split()
    cron = oracle.read(text)
    if "W" in fields[-3] or re.search(r"[A-Z]{3}(L|#)", fields[-1]):
        return None
    if "#" in fields[-1] or "L" in fields[-1]:
        if cron.either or not re.fullmatch(r"((\d(L|#\d))(,|$))+", fields[-1]):
            return None                                             # mixes them with nothing else
    fields[-1] = re.sub(r"(\d)L", r"L\1", fields[-1]).replace("-SUN", "-7")
    fields[-1] = ",".join(re.sub(r"^(\w+)/", r"\1-6/", p.replace("SUN/", "0/").replace("7/", "0/") if re.match(r"(SUN|7)/", p) else p)
                          for p in fields[-1].split(","))
    if len(fields) == 6:
        fields.append(fields.pop(0))                                # the seconds are its last field
    return " ".join(fields), cron.either


def ask_croniter(words, after):
    import croniter
    try:
        return croniter.croniter(words[0], after, day_or=words[1]).get_next(dt.datetime)
    except croniter.CroniterBadDateError:
        return None


# ------------------------------------------------------------------------------------------------------ croner

def node(folder, what, data):
    done = subprocess.run(["node", "-e", CRONER, f"{folder}/dist/croner.cjs", what], input=json.dumps(data), capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout)


def same_zones(folder, zones):
    """The zones of which node knows the same changes as we do."""
    weekly = [dt.datetime(FIRST, 1, 2, tzinfo=UTC) + 7 * n * DAY for n in range((LAST - FIRST) * 52)]
    good = []
    for zone in zones:
        instants = sorted(weekly + [c + n * SECOND for c in changes(zone) for n in (-1, 0)])
        there = node(folder, "shifts", [[zone.key, [round(at.timestamp() * 1000) for at in instants]]])[0]
        here = [at.astimezone(zone).utcoffset().total_seconds() for at in instants]
        if here == there:
            good.append(zone)
        else:
            first = next(at for at, a, b in zip(instants, here, there) if a != b)
            print(f"croner: {zone.key} left out, node has other data from {first:%F} on")
    return good


def croner_words(text):
    text = oracle.WORDS.get(text.lower(), text).upper()
    day, month, weekday = text.split()[-3:]
    if "LW" in day and day != "LW":
        return None
    weekday = re.sub(r"(^|,)7/", r"\g<1>0/", weekday)
    return " ".join([*text.split()[:-3], day, month, weekday]), not oracle.read(text).either


def ask_croner(folder, cases):
    fires = []
    for part in batches(cases):
        asked = [(croner_words(c.text), c) for c in part]
        got = node(folder, "fires", [[w[0], c.zone.key, round(c.after.timestamp() * 1000), w[1]] for w, c in asked])
        fires += [dt.datetime.fromtimestamp(f / 1000, UTC) if isinstance(f, (int, float)) else f for f in got]
    return fires


# --------------------------------------------------------------------------------- why they differ: docs/calendar.md

def later(a, b):
    return a is None or b is not None and a > b


def full_list(case, cron, our, their):
    """0-6 or 1-31 is a restriction to us and to cron(8), and * to croniter, which counts L as a day more."""
    last = "L" in case.text.upper().split()[-3]
    return cron.either and (len(cron.days) + last >= 31 or len(cron.weekdays) == 7)


def seven_of_six(case, cron, our, their):
    """croniter knows 7 as Sunday only in five fields; with six 7 never comes, but counts when it looks for a full list."""
    fields = case.text.upper().split()
    return (len(fields) == 6 and re.search(r"(^|[,-])(7|SUN)\b|(^|,)[*?]/[17]\b", fields[5])
            and (later(their, our) or len(cron.weekdays) == 6))


def day_that_a_month_lacks(case, cron, our, their):
    """croniter steps from a day that the month lacks into the next month, past its first days, or past the L of this."""
    before = our.date().replace(day=1) - DAY
    last = "L" in case.text.upper().split()[-3] and our.day == oracle.length(our)
    return later(their, our) and (max(cron.days) > before.day and our.day < max(cron.days) or last and max(cron.days) > our.day)


def no_month_has_it(case, cron, our, their):
    """croniter gives up over 31 June, when a day of the week beside it would do."""
    return their is None and cron.either and all(day > (30 if month != 2 else 29) for day in cron.days for month in cron.months)


def interval_job(case, cron):
    """To croner any wildcard or step in seconds, minutes or hours makes an interval job; to us only a wildcard hour."""
    return not cron.elapsed and re.search(r"[*?/]", " ".join(case.text.split()[:-3]))


def at_gap(case, fire, size):
    """Whether a fire is at the end of a gap of at least that size."""
    return fire in near_change(case.zone, fire, fire) and jump(case.zone, fire) >= size


def interval_skips_the_gap(case, cron, our, their):
    return interval_job(case, cron) and later(their, our) and at_gap(case, our, SECOND)


def interval_repeats(case, cron, our, their):
    return interval_job(case, cron) and later(our, their) and any(
        c <= their < c - jump(case.zone, c) for c in near_change(case.zone, their, their))


def skipped_to_another_date(case, cron, our, their):
    """croner fires after a gap only on the date of the skipped time: not over midnight, nor for a date that is gone."""
    skipped = (our - SECOND).astimezone(case.zone) + SECOND         # on the wall, the first second that is not there
    return (not cron.elapsed and later(their, our) and at_gap(case, our, SECOND)
            and skipped.date() < our.astimezone(case.zone).date())


KNOWN = {
    "croniter": {
        "a full list in a day field is no restriction to it": full_list,
        "it takes 7 for Sunday only in five fields": seven_of_six,
        "it slips over the end of a month that lacks a wanted day": day_that_a_month_lacks,
        "it gives up when no wanted month has the wanted day, though a weekday would do": no_month_has_it,
    },
    "croner": {
        "a gap that ends on another date: it fires not at all, we once": skipped_to_another_date,
        "fixed hour, wildcard or step in minute or second: it skips the gap, we fire once": interval_skips_the_gap,
        "fixed hour, wildcard or step in minute or second: it fires in both passes, we in the first": interval_repeats,
    },
}


# ------------------------------------------------------------------------------------------------- the comparison

def random_instant(rnd, zone):
    """Mostly near a change of the clock, when the zone has any; sometimes with a fraction of a second."""
    if changes(zone) and rnd.random() < 0.6:
        after = rnd.choice(changes(zone)) + rnd.choice([
            dt.timedelta(seconds=rnd.randint(-7200, 7200)), dt.timedelta(seconds=rnd.randint(-172800, 172800)),
            dt.timedelta(seconds=rnd.choice([-3600, -1800, -1, 0, 1, 1800, 3600]))])
    else:
        after = dt.datetime(FIRST, 1, 3, tzinfo=UTC) + dt.timedelta(seconds=rnd.randrange((LAST - FIRST) * 31556952))
    return after.replace(microsecond=rnd.choice([0, 0, 0, 0, 500000]))


def random_cases(rnd, zones, count, words):
    """Cases that the other one has words for; counts those that it has not."""
    cases, left = [], 0
    while len(cases) < count:
        zone = rnd.choice(zones)
        case = Case(oracle.random_expression(rnd), zone, random_instant(rnd, zone))
        if words(case.text) is None:
            left += 1
        else:
            cases.append(case)
    return cases, left


def judge(name, cases, ours, theirs, left, show=20):
    """Counts differences by class, prints those without one; returns their number."""
    classes, bad = collections.Counter(), 0
    for case, our, their in zip(cases, ours, theirs):
        if our == their:
            continue
        cron = oracle.read(case.text)
        explicable = isinstance(our, dt.datetime) and not isinstance(their, str)
        known = explicable and next((k for k, holds in KNOWN[name].items() if holds(case, cron, our, their)), None)
        if known:
            classes[known] += 1
            continue
        bad += 1
        if bad <= show:
            want = oracle.brute_fire(cron, case.zone, case.after, case.after + 9 * 366 * DAY)
            said = f"{their:%F %T}" if isinstance(their, dt.datetime) else their
            print(f"DIFFERENT {case.text!r} {case.zone.key} after {case.after.astimezone(UTC)}: pgrab {oracle.show(our)}, {name} {said}, "
                  f"oracle {oracle.show(want)}")
    print(f"{name}: {len(cases)} compared, {sum(classes.values())} differ for known reasons, {bad} for none "
          f"({left} more it has no words for)")
    for known, number in classes.most_common():
        print(f"  {number:6} {known}")
    return bad


def compare_croniter(conn, rnd, count):
    cases, left = random_cases(rnd, [zoneinfo.ZoneInfo("UTC")], count, croniter_words)
    theirs = [ask_croniter(croniter_words(c.text), c.after) for c in cases]
    return judge("croniter", cases, ask_pgrab(conn, cases), theirs, left)


def compare_croner(conn, rnd, count, folder):
    zones = same_zones(folder, [zoneinfo.ZoneInfo(z) for z in dict.fromkeys(oracle.ZONES + CHANGING)])
    cases, left = random_cases(rnd, zones, count, croner_words)
    return judge("croner", cases, ask_pgrab(conn, cases), ask_croner(folder, cases), left)


# -------------------------------------------------------------------------------------- every change of five zones

def change_window(zone, change):
    """Each minute around a change: (instant, local time shown, local times reached for the first time)."""
    wide = abs(jump(zone, change)) + 4 * 60 * MINUTE
    at = (change - wide).replace(second=0)
    high = at.astimezone(zone).replace(tzinfo=None) - MINUTE
    window = []
    while at < change + wide:
        local = at.astimezone(zone).replace(tzinfo=None)
        reached = [high + n * MINUTE for n in range(1, (local - high) // MINUTE + 1)]
        window.append((at, local, reached))
        high = max(high, local)
        at += MINUTE
    return window


def window_fires(cron, window):
    """All fires of a schedule without seconds in the window, minute by minute."""
    if cron.elapsed:
        return [at for at, local, _ in window if cron.matches(local)]
    return [at for at, _, reached in window if any(cron.matches(local) for local in reached)]


def change_schedules(rnd, zone, change, count):
    """What may go wrong at this change: its own hours, dates and weekdays, both kinds of jobs; then random ones."""
    before, after = [(change + n * MINUTE).astimezone(zone) for n in (-1, 0)]
    hours = sorted({before.hour, after.hour, (min(before, after, key=lambda t: t.hour).hour + 1) % 24})
    spans = ",".join(map(str, hours))
    own = [f"30 {before.hour} * * *", f"0,15,45 {spans} * * *", "*/20 * * * *", "10 */2 * * *",
           f"{before.minute} {after.hour} {after.day} * *", f"*/30 {spans} {before.day} {before.month} *",
           f"45 * * * {after.isoweekday() % 7}", "0 0 * * *", "59 23 L * *"]
    while len(own) < count:
        text = oracle.random_expression(rnd)
        if len(text.split()) == 5 and oracle.read(text).can_fire():
            own.append(text)
    return own[:count]


def check_changes(conn, rnd, count):
    """fires() in a window around every change, and next_fire() on every edge of it, against the oracle's minutes."""
    bad = total = asked = 0
    for zone in map(zoneinfo.ZoneInfo, CHANGING):
        rows, edges = [], []
        for change in changes(zone):
            window = change_window(zone, change)
            low, high, half = window[0][0] - SECOND, window[-1][0], abs(jump(zone, change)) / 2
            for text in change_schedules(rnd, zone, change, count):
                cron = oracle.read(text)
                want = window_fires(cron, window)
                if len(want) > 100:
                    continue                                        # nothing but time is in them
                rows.append((text, low, high, want))
                for at in [change + n for n in (-SECOND, 0 * SECOND, SECOND, -2 * half, half, 2 * half - SECOND, 2 * half)]:
                    found = bisect.bisect_right(want, at)
                    edges.append((Case(text, zone, at), want[found] if found < len(want) else None, high))
        got = conn.execute(
            "select array(select f from pgrab.fires(c.text, %s, c.low, c.high) as f)"
            " from unnest(%s::text[], %s::timestamptz[], %s::timestamptz[]) with ordinality as c(text, low, high, ord) order by ord",
            (zone.key, *map(list, list(zip(*rows))[:3]))).fetchall()
        for (text, low, _, want), (fires,) in zip(rows, got):
            if fires != want:
                bad += 1
                print(f"DIFFERENT {text!r} {zone.key} from {low}: pgrab {list(map(oracle.show, fires))}, "
                      f"oracle {list(map(oracle.show, want))}")
        for (case, want, high), fire in zip(edges, ask_pgrab(conn, [e[0] for e in edges])):
            if fire != want and (want or fire is not None and fire <= high):
                bad += 1
                print(f"DIFFERENT {case.text!r} {zone.key} after {case.after}: pgrab {oracle.show(fire)}, oracle {oracle.show(want)}")
        total, asked = total + len(rows), asked + len(edges)
        print(f"changes: {zone.key} {len(changes(zone))}, {changes(zone)[0]:%F} to {changes(zone)[-1]:%F}")
    print(f"changes: {total} windows and {asked} instants compared, {bad} different")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10000, help="cases for each of the others (10000)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--changes", type=int, default=20, help="schedules for each change of the clock (20)")
    parser.add_argument("--croner", metavar="FOLDER", help="the unpacked npm package; needs node")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    rnd = random.Random(args.seed)
    bad = 0
    with psycopg.connect("", autocommit=True) as conn:
        conn.execute("set timezone = 'UTC'")
        bad += check_changes(conn, rnd, args.changes) if args.changes else 0
        bad += compare_croniter(conn, rnd, args.cases)
        if args.croner:
            bad += compare_croner(conn, rnd, args.cases, args.croner)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
