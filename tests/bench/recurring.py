"""Recurring tasks by the hundred thousand: all due on one second, or spread over a minute."""
import time
from datetime import datetime, timedelta, timezone

from meter import Meter
from process import Failed
from rounds import end, fresh, shape, watch

INSERT_S_PER_TASK = 0.0002  # planned for; a slower machine is told so
PREPARE_S = 5               # to settle the server and start the nodes, before the first fire


def after(tasks):
    """A whole second, late enough to have everything ready."""
    return (datetime.now(timezone.utc) + timedelta(seconds=PREPARE_S + tasks * INSERT_S_PER_TASK)).replace(microsecond=0)


def measure(contender, tasks, first, statement, *params):
    with fresh(contender) as db:
        db.query(statement, *params)
        db.settle()
        meter = Meter(db)
        meter.processes = processes = contender.spawn(db, 2)
        contender.wait_ready(db, processes)
        if time.time() > first.timestamp():
            raise Failed(f"{tasks} recurring tasks could not be inserted before their first fire")
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
    first = after(tasks)
    return measure(contender, tasks, first, "insert into pgrab.task (kind, schedule) select 'noop', %s from generate_series(1, %s)",
                   f"{first.second} {first.minute} {first.hour} * * *", tasks)


def spread(contender, tasks, seconds):
    """On that many seconds of one minute, each task once."""
    first = after(tasks)
    return measure(contender, tasks, first,
                   "insert into pgrab.task (kind, schedule, starts_at, ends_at) select 'noop', (%s + i %% %s) %% 60 || ' * * * * *', %s, %s "
                   "from generate_series(1, %s) i", first.second, seconds, first, first + timedelta(seconds=seconds - 0.5), tasks)
