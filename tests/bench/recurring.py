"""Recurring tasks by the hundred thousand: all due on one second, or spread over a minute."""
import time
from datetime import datetime, timedelta, timezone

import psycopg
from meter import Meter
from process import Failed
from rounds import end, fresh, shape, watch

INSERT_S_PER_TASK = 0.0002  # planned for at first
PREPARE_S = 2               # to settle the server and start the nodes, before the first fire


class TooLate(Exception):
    """The first fire came before everything was ready."""


def in_time(play, tasks):
    """play(first), first a whole second late enough to have everything ready; on a slow or busy machine later and later."""
    for patience in (1, 3, 9):
        first = datetime.now(timezone.utc) + timedelta(seconds=patience * (PREPARE_S + tasks * INSERT_S_PER_TASK))
        try:
            return play(first.replace(microsecond=0))
        except TooLate:
            continue
    raise Failed(f"{tasks} recurring tasks could not be inserted before their first fire")


def measure(contender, tasks, first, statement, *params):
    with fresh(contender) as db:
        try:
            db.query(statement, *params)
        except psycopg.errors.InvalidParameterValue as e:  # its only fire is over
            raise TooLate if time.time() > first.timestamp() else e
        db.settle()
        meter = Meter(db)
        meter.processes = processes = contender.spawn(db, 2)
        contender.wait_ready(db, processes)
        if time.time() > first.timestamp():
            raise TooLate
        watch(lambda: contender.done(db) >= tasks, processes)
        meter.stop()
        end(processes)
        contender.check(db, tasks)
        late = contender.lateness(db, processes)
        clear_s = db.one("select extract(epoch from max(finished_at) - %s)::float8 from pgrab.run", first)
        if min(late) < 0:
            raise Failed(f"a task started {-min(late) * 1e3:.3f} ms before it was due")
        return {"clear_ms": clear_s * 1e3} | shape(late) | meter.counted(tasks)


def burst(contender, tasks):
    """All on one second of the day."""
    return in_time(lambda first: measure(
        contender, tasks, first, "insert into pgrab.task (kind, schedule) select 'noop', %s from generate_series(1, %s)",
        f"{first.second} {first.minute} {first.hour} * * *", tasks), tasks)


def spread(contender, tasks, seconds):
    """On that many seconds of one minute, each task once."""
    return in_time(lambda first: measure(
        contender, tasks, first,
        "insert into pgrab.task (kind, schedule, starts_at, ends_at) select 'noop', (%s + i %% %s) %% 60 || ' * * * * *', %s, %s "
        "from generate_series(1, %s) i", first.second, seconds, first, first + timedelta(seconds=seconds - 0.5), tasks), tasks)
