"""Tasks that wait, in the load of a seed: for answers, for signals, in steps and for the members of a batch; who answers them; and the rules for them."""
import collections
import functools
import http.server
import json
import random
import threading
import time
import urllib.error
import urllib.request

import psycopg

Sent = collections.namedtuple("Sent", "name by told at")        # told: it counts (True), it does not (False), nothing for sure (None); at: first try
Call = collections.namedtuple("Call", "name what key pid at")   # a step of a handler was done
Request = collections.namedtuple("Request", "name fire token at")
Answer = collections.namedtuple("Answer", "name token outcome output told")  # told: as above, or what it should not have been told
STEPS = ["one", "two", "three"]
MEMBERS = 8


def signal(db, key, by, over):
    """Until there is an answer, as a person would.  Sent."""
    begun, told = time.time(), False
    while not over.is_set():
        try:
            with db.connect() as conn:
                rows = conn.execute("select status from pgrab.signal(%s, 'approved', %s)", [key, json.dumps({"by": by})]).fetchall()
                return Sent(key, by, True if rows and rows[0].status != "parked" else told, begun)  # parked: it is kept for a retry
        except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.NoDataFound, psycopg.errors.UndefinedObject):
            return Sent(key, by, told, begun)  # it has ended
        except psycopg.Error:
            told = None  # it may have come
            over.wait(0.05)
    return Sent(key, by, None, begun)


def draw(seed, seconds, nodes):
    """More faults, around the statements by which waits and steps go on: (at, name, arguments)."""
    rng = random.Random(f"{seed} waits faults")
    words = ["step", "step", "sql_step", "sql_step", "waits", "tell", "finish", "commit"]
    return [(round(rng.uniform(0.5, seconds), 2), "cuts", {"node": rng.randrange(nodes), "length": 0.3, "pick": rng.random(),
             "words": [(rng.choice(words), rng.random() < 0.3) for _ in range(6)]}) for _ in range(2)]


class Receiver(http.server.ThreadingHTTPServer):
    """Accepts each request, and has it answered in the way that its path asks for: /soon, /quick, /late, /twice, /never, /fails."""
    daemon_threads = True

    def __init__(self, db, over):
        self.db, self.over = db, over
        self.requests, self.answers = [], []
        self.pending = []
        super().__init__(("127.0.0.1", 0), Accept)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def url(self, how, name):
        return f"http://127.0.0.1:{self.server_port}/{how}/{name}"

    def later(self, seconds, request, url, outcome, by):
        thread = threading.Thread(target=self.answer, args=(time.monotonic() + seconds, request, url, outcome, by), daemon=True)
        thread.start()
        self.pending.append(thread)
        return thread

    def answer(self, at, request, url, outcome, by):
        self.over.wait(max(0, at - time.monotonic()))
        answer = {"outcome": outcome, "output": f"{request.token[:40]} {by}"}
        told = False
        while not self.over.is_set():
            try:
                told = (self.by_door if by != "bob" else self.by_sql)(request, url, answer) or told
                break
            except (OSError, psycopg.Error):
                told = None  # it may have come
                self.over.wait(0.1)
        self.answers.append(Answer(request.name, request.token, outcome, answer["output"], told))

    def by_door(self, request, url, answer):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, json.dumps(answer).encode()), timeout=5) as reply:
                return json.load(reply)["status"] == answer["outcome"]
        except urllib.error.HTTPError as e:
            with e:
                if e.code in (429, 503):
                    raise
                return False if e.code == 410 else f"status {e.code}"

    def by_sql(self, request, url, answer):
        try:
            with self.db.connect() as conn:
                row = conn.execute("select pgrab.resolve(%s, %s, %s) as said", [int(url.split("/")[-2]), request.token, json.dumps(answer)]).fetchone()
                return row.said == answer["outcome"]
        except psycopg.errors.ObjectNotInPrerequisiteState:
            return False
        except psycopg.errors.InvalidAuthorizationSpecification as e:
            return f"error {e.sqlstate}"


class Accept(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        server, headers = self.server, self.headers
        self.rfile.read(int(headers["Content-Length"]))
        _, how, name = self.path.split("/")
        request = Request(name, headers["Pgrab-Fire"], headers["Pgrab-Token"], time.time())
        first = not any(r.name == name for r in server.requests)
        server.requests.append(request)
        answer = functools.partial(server.later, request=request, url=headers["Pgrab-Callback"])
        if how == "quick":
            answer(0, outcome="succeeded", by="ann").join(2)
        elif how == "twice":
            answer(0.3, outcome="succeeded", by="ann")
            answer(0.3, outcome="failed", by="bob")
        elif how == "fails" and first:
            answer(0.2, outcome="failed", by="bob")
        elif how == "late" and first:
            answer(2.5, outcome="succeeded", by="ann")
        elif how != "never" or not first:
            answer(0.5, outcome="succeeded", by="bob" if how == "soon" else "ann")
        try:
            self.send_response(202)
            self.end_headers()
        except OSError:
            pass  # its node has died

    def log_message(self, *args):
        pass


class Waits:
    """load: where its tasks are inserted, and what they promise is noted."""

    def __init__(self, load, seed, over):
        self.load, self.db, self.over = load, load.db, over
        self.rng = random.Random(f"{seed} waits")
        self.receiver = Receiver(self.db, over)
        self.sent, self.threads = [], []
        self.batches = {}  # name -> names of its members; another, `after`, follows it
        self.never = {}    # name -> seconds after which nobody waits any longer

    def soon(self):
        """A moment among the faults."""
        return self.db.one("select now() + %s * interval '1 s'", self.rng.uniform(1, 9))

    def insert(self, promise, name, **columns):
        self.load.insert(promise, name, run_at=self.soon(), **columns)

    def begin(self):
        rng, insert = self.rng, self.insert
        for i, how in enumerate(["soon", "quick", "late", "twice", "never", "fails", "soon", "late"]):
            insert("answer", f"{how}{i}", kind="http", command=self.receiver.url(how, f"{how}{i}"), args={"await": True, "body": "{}"},
                   timeout="1500 ms" if how in ("late", "never") else "1 minute")
        for i, how in enumerate(["soon", "never", "twice"]):
            insert("once_answer", f"once_{how}{i}", kind="http", command=self.receiver.url(how, f"once_{how}{i}"), args={"await": True, "body": "{}"},
                   timeout="1500 ms" if how == "never" else "1 minute", delivery="at_most_once", max_attempts=1)
        for i in range(6):
            steps = [{"name": s, "command": f"insert into public.effect select 'steps{i}:{s}', pg_sleep({rng.uniform(0, 0.2):.2f})::text"} for s in STEPS]
            insert("steps", f"steps{i}", args={"steps": steps})
        for i in range(6):
            self.load.shell("once", f"signal{i}", most=0.3, wait_for="approved")  # planned for now: it waits all the time
            self.people(f"signal{i}", early=i < 2, twice=i > 3)
        insert("vain", "vain", kind="noop", wait_for="approved", wait_timeout="2 s")
        self.never["vain"] = 2.0
        self.batch()

    def batch(self):
        with self.db.connect(autocommit=False) as conn:
            batch = conn.execute("insert into pgrab.task (name, key, kind) values ('batch', 'batch', 'batch') returning id").fetchone().id
            conn.execute("insert into pgrab.task (name, key, kind, parent_id) values ('after', 'after', 'noop', %s)", [batch])
        self.batches["batch"] = [f"member{i}" for i in range(MEMBERS)]
        for name in self.batches["batch"]:
            self.load.effect("sql", name, batch=batch, run_at=self.soon())
        self.load.promises.update(batch="batch", after="batch")
        self.do(self.rng.uniform(2, 9), self.seal)

    def handlers(self, kinds):
        """Tasks of handlers with steps and a wait between them; once a node has told of the kinds."""
        for i in range(9):
            kind, patience = kinds[i % len(kinds)], 1.0 if i > 6 else None
            self.insert("handler", f"waits{i}", kind=kind, args={"tag": f"waits{i}", "patience": patience})
            if patience is None:
                self.people(f"waits{i}", early=i < 2, twice=i > 4)
            else:
                self.never[f"waits{i}"] = patience

    def people(self, name, early, twice):
        at = 0 if early else self.rng.uniform(2, 10)
        for by in ("ann", "bob")[:1 + twice]:
            self.do(at, lambda by=by: self.sent.append(signal(self.db, name, by, self.over)))

    def do(self, seconds, what):
        def later(at):
            self.over.wait(max(0, at - time.monotonic()))
            what()
        self.threads.append(threading.Thread(target=later, args=(time.monotonic() + seconds,), daemon=True))
        self.threads[-1].start()

    def seal(self):
        while not self.over.is_set():
            try:
                return self.db.query("select pgrab.seal('batch')")
            except psycopg.Error:
                self.over.wait(0.1)
        return None

    def settle(self):
        """Whoever had something to say has said it."""
        for thread in self.threads + self.receiver.pending:
            thread.join(30)

    def waited(self):
        return Waited(list(self.receiver.requests), list(self.receiver.answers), self.sent, self.calls(), self.batches, self.never)

    def calls(self):
        """What handlers have done in their steps."""
        lines = self.load.steps_file.read_text(encoding="utf-8").splitlines()
        return [Call(name, what, key, pid, float(at)) for name, what, key, pid, at in (line.split("\t") for line in lines)]

    def close(self):
        self.receiver.shutdown()
        self.receiver.server_close()


# --- the rules


class Waited:
    """What is recorded of all that: each a list of the rows above."""

    def __init__(self, requests=(), answers=(), sent=(), calls=(), batches=None, never=None):
        self.requests, self.answers, self.sent, self.calls = requests, answers, sent, calls
        self.batches, self.never = batches or {}, never or {}


def stable_keys(name, calls, runs):
    """I16: a step of a handler is done again only after an attempt that was cut short, and always with the key of its fire."""
    cut, faults = sum(r.outcome in ("failed", "lost", "timed_out", "preempted") for r in runs), []
    for what in sorted({c.what for c in calls if c.name == name}):
        keys = [c.key for c in calls if c.name == name and c.what == what]
        if len(set(keys)) > 1:
            faults.append(f"I16 {name}: {what} was done with the keys {sorted(set(keys))}")
        if len(keys) > 1 + cut:
            faults.append(f"I16 {name}: {what} was done {len(keys)} times, and its runs: {[r.outcome for r in runs]}")
    return faults


def first_counts(name, by, sent):
    """I17: one signal counts, and it is the one whose sender was told so.  by: whose the history names."""
    told = {s.by: s.told for s in sent if s.name == name}
    winners, faults = [who for who, counts in told.items() if counts], []
    if len(winners) > 1:
        faults.append(f"I17 {name}: {winners} were both told that theirs counts")
    if by is not None and (told.get(by, False) is False or (winners and by not in winners)):
        faults.append(f"I17 {name}: {by} counts, and the senders were told {told}")
    return faults


def signaller(run, promise):
    """Whom a run that has succeeded names."""
    return json.loads(run.output.splitlines()[-1]) if promise == "handler" else run.signals[0]["payload"]["by"]


def steps(h):
    """I15: each step of a sql task has its effect exactly once.  I16: those of handlers are done, and see above."""
    faults = []
    for name, promise in h.promises.items():
        done = any(r.ended == "done" for r in h.runs[name])
        if promise == "steps":
            faults += [f"I15 {name}: step {s} had its effect {h.effects.get(f'{name}:{s}', 0)} times" for s in STEPS
                       if h.effects.get(f"{name}:{s}", 0) != 1 and (done or h.effects.get(f"{name}:{s}", 0) > 1)]
        if promise == "handler":
            faults += stable_keys(name, h.waited.calls, h.runs[name])
            faults += [f"I16 {name}: has ended, and {what} was never done" for what in ("pay", "ship")
                       if done and not any(c.name == name and c.what == what for c in h.waited.calls)]
    return faults


def signals(h):
    """I17, and I18: nothing begins before its signal was sent, or goes on before the time is over in which it may come."""
    faults, first = [], {}
    for s in h.waited.sent:
        first[s.name] = min(s.at, first.get(s.name, s.at))
    for name, at in first.items():
        done = [r for r in h.runs[name] if r.outcome == "succeeded"]
        faults += first_counts(name, signaller(done[-1], h.promises[name]) if done else None, h.waited.sent)
        faults += [f"I18 {name}: began {at - s.at:.3f} s before its signal was sent" for s in h.starts[name] if s.at < at]
    for name, seconds in h.waited.never.items():
        faults += in_vain(h, name, seconds)
    return faults


def in_vain(h, name, seconds):
    runs = h.runs[name]
    if h.promises[name] == "handler":
        waits = [(a.finished_at, b.started_at) for a, b in zip(runs, runs[1:]) if a.outcome == "waited"]
        over = any(r.outcome == "succeeded" and signaller(r, "handler") == "nobody" for r in runs)
    else:
        waits = [(r.fire_at, r.finished_at) for r in runs if r.outcome == "timed_out"]
        over = len(waits) == 1
    faults = [f"I18 {name}: waited {(b - a).total_seconds():.3f} s of {seconds} s" for a, b in waits if (b - a).total_seconds() < seconds]
    return faults + ([] if over and waits else [f"I14 {name}: its time is over, and its wait is not"])


def answers(h):
    """I17: a run has one answer, and it is the one whose sender was told so.  I4: what is sent once is sent once."""
    faults = []
    runs = {(name, f"{r.version}.{r.incarnation}"): r for name, of in h.runs.items() for r in of}
    for (name, token), said in by_run(h.waited.answers).items():
        run = runs.get((name, token))
        counted = [a for a in said if a.told is True]
        if len(counted) > 1:
            faults.append(f"I17 {name}: {len(counted)} answers to run {token} were recorded")
        for a in said:
            is_its = run is not None and run.output == a.output and run.outcome == a.outcome
            if a.told not in (True, False, None):
                faults.append(f"I17 {name}: an answer to run {token} was refused with {a.told}")
            elif a.told is not None and is_its != a.told:
                faults.append(f"I17 {name}: {a.output} was told {a.told}, and run {token} is {run and (run.outcome, run.output)}")
    for name, promise in h.promises.items():
        sent = [r for r in h.waited.requests if r.name == name]
        if promise == "once_answer" and len(sent) > 1:
            faults.append(f"I4 {name}: at_most_once, and was sent {len(sent)} times")
        if promise in ("answer", "once_answer"):
            heard = {a.output for a in h.waited.answers if a.name == name}
            faults += [f"I17 {name}: succeeded with {r.output}, which nobody answered" for r in h.runs[name] if r.outcome == "succeeded" and r.output not in heard]
            faults += [f"I16 {name}: was sent for the fires {sorted({r.fire for r in sent})}"] if len({r.fire for r in sent}) > 1 else []
    return faults


def by_run(said):
    found = collections.defaultdict(list)
    for a in said:
        found[a.name, a.token.rsplit(".", 1)[0]].append(a)
    return found


def batches(h):
    """I19: a batch ends once, after its members, and what follows it after that."""
    faults = []
    for name, members in h.waited.batches.items():
        ends = [r for r in h.runs[name] if r.ended == "done"]
        if len(ends) != 1 or ends[0].output != f"{len(members)} members, {len(members)} succeeded":
            faults.append(f"I19 {name}: has ended as {[(r.outcome, r.output) for r in h.runs[name]]}")
            continue
        last = max((r.finished_at for m in members for r in h.runs[m] if r.ended == "done"), default=None)
        if last is None or ends[0].finished_at < last:
            faults.append(f"I19 {name}: has ended before its members")
        faults += [f"I19 after: ran before {name} had ended" for r in h.runs["after"] if r.outcome == "succeeded" and r.finished_at < ends[0].finished_at]
    return faults


CHECKS = [steps, signals, answers, batches]
