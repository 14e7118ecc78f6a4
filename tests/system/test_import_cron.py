"""pgrab import crontab beside cron: a line fires when cron fired it, or the difference is said."""
import datetime as dt
import random
import re
import time
import zoneinfo

import pytest
from cluster import run_pgrab
from test_import import apply, checker, crontab, imported  # noqa: F401

STEPS = {"*/100 * * * *": "*/60 * * * *", "0 */25 * * *": "0 */24 * * *", "0 0 */99999999999999999999 * *": "0 0 */31 * *", "10-20/61,5 * * * *": "10-20/60,5 * * * *",
         "0 0 1 */13 *": "0 0 1 */12 *", "0 0 * * 1-7/8": "0 0 * * 1-7/7", "0 0 */10 * */7": "0 0 */10 * */7"}


@pytest.mark.parametrize("fields", STEPS)
def test_a_step_longer_than_its_field_is_its_first_value(db, tmp_path, fields):
    """cron counts from the first by the step, and stops behind the last."""
    tasks, said = imported("crontab", crontab(tmp_path, f"{fields} a\n"))
    assert tasks["a"]["schedule"] == STEPS[fields] and "line 1" not in said
    apply(db, "crontab", tmp_path / "crontab")


def test_the_flags_of_bsd_are_no_command(tmp_path):
    path = crontab(tmp_path, "0 1 * * * -n a\n0 1 * * * -q -n b x\n0 1 * * * -qn\tc -n\n0 1 * * * -x d\n0 1 * * * -ne\n")
    tasks, said = imported("crontab", path)
    assert [t["command"] for t in tasks.values()] == ["a", "b x", "c -n", "-x d", "-ne"]
    for n, flags in enumerate(("-n", "-q -n", "-qn"), 1):
        assert f"line {n}: {flags} before its command is dropped" in said
    assert "line 4" not in said and "line 5" not in said
    system = crontab(tmp_path, "0 1 * * * root -q a\n0 1 * * * root -n\n")
    tasks, said = imported("crontab", system, "--system", check=False)
    assert [t["command"] for t in tasks.values()] == ["a"] and "line 2 is left out: it is not a crontab line" in said


@pytest.mark.parametrize("fields", ["5/15 * * * *", "0 1,2/4 * * *", "0 0 * * MON/2"])
def test_a_step_after_one_number_is_named(tmp_path, fields):
    tasks, said = imported("crontab", crontab(tmp_path, f"{fields} a\n"))
    assert tasks["a"]["schedule"] == fields
    assert f"line 1: {fields}: a step after one number counts from it to the end of the field, as in FreeBSD" in said


@pytest.mark.parametrize(("fields", "sign"), [("0 0 L * *", "L"), ("? 0 * * *", "?"), ("0 0 1,15w * *", "W"), ("0 0 * * 1#2", "#"), ("0 0 * * friL", "L"), ("0 0 ? JUL WED", "?")])
def test_what_no_cron_takes_is_named(tmp_path, fields, sign):
    tasks, said = imported("crontab", crontab(tmp_path, f"{fields} a\n0 0 1 JUL WED b\n"))
    assert tasks["a"]["schedule"] == fields
    assert f"line 1: {fields}: cron has no {sign}" in said and "line 2" not in said


# ------------------------------------------------------------------------------------------- when it fires

MONTHS, WEEKDAYS = "jan feb mar apr may jun jul aug sep oct nov dec".split(), "sun mon tue wed thu fri sat".split()
FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, MONTHS), (0, 7, WEEKDAYS))
WORDS = {"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}
CHANGES = {"Europe/Berlin": ("2026-03-29", "2026-10-25"), "America/New_York": ("2026-03-08", "2026-11-01"), "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
           "UTC": ("2028-02-29", "2026-12-31")}
MINUTE, WEEKS = dt.timedelta(minutes=1), dt.timedelta(days=16)


class Entry:
    """A line of a crontab as Vixie's cron keeps it: a set for each field, and which fields began with a star."""

    def __init__(self, text):
        fields = WORDS.get(text, text).split()
        self.star = [f[0] == "*" for f in fields]
        self.minutes, self.hours, self.days, self.months, self.weekdays = (self.read(f, *limits) for f, limits in zip(fields, FIELDS))
        self.weekdays = {d % 7 for d in self.weekdays}
        self.dates = {}

    @staticmethod
    def read(field, low, high, names):
        def number(word):
            return names.index(word.lower()) + low if word.lower() in names else int(word)
        values = set()
        for part in field.split(","):
            span, _, step = part.partition("/")
            first, _, last = span.partition("-")
            first, last = (low, high) if span == "*" else (number(first), number(last or first))
            values |= set(range(first, last + 1, int(step or 1)))
        return values

    def on(self, date):
        if date not in self.dates:
            day, weekday = date.day in self.days, date.isoweekday() % 7 in self.weekdays
            self.dates[date] = date.month in self.months and (day and weekday if self.star[2] or self.star[4] else day or weekday)
        return self.dates[date]

    def at(self, clock):
        return clock.minute in self.minutes and clock.hour in self.hours and self.on(clock.date())

    def fires(self, minutes, wild):
        """cron's loop: it wakes each minute and compares the clock on the wall with that of the jobs it has started."""
        virtual, fired = minutes[0][1] - MINUTE, set()
        for instant, wall in minutes:
            late = wall - virtual
            if late == MINUTE:
                hit, virtual = self.at(wall), wall
            elif late > MINUTE:         # the clock went forward: all that is fixed and was skipped, and what is wild now
                hit = wild and self.at(wall)
                while virtual < wall:
                    virtual += MINUTE
                    hit = hit or not wild and self.at(virtual)
            else:                       # the clock went back: what is fixed waits until it has caught up
                hit = wild and self.at(wall)
            if hit:
                fired.add(instant)
        return fired


def wall_clock(zone, day):
    """Each minute of the weeks around a day, with what the clock shows."""
    begin = dt.datetime.fromisoformat(day).replace(tzinfo=dt.timezone.utc) - WEEKS
    instants = [begin + n * MINUTE for n in range(int(2 * WEEKS / MINUTE))]
    return [(i, i.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)) for i in instants]


def random_field(rnd, field, star):
    low, high, names = FIELDS[field]
    if field == 1 and rnd.random() < 0.6:
        high = 4                        # when clocks change
    if field == 0:
        return rnd.choice([str(rnd.randint(low, high)), f"*/{rnd.choice([7, 15, 20, 100])}", f"{rnd.randint(0, 30)}-{rnd.randint(31, 59)}/{rnd.randint(9, 70)}", "0,15,30,45"])
    if rnd.random() < star:
        return "*"

    def word(n):
        return rnd.choice([names[n - low], names[n - low].upper()]) if n - low < len(names) and rnd.random() < 0.5 else str(n)

    def part():
        a, b = sorted((rnd.randint(low, high), rnd.randint(low, high)))
        return rnd.choice([word(a), word(b), f"{word(a)}-{b}", f"{a}-{word(b) if b < 7 else b}/{rnd.randint(1, 9)}", f"*/{rnd.randint(1, 9)}", f"*/{rnd.randint(1, 40)}"])
    return ",".join(part() for _ in range(rnd.choice([1, 1, 1, 2, 3])))


def random_line(rnd):
    if rnd.random() < 0.06:
        return rnd.choice(list(WORDS))
    return " ".join(random_field(rnd, n, star) for n, star in enumerate((0, 0.25, 0.5, 0.75, 0.5)))


@pytest.mark.parametrize("zone", CHANGES)
def test_a_line_fires_when_cron_fired_it(db, tmp_path, zone):
    """Also when clocks change, by half an hour or a whole one.  Of cron's rules one is not kept (docs/calendar.md): a star in the minute field does not
    make wild what has an hour."""
    rnd = random.Random(f"crontab {zone}")
    lines = ["*/15 1 * * *", "*/15 2 * * *"] + [random_line(rnd) for _ in range(98)]
    tasks, _ = imported("crontab", crontab(tmp_path, f"CRON_TZ={zone}\n" + "".join(f"{line} j{n}\n" for n, line in enumerate(lines))), check=None)
    fired = beside = 0
    for day in CHANGES[zone]:
        minutes = wall_clock(zone, day)
        ours = dict(db.query("select k, array(select pgrab.fires(s, %s, %s, %s)) from unnest(%s::text[], %s::text[]) as t(k, s)", zone, minutes[0][0] - MINUTE,
                             minutes[-1][0], list(tasks), [t["schedule"] for t in tasks.values()]))
        for n, line in enumerate(lines):
            entry = Entry(line)
            if f"j{n}" not in tasks:
                assert not any(entry.on(dt.date(2000, 1, 1) + d * dt.timedelta(1)) for d in range(1500)), line
                continue
            want = entry.fires(minutes, entry.star[1])
            assert set(ours[f"j{n}"]) == want, (line, tasks[f"j{n}"]["schedule"], sorted(set(ours[f"j{n}"]) ^ want)[:5])
            assert len(ours[f"j{n}"]) == len(want), line
            fired += len(want)
            beside += want != entry.fires(minutes, entry.star[0] or entry.star[1])
    assert fired > 10000 and (beside > 0) == (zone != "UTC"), (fired, beside)


# ------------------------------------------------------------------------------------ what apply would refuse

HUGE = {"a command": "0 1 * * * a" + "x" * 1100000, "an input": "0 1 * * * cat%" + "x" * 1100000, "a variable": "V=" + "x" * 1100000 + "\n0 1 * * * cat",
        "variables": "".join(f"V{n}=x\n" for n in range(1001)) + "0 1 * * * a", "a shell": "SHELL=\n0 1 * * * a", "nothing": "0 1 * * * \r\r"}


@pytest.mark.parametrize("what", HUGE)
def test_one_job_that_apply_would_refuse_does_not_keep_the_others_out(db, tmp_path, what):
    path = tmp_path / "crontab"
    path.write_bytes(b"0 2 * * * fine\n" + HUGE[what].encode() + b"\n")
    tasks, said = imported("crontab", path, check=False)
    assert list(tasks) == ["fine"] and re.search(r"crontab, line \d+.* is left out: it", said), said
    imported("crontab", path, check=False, dsn="host=/nowhere")
    apply(db, "crontab", path, check=False)
    assert db.one("select key from pgrab.task") == "fine"


@pytest.mark.parametrize("comma", ["", ","])
def test_the_longest_input_that_apply_takes_is_imported(db, tmp_path, comma):
    most = 1048576 - len('{"cwd": "/", "stdin": "\\n", "umask": "022"}')
    for more, count in ((0, 1), (1, 0)):
        path = crontab(tmp_path, f"HOME=/\n0 1 * * * cat%{comma}" + "x" * (most + more - len(comma) - len('"env": {"HOME": "/"}, ')) + "\n")
        assert len(imported("crontab", path, check=None)[0]) == count
        apply(db, "crontab", path, check=not more)
        assert db.one("select count(*) from pgrab.task") == 1


def test_a_file_without_an_end_is_not_read_for_ever(tmp_path):
    began = time.monotonic()
    done = run_pgrab("import", "crontab", "/dev/zero", check=False)
    assert done.returncode == 1 and "contains a zero byte" in done.stderr and time.monotonic() - began < 5


# --------------------------------------------------------------------------------------- what the shell gets

RECORDER = """#!/bin/sh
{ printf '%s\\0%s\\0' "$1" "$2"; cat; } > "$RECORD"
"""


def what_cron_gives(text):
    """The command and its standard input: a % that no backslash escapes is the end of the command, and then of a line."""
    command, given, escaped, taken = "", "", False, None
    for n, c in enumerate(text):
        if escaped:
            command = command[:-1] + c if c == "%" else command + c
            escaped = False
        elif c == "%":
            taken = n + 1
            break
        else:
            command, escaped = command + c, c == "\\"
    rest = text[taken:] if taken is not None else ""
    given = re.sub(r"\\%|%", lambda m: "%" if len(m[0]) == 2 else "\n", rest)
    return command, given + ("\n" if given and not given.endswith("\n") else "")


@pytest.mark.deadline(120)
def test_the_shell_gets_the_same_bytes_as_from_cron(db, nodes, tmp_path):
    """Through the file, the database, and a node; any character but those that end a line."""
    rnd = random.Random(20261123)
    shell, signs = tmp_path / "shell", "\"'\\\\\\%%%$`!#~*?[]{}<>|&;() \t\r\x01\x1b\x7f=:,/-éß漢😀\u202e\ufeff" + "aA0"
    shell.write_text(RECORDER)
    shell.chmod(0o755)
    lines = [rnd.choice("x:/(") + "".join(rnd.choice(signs) for _ in range(rnd.randint(1, 60))) + "x" for _ in range(40)] + ["a\\\\%b", "a\\\\\\%b", "a%b\\\\%c%%d\\", "a\\"]
    want, table = {}, f"SHELL={shell}\nHOME={tmp_path}\n"
    for n, text in enumerate(lines):
        want[n] = what_cron_gives(text)
        table += f"RECORD={tmp_path}/{n}\n0 3 29 2 * {text}\n"
    path = tmp_path / "crontab"
    path.write_bytes(table.encode())
    apply(db, "crontab", path)
    assert db.one("select count(*) from pgrab.task") == len(lines)
    nodes.start(allow="exec", workers=8)
    db.query("select pgrab.run_now(id) from pgrab.task")
    db.wait("select count(*) = %s from pgrab.run where outcome = 'succeeded'", len(lines), timeout=60)
    for n, text in enumerate(lines):
        command, given = want[n]
        assert (tmp_path / str(n)).read_bytes() == f"-c\0{command}\0{given}".encode(), text
