"""scripts/years: two years pass in minutes for a server and its node, from one interesting moment to the next, and every fire is looked for.

The server's clock, the only one by which anything is planned, jumps to just before each midnight of UTC (there days, months and
partitions end) and to just before each change of the clocks of three zones, and now and then goes back a little.  What the schedules
should have done is said by tests/model's oracle, which knows nothing of pgrab.  The clock by which a node measures leases and the hour between
two upkeeps goes on as usual, so upkeep is asked for here; the rest is the node's.
"""
import argparse
import ctypes
import datetime as dt
import random
import shutil
import sys
import time
import zoneinfo
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "model")]

import calendar_days as days  # noqa: E402
import calendar_oracle as oracle  # noqa: E402
from blackouts import Blackout, Shut  # noqa: E402
from calendar_oracle import DAY, MINUTE, UTC  # noqa: E402
from cluster import ROOT, Cluster, Db, Node, end_by_signals, end_leftovers, wait_until  # noqa: E402

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
HOUR = dt.timedelta(hours=1)
BEFORE_S = 0.5          # so long before a moment the clock arrives
RETENTION = 1           # days
CLOSED = days.Calendar("office", days=[(dt.date(y, m, d), False, "closed") for y in range(2027, 2030) for m, d in ((1, 1), (12, 25), (12, 31), (2, 29))
                                      if (m, d) != (2, 29) or y == 2028])
QUIET = Blackout("quiet", "0 18 * * SAT", zoneinfo.ZoneInfo("Europe/Berlin"), 0, 3, "skip")
TASKS = {  # name -> what its row has beside it
    **{f"0230 {zone}": {"schedule": "30 2 * * *", "timezone": zone, "misfire": misfire} for zone, misfire in zip(ZONES, ("all", "once", "all"))},
    **{f"midnight {zone}": {"schedule": "0 0 * * *", "timezone": zone, "misfire": "once"} for zone in ZONES},
    "0215 twice": {"schedule": "15 1-2 * * *", "timezone": "Australia/Lord_Howe", "misfire": "all"},
    "the 31st": {"schedule": "0 0 31 * *", "timezone": "UTC", "misfire": "all"},
    "last": {"schedule": "59 23 L * *", "timezone": "America/New_York", "misfire": "all"},
    "leap": {"schedule": "0 12 29 2 *", "timezone": "UTC", "misfire": "all"},
    "new year": {"schedule": "@yearly", "timezone": "Europe/Berlin", "misfire": "all"},
    "quarter": {"schedule": "*/15 * * * *", "timezone": "Europe/Berlin", "misfire": "skip"},
    "hourly": {"schedule": "@every 1h", "misfire": "skip"},
    "open skip": {"schedule": "0 9 * * *", "timezone": "Europe/Berlin", "misfire": "all", "calendar": "office", "on_closed": "skip"},
    "open next": {"schedule": "30 2 * * *", "timezone": "Europe/Berlin", "misfire": "all", "calendar": "office", "on_closed": "next"},
    "quiet": {"schedule": "30 */6 * * *", "timezone": "UTC", "misfire": "all"},
    "held": {"schedule": "*/30 * * * *", "timezone": "UTC", "misfire": "skip"},
}


def moments(begin, end):
    """Midnights of UTC, and what the clocks of the zones do."""
    found = {begin.replace(second=0) + n * DAY for n in range(1, (end - begin).days + 1)}
    return sorted(found | {at for zone in ZONES for at in oracle.changes(zoneinfo.ZoneInfo(zone)) if begin < at < end})


def fires(row, first, end):
    """When the schedule of a task fires from its first time on, without what a calendar or a blackout makes of it."""
    if row["schedule"].startswith("@every"):
        return [first + n * HOUR for n in range(int((end - first) / HOUR) + 1)]
    cron, zone = oracle.read(row["schedule"]), zoneinfo.ZoneInfo(row["timezone"])
    found = []
    for n in range(-1, (end - first).days + 3):
        found += days.fires_of_day(cron, zone, first.date() + n * DAY)
    return sorted(fire for fire in set(found) if fire <= end)


def expected(name, row, begin, first, end):
    """fire -> what the history may say of it."""
    ran = {"succeeded"} if row["misfire"] == "all" else {"succeeded", "missed"}
    shut = Shut([QUIET], begin - 2 * DAY, end + 20 * DAY)
    after = first if row["schedule"].startswith("@every") else begin
    plan = {}
    for fire in fires(row, after, end):
        if fire <= begin:
            continue
        if row.get("on_closed") == "skip" and days.moved(CLOSED, "skip", zoneinfo.ZoneInfo(row["timezone"]), fire) is None:
            plan[fire] = {"skipped"}
        elif row.get("on_closed") == "next":
            at = days.moved(CLOSED, "next", zoneinfo.ZoneInfo(row["timezone"]), fire)
            if at <= end:
                plan[at] = ran
        elif name == "quiet" and shut.at(fire):
            plan[fire] = {"skipped"}
        else:
            plan[fire] = ran if name != "held" else ran | {"skipped"}
    return plan


class Years:
    def __init__(self, cluster, folder, seed=1):
        self.cluster, self.rng, self.faults = cluster, random.Random(seed), []
        self.path = Path(cluster.folder) / "clock"
        self.folder = Path(folder)
        self.steps = self.back = 0
        self.rows = {}          # (name, fire, version, attempt) -> outcome
        self.lasting = {}
        self.ahead(0)
        self.env = {"FAKETIME_TIMESTAMP_FILE": str(self.path), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        cluster.pg_stop()
        cluster.pg_start(PGRAB_PG_PRELOAD=str(LIBRARY), **self.env)

    def ahead(self, seconds):
        new = self.path.with_suffix(".new")
        new.write_text(f"{seconds:+.3f}s\n", encoding="ascii")
        new.chmod(0o644)
        new.replace(self.path)

    def go_to(self, at):
        self.ahead(at.timestamp() - time.time())

    def begin(self, at):
        self.at = at
        self.go_to(at)
        self.db = Db(self.cluster, self.cluster.create_database())
        wait_until(lambda: abs((self.db.one("select clock_timestamp()") - at).total_seconds()) < 30, 10, "the server's clock to be there")
        self.node = Node(self.db, "n1", self.folder, retention=f"{RETENTION}d").wait_up(30)
        wait_until(lambda: self.db.one("select to_regclass(to_char(clock_timestamp() at time zone 'UTC', '\"pgrab.event_\"YYYYMMDD')) is not null"), 20, "today's partition")
        CLOSED.store(self.db.connect())
        self.db.query("""insert into pgrab.blackout (name, schedule, lasts, timezone, action, task_like) values
            ('quiet', '0 18 * * SAT', '3 hours', 'Europe/Berlin', 'skip', 'quiet'), ('held', '0 9 * * *', '2 hours', 'Europe/Berlin', 'hold', 'held')""")
        for name, row in TASKS.items():
            self.db.add(name=name, key=name, kind="noop", misfire_limit=1000, misfire_after="2 s", max_attempts=100, **row)
        self.start = self.db.one("select clock_timestamp()")
        self.first = {r.name: r.fire_at for r in self.db.query("select name, fire_at from pgrab.task")}
        self.incarnation = self.node.incarnation()

    def settled(self):
        return self.db.one("select not exists (select from pgrab.task where due_at <= clock_timestamp() or status in ('claimed', 'running'))")

    def step(self, moment):
        """The clock arrives just before a moment, and then everything that is due by it must be done."""
        assert self.node.running(), f"the node has ended with {self.node.proc.returncode}: {self.node.log()[-2000:]}"
        self.go_to(moment - dt.timedelta(seconds=BEFORE_S))
        self.wait(f"{moment} to be over", lambda: self.db.one("select clock_timestamp() > %s", moment))
        self.wait(f"what is due at {moment}", self.settled)
        if self.rng.random() < 0.05:
            self.back += 1
            self.go_to(moment - self.rng.choice([1, 40, 70]) * MINUTE)
            self.wait("the clock to go back", lambda: self.db.one("select clock_timestamp() < %s", moment))
            self.wait("what is due after that", self.settled)
        self.read()
        if self.rng.random() < 0.7:  # days without it, after which rows go to the default partitions, are made up for by the next
            self.upkeep(moment)
            if self.db.one("select (select count(*) from pgrab.run_rest) + (select count(*) from pgrab.event_rest)"):
                self.faults.append(f"{moment}: rows in a default partition")
        if self.node.incarnation() != self.incarnation:
            self.faults.append(f"{moment}: the node has another incarnation")
            self.incarnation = self.node.incarnation()
        self.steps += 1
        if moment.day == 1:
            print(f"{moment:%F}: {self.steps} moments, {len(self.rows)} rows of history", flush=True)

    def wait(self, what, condition):
        try:
            wait_until(condition, 60, what)
        except AssertionError as e:
            raise AssertionError(f"{e}; tasks: {self.db.query('select name, status, due_at, fire_at, last_error from pgrab.task where due_at <= clock_timestamp()')}") from None

    def read(self):
        """The history, before it is dropped."""
        for r in self.db.query("select name, fire_at, version, attempt, outcome from pgrab.run where name is not null"):
            self.rows[r.name, r.fire_at, r.version, r.attempt, r.outcome] = r.outcome

    def upkeep(self, moment):
        """It leaves to the next round what another session keeps it from: the node's own round, or for 100 ms a reader."""
        def kept():
            self.db.query("select pgrab_internal.days_ahead()")
            self.db.query(f"select count(*) from pgrab_internal.upkeep('{RETENTION} day')")
            return self.partitions() == ([], [])
        try:
            wait_until(kept, 20, "the partitions")
        except AssertionError:
            many, missing = self.partitions()
            self.faults.append(f"{moment}: partitions too many: {many}, missing: {missing}")

    def partitions(self):
        """From yesterday to three days on, none older than the retention: those too many, and those missing."""
        names = {r.relname for r in self.db.query("select relname from pg_class where relnamespace = 'pgrab'::regnamespace and relname ~ '^(run|event)_[0-9]{8}$'")}
        today = self.db.one("select (clock_timestamp() at time zone 'UTC')::date")
        want = {f"{table}_{today + n * DAY:%Y%m%d}" for table in ("run", "event") for n in range(-1, 4)}
        return sorted(names - want), sorted(want - names)

    def judge(self, end):
        """Each fire once, as the rule says."""
        for name, row in TASKS.items():
            plan, found = expected(name, row, self.start, self.first[name], end), {}
            for (whose, fire, _, _, outcome) in self.rows:
                if whose == name and fire is not None and fire <= end and outcome != "lost":
                    found.setdefault(fire, []).append(outcome)
            for fire, allowed in plan.items():
                got = found.pop(fire, [])
                if len(got) != 1 or got[0] not in allowed:
                    self.faults.append(f"{name}: its fire at {fire} should be one of {sorted(allowed)} and is {got}")
            # What falls together with another fire, or was closed, is said of the time at which it would have come.
            self.faults += [f"{name}: {got} at {fire}, when it does not fire" for fire, got in found.items() if "next" not in name or set(got) != {"skipped"}]
            self.lasting[name] = len(plan)

    def run(self, begin, end):
        self.begin(begin)
        last = moments(begin, end)
        for moment in last:
            self.step(moment)
        self.judge(last[-1])
        return self.faults

    def close(self):
        if hasattr(self, "node"):
            self.node.end(30)
        if hasattr(self, "db"):
            self.db.close()
        self.cluster.pg_stop()
        self.path.unlink()
        self.cluster.pg_start()


def main():
    parser = argparse.ArgumentParser(prog="scripts/years", add_help=False)
    parser.add_argument("--from", dest="begin", type=dt.date.fromisoformat, default=dt.date(2027, 1, 1))
    parser.add_argument("--days", type=int, default=731)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not LIBRARY.exists():
        parser.error("faketime is not installed (scripts/deps check)")
    end_by_signals()
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    folder = ROOT / ".pgrab/years"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begun = time.monotonic()
    cluster = Cluster(stoppable=True)
    try:
        years = Years(cluster, folder, options.seed)
        try:
            begin = dt.datetime.combine(options.begin, dt.time(0, 0, 30), UTC)
            faults = years.run(begin, begin + options.days * DAY)
            print(f"seed {options.seed}: {options.days} days, {years.steps} moments, {years.back} times back, {sum(years.lasting.values())} fires of {len(TASKS)} "
                  f"schedules, in {time.monotonic() - begun:.0f} s: {'VIOLATED' if faults else 'ok'}", *faults[:100], sep="\n  ", flush=True)
        finally:
            years.close()
    finally:
        end_leftovers(15)
        cluster.close()
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
