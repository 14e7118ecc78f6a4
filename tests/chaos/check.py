"""The history checker: from what was recorded to what was promised.  Each fault is one plain sentence."""
import collections
import re

import waits
import when

Start = collections.namedtuple("Start", "name at attempt fence fire_at")
Begun = collections.namedtuple("Begun", "name at asked_at")  # asked_at: when the database was told to let it start


class History:
    """runs: rows of pgrab.run; events: of the probes; effects: name -> rows; promises, parents, acks: of the load;
    begun: each start that the database let pass (Begun); waited: of what waits; windows: blackouts."""

    def __init__(self, runs, events, effects, promises, parents, acks, begun, waited=None, windows=()):
        self.begun, self.waited, self.windows = begun, waited or waits.Waited(), windows
        self.events, self.effects, self.promises, self.parents, self.acks = events, effects, promises, parents, acks
        self.runs = collections.defaultdict(list)
        for run in runs:
            self.runs[run.name].append(run)
        self.starts, self.ends = collections.defaultdict(list), collections.defaultdict(dict)
        for e in events:
            if e.what == "start":
                self.starts[e.tag].append(Start(e.tag, float(e.at), int(e.attempt or 0), e.fence, e.fire_at))
            elif e.what == "end":
                self.ends[e.tag][e.fence] = float(e.at)


def overlaps(h):
    """I3: the probe of one run held the lock of its task while another began."""
    return [f"I3 {e.tag}: attempt {e.attempt} of fire {e.fire_at} began while another run of the task was at work" for e in h.events if e.what == "overlap"]


def lost(h):
    """I1, I6: each task that runs once has exactly one end, and a task that may be tried again has really run."""
    faults = []
    for name, promise in h.promises.items():
        if promise in ("grid", "sqlgrid", "vain", "past"):
            continue
        ended = [r for r in h.runs[name] if r.ended is not None]
        parked = promise in ("amo", "once_answer") and h.runs[name] and not ended
        if len(ended) != 1 and not parked and not paused_for_good(h, name):
            faults.append(f"I1 {name}: has ended {len(ended)} times")
        if promise in ("once", "limited", "link") and any(r.ended == "done" for r in ended) and not h.ends[name]:
            faults.append(f"I1 {name}: is done and its program has never come to its end")
    return faults


def paused_for_good(h, name):
    return any(n == name and what == "pause" for n, what, _ in h.acks)


def at_most_once(h):
    """I4."""
    return [f"I4 {name}: at_most_once, and started {len(h.starts[name])} times"
            for name, promise in h.promises.items() if promise == "amo" and len(h.starts[name]) > 1]


def doubled(h):
    """I6, exactly once in effect: as many effects of a sql task as it has succeeded; a one-shot succeeds once."""
    faults = []
    for name, promise in h.promises.items():
        done = [r for r in h.runs[name] if r.outcome == "succeeded"]
        if promise in ("sql", "sqlgrid", "past") and h.effects.get(name, 0) != len(done):
            faults.append(f"I6 {name}: {h.effects.get(name, 0)} effects of {len(done)} successes")
        if promise not in ("grid", "sqlgrid", "past") and len(done) > 1:
            faults.append(f"I6 {name}: has succeeded {len(done)} times")
    return faults


def grids(h):
    """I2: each planned time of a schedule has one success, and none was left out."""
    faults = []
    for name, promise in h.promises.items():
        if promise not in ("grid", "sqlgrid"):
            continue
        fires = collections.Counter(r.fire_at for r in h.runs[name] if r.outcome == "succeeded")
        times = sorted(fires)
        faults += [f"I2 {name}: fire {t} has succeeded {n} times" for t, n in fires.items() if n > 1]
        faults += [f"I2 {name}: nothing between {a} and {b}" for a, b in zip(times, times[1:]) if (b - a).total_seconds() > 1.5]
    return faults


def fenced(h):
    """I7, I8: whatever ran has a claim of its own, and no two attempts of one fire have one number."""
    faults = []
    for name, starts in h.starts.items():
        seen = collections.Counter(s.fence for s in starts)
        faults += [f"I7 {name}: claim {fence} was executed {n} times" for fence, n in seen.items() if n > 1]
        known = {f"{r.incarnation}-{r.version}" for r in h.runs[name]}
        faults += [f"I8 {name}: ran as {s.fence}, of which the history knows nothing" for s in starts
                   if s.fence not in known and not any(n == name and what == "delete" for n, what, _ in h.acks)]
    return faults


def acknowledged(h):
    """I8: nothing is let start after a person was told that it will not."""
    faults = []
    for name, what, at in h.acks:
        if name is not None:
            faults += [f"I8 {n}: started {begun - at:.3f} s after {what} was acknowledged" for n, begun, _ in h.begun if n == name and begun > at]
    stops = [(at, what) for n, what, at in h.acks if n is None]
    for (begin, what), (end, _) in zip(stops, stops[1:]):
        if what == "pause_all":
            faults += [f"I8 {n}: started {begun - begin:.3f} s after pause_all was acknowledged" for n, begun, _ in h.begun if begin < begun < end]
    return faults


def chains(h):
    """I9: a link starts after each of its parents has succeeded."""
    faults = []
    for name, parents in h.parents.items():
        for parent in parents:
            done = [r.finished_at.timestamp() for r in h.runs[parent] if r.outcome == "succeeded"]
            faults += [f"I9 {name}: started before {parent} had succeeded" for s in h.starts[name] if not done or s.at < min(done) - 0.1]
    return faults


def limits(h, most=2):
    """Of what came to its end: never more at work at once than the limit lets."""
    moves = []
    for name, promise in h.promises.items():
        if promise == "limited":
            for s in h.starts[name]:
                if s.fence in h.ends[name]:
                    moves += [(s.at, 1, name), (h.ends[name][s.fence], -1, name)]
    count, faults = 0, []
    for at, move, name in sorted(moves, key=lambda m: (m[0], m[1])):
        count += move
        if count > most:
            faults.append(f"limit {name}: {count} at work at {at:.3f}, {most} are let")
    return faults


# How a run ends through another one.  Alone in its process it ends by its own fault, and is lost when the node had no lease by then.
THROUGH = re.compile(r"which of its \d+ tasks did that|task \d+ in it would not stop")


def blameless(h):
    """I12: of the runs that ended with one handler process at most one has failed; the others cost their task no attempt."""
    ended, faults = collections.defaultdict(list), []
    pids = {e.fence: e.pid for e in h.events if e.what == "start"}
    for name, runs in h.runs.items():
        for i, run in enumerate(runs):
            if not (run.error or "").startswith("its process"):
                continue
            ended[pids.get(f"{run.incarnation}-{run.version}")].append(run)
            again = [r for r in runs[i + 1:] if r.fire_at == run.fire_at][:1]
            if run.outcome == "lost" and THROUGH.search(run.error) and again and again[0].attempt != run.attempt:
                faults.append(f"I12 {name}: attempt {run.attempt} was lost through another task, and counted")
    for pid, runs in ended.items():
        failed = [r.name for r in runs if r.outcome == "failed"]
        if pid is not None and len(runs) > 1 and failed:
            faults.append(f"I12 {', '.join(failed)}: failed with process {pid}, which had {len(runs)} tasks")
    return faults


CHECKS = [overlaps, lost, at_most_once, doubled, grids, fenced, acknowledged, chains, limits, blameless, *waits.CHECKS, *when.CHECKS]


def check(h):
    return [fault for one in CHECKS for fault in one(h)]
