"""The calendar beside other calendars: a deterministic part of what tests/model/calendar_compare.py does at length."""
import datetime as dt
import random
import sys
import time
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))
import blackouts  # noqa: E402
import calendar_compare as compare  # noqa: E402
import calendar_days as days  # noqa: E402
import calendar_oracle as oracle  # noqa: E402

UTC = dt.timezone.utc
SEED = 20261121


@pytest.fixture
def conn(db):
    with psycopg.connect(db.dsn, autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        yield connection


def test_croniter_agrees_in_utc(conn):
    pytest.importorskip("croniter", reason="croniter is not installed: scripts/deps installs python3-croniter")
    assert compare.compare_croniter(conn, random.Random(SEED), 3000) == 0


def test_the_oracle_agrees_in_all_zones(conn):
    assert oracle.check_fires(conn, random.Random(SEED), 150) == 0


def test_the_oracle_agrees_on_open_days(db):
    with psycopg.connect(db.dsn) as connection:
        connection.execute("set timezone = 'UTC'")
        assert days.check_random(connection, random.Random(SEED), 150) + days.check_years(connection) == 0
        connection.rollback()


def test_the_oracle_agrees_on_blackouts(db):
    with psycopg.connect(db.dsn) as connection:
        connection.execute("set timezone = 'UTC'")
        assert blackouts.check_random(connection, random.Random(SEED), 40) == 0
        connection.rollback()


def test_every_clock_change_of_five_zones_is_as_the_oracle_says(conn):
    assert compare.check_changes(conn, random.Random(SEED), 9) == 0


def test_every_leap_day_and_month_end_is_found(conn):
    first, last = dt.date(1970, 1, 1), dt.date(2040, 12, 31)
    dates = [first + n * oracle.DAY for n in range(1, (last - first).days + 1)]
    for text in ["0 0 29 2 *", "0 0 28,29 2 MON", "0 0 31 * *", "0 0 30 * *", "0 0 L * *", "0 0 LW * *", "0 0 31W * *", "0 0 * * 5L",
                 "0 0 * 2,12 THU#5", "0 0 L */2 */3"]:
        cron = oracle.read(text)
        want = [dt.datetime(d.year, d.month, d.day, tzinfo=UTC) for d in dates if cron.day_matches(d)]
        got = [row[0] for row in conn.execute("select pgrab.fires(%s, 'UTC', %s, %s)", (text, first, last))]
        assert got == want, text


def test_a_schedule_that_fires_once_in_years_is_found_without_stepping(conn):
    """A thousand of each in the time in which a walk by minutes would not find one."""
    for text, after, fire in [
        ("0 0 29 2 *", "2096-03-01", "2104-02-29"), ("0 0 29 2 */7", "2088-03-01", "2128-02-29"),
        ("0 0 * 2 SUN#5", "2060-03-01", "2088-02-29"), ("59 59 23 31 12 *", "2026-12-31 23:59:59", "2027-12-31 23:59:59"),
    ]:
        began = time.monotonic()
        found = conn.execute("select distinct pgrab.next_fire(%s, z, %s::timestamptz + n * interval '1 second')"
                             " from generate_series(0, 499) as n cross join unnest(array['UTC', 'Etc/GMT']) as z", (text, after)).fetchall()
        assert time.monotonic() - began < 3, text
        assert found == [(dt.datetime.fromisoformat(fire).replace(tzinfo=UTC),)]
