"""The order of docs/waiting.md, as it stands there, while handlers, nodes and the server are killed: its two forms, and what has to come of them."""
import collections
import json
import random
import re
import sys
import threading
import time
from datetime import timedelta

import waits
from arena import TIMES, Arena
from cluster import ROOT
from faults import LENGTHS, VICTIMS
from waits import Call, signal

Order = collections.namedtuple("Order", "id form fate patience")     # patience: seconds; None: a day
FORMS = ["chain", "order", "order_awaited"]
FATES = ["early", "approved", "twice", "never", "close"]
SECTION = (ROOT / "docs/waiting.md").read_text(encoding="utf-8").split("## An order, from payment to refund\n")[1].split("\n## ")[0]


def name_of(order_id):
    """Of what waits for the approval: a link of a chain, or a task of a handler."""
    return f"approve {order_id}"


def sql_form():
    """Its tables and its function, from the session on the page."""
    typed = re.findall(r"^pgrab[-=(*'\"$]+> (.*)$", SECTION.split("```psql\n")[1].split("```")[0], re.M)
    text = "\n".join(typed).split("select place_order(")[0]
    assert text.count("create ") == 3, text
    return text


# What is outside is a file.  A tenth of the calls ends the process, before or after it has done something.
OUTSIDE = """
import os, random, signal, time

def outside(what, order_id, key):
    end = random.random()
    if end < 0.05:
        os.kill(os.getpid(), signal.SIGKILL)
    with open(os.environ["CALLS"], "a", encoding="utf-8") as f:
        f.write(f"{what}\\t{order_id}\\t{key}\\t{os.getpid()}\\t{time.time():.6f}\\n")
    if end > 0.95:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{what} {order_id}"

def charge(order_id, amount, key): return outside("pay", order_id, key)
def ship(order_id, key): return outside("ship", order_id, key)
def refund(receipt, key): return outside("refund", receipt.split()[1], key)

PATIENCE = {patience}
def patience(order_id): return timedelta(seconds=PATIENCE.get(order_id, 86400))
"""


def python_form(orders):
    """(file of plain functions, file of coroutines): the text of the page, with something outside and the patience of each order."""
    text = SECTION.split("```python\n")[1].split("```")[0]
    assert text.count("timedelta(days=1)") == 1 and text.count("\nrun()\n") == 1
    given = OUTSIDE.replace("{patience}", repr({o.id: o.patience for o in orders if o.patience is not None}))
    text = text.replace("timedelta(days=1)", "patience(order_id)").replace("\n@task", given + "\n@task", 1)
    awaited = text.replace('@task("order")\ndef', '@task("order_awaited")\nasync def').replace("ctx.step(", "await ctx.step(").replace("ctx.wait(", "await ctx.wait(")
    assert awaited.count("await ") == 4
    return text, awaited


class Orders:
    """The orders of one seed, and the people who approve them."""

    def __init__(self, db, folder, rng):
        self.db, self.folder, self.rng = db, folder, rng
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        self.sent, self.orders = [], []
        for form in FORMS:
            for fate in FATES:
                for _ in range(1 if form == "order_awaited" else 2):
                    patience = round(rng.uniform(0.5, 3), 2) if fate in ("never", "close") else None
                    self.orders.append(Order(len(self.orders) + 1, form, fate, patience))

    def sections(self):
        path = self.folder / "pgrab.conf"
        env = f"env = CALLS={self.calls_file},PYTHONPATH={ROOT}/contrib/handlers/python,PYTHONDONTWRITEBYTECODE=1"
        parts = []
        for text, kind, processes in zip(python_form(self.orders), FORMS[1:], (2, 1)):
            file = self.folder / f"{kind}.py"
            file.write_text(text, encoding="utf-8")
            parts.append(f"[pool {kind}]\ncommand = {sys.executable} {file}\nkinds = {kind}\nprocesses = {processes}\nping_timeout = 2s\n{env}\n")
        path.write_text("".join(parts), encoding="utf-8")
        path.chmod(0o600)
        return path

    def begin(self):
        self.db.query("set check_function_bodies = off; " + sql_form())
        with self.db.connect(autocommit=False) as conn:
            for o in self.orders:
                if o.form == "chain":
                    conn.execute("select place_order(%s, 9.90, %s)", [o.id, timedelta(seconds=o.patience) if o.patience else timedelta(days=1)])
            conn.execute("update pgrab.task set max_attempts = 100, backoff = '50 ms'")

    def place(self, o):
        """Of handlers, whose kinds a node has to have told first."""
        self.db.query("insert into pgrab.task (key, kind, args, max_attempts, backoff) values (%s, %s, %s, 100, '50 ms') on conflict (key) do nothing",
                      name_of(o.id), o.form, json.dumps({"order_id": o.id, "amount": 9.9}))

    def people(self):
        """(seconds, order, who) of each approval."""
        acts = []
        for o in self.orders:
            at = {"early": 0.0, "close": (o.patience or 0) + self.rng.uniform(0, 1)}.get(o.fate, self.rng.uniform(1, 4))
            acts += [(at, o, by) for by in {"never": [], "twice": ["ann", "bob"]}.get(o.fate, ["ann"])]
        return acts

    def history(self):
        payments = [(r.order_id, float(r.amount)) for r in self.db.query("select order_id, amount from public.payment")]
        shipments = [r.order_id for r in self.db.query("select order_id from public.shipment")]
        calls = [Call(name_of(int(order)), what, key, pid, float(at))
                 for what, order, key, pid, at in (line.split("\t") for line in self.calls_file.read_text(encoding="utf-8").splitlines())]
        runs = self.db.query("""select coalesce(key, name) as name, outcome, ended, attempt, started_at, finished_at, output, error, signals
            from pgrab.run order by finished_at""")
        (self.folder / "runs").write_text("".join(f"{run}\n" for run in runs), encoding="utf-8")
        return History(self.orders, payments, shipments, calls, runs, self.sent)

    # What the arena asks of a load.

    def caught_up(self):
        return True

    def left(self):
        """A link that has timed out is parked, and its children have ended with the chain."""
        return self.db.query("""select coalesce(name, key) as name, status, attempt, last_error from pgrab.task
            where status in ('scheduled', 'claimed', 'running') or (status = 'parked') <> (coalesce(key, '') like 'approve %%' and kind = 'noop')
            union all select name, 'waits', 0, waits_for from pgrab.waits""")

    def size(self):
        return len(self.orders)

    def starts(self):
        return len(self.calls_file.read_text(encoding="utf-8").splitlines())

    def close(self):
        pass


class OrderArena(Arena):
    NODES = 2
    SECONDS = 4
    KINDS = ["handlers"] * 4 + ["kill"] * 4 + ["freeze", "term", "renew", "cut_all", "half", "backends", "black"] + ["cuts"] * 4
    WORDS = ["claim", "start", "finish", "finish", "step", "step", "commit", "beat", "waits"]

    def prepare(self):
        self.load = Orders(self.db, self.folder, self.rng)
        self.config = self.load.sections()
        self.acts = []

    def options(self, i):
        return {**TIMES, "fence_after": "1s", "dead_after": "4s", "kill_grace": "200ms", "workers": "4", "allow": "sql,noop", "config": self.config}

    def counted(self):
        return {}

    def draw(self):
        rng = random.Random(f"{self.seed} orders")
        faults = []
        for kind in rng.choices(self.KINDS, k=rng.randint(5, 8)) + ["crash"] * (rng.random() < 0.5):
            arguments = {"node": rng.randrange(self.NODES), "length": rng.choice(LENGTHS[:3]), "pick": rng.random()}
            if kind in ("freeze", "kill"):
                arguments["victims"] = rng.choice(VICTIMS + [("node",)] * 4)
            if kind == "cuts":
                arguments["words"] = [(rng.choice(self.WORDS), rng.random() < 0.3) for _ in range(8)]
            faults.append((round(rng.uniform(0.2, self.SECONDS), 2), kind, arguments))
        return faults

    def begin(self):
        self.load.begin()
        for i in range(self.NODES):
            self.start(i)
        self.db.wait("select count(*) = 2 from pgrab.kind where kind like 'order%%'", timeout=20)
        for o in self.load.orders:
            if o.form != "chain":
                self.load.place(o)
        begun = time.monotonic()
        for at, o, by in self.load.people():
            self.acts.append(threading.Thread(target=self.act, args=(begun + at, o, by), daemon=True))
            self.acts[-1].start()

    def act(self, at, o, by):
        self.over.wait(max(0, at - time.monotonic()))
        self.load.sent.append(signal(self.db, name_of(o.id), by, self.over))

    def settle(self):
        for thread in self.acts:
            thread.join(30)

    def end_others(self):
        pass

    def judge(self):
        return check(self.load.history())


# --- the checker


class History:
    """payments: (order, amount); shipments: orders; calls, runs, sent: of everything, in order of time."""

    def __init__(self, orders, payments, shipments, calls, runs, sent):
        self.orders, self.payments, self.shipments, self.calls, self.sent = orders, payments, shipments, calls, sent
        self.runs = collections.defaultdict(list)
        for run in runs:
            self.runs[run.name].append(run)

    def done(self, o, what):
        """How often, of pay, ship and refund."""
        if o.form != "chain":
            return sum(c.name == name_of(o.id) and c.what == what for c in self.calls)
        if what == "ship":
            return self.shipments.count(o.id)
        return sum(order == o.id and (amount > 0) == (what == "pay") for order, amount in self.payments)

    def told(self, o):
        return [s.told for s in self.sent if s.name == name_of(o.id)]


def ended(h):
    """I14: each order is paid, and then either shipped or refunded, whoever died; none waits for ever."""
    faults = []
    for o in h.orders:
        ends = [what for what in ("ship", "refund") if h.done(o, what)]
        if not h.done(o, "pay") or len(ends) != 1:
            faults.append(f"I14 order {o.id} ({o.form}, {o.fate}): paid {h.done(o, 'pay')} times, and then {ends or 'nothing'}")
        if o.form != "chain" and [r.ended for r in h.runs[name_of(o.id)]].count("done") != 1:
            faults.append(f"I14 order {o.id} ({o.form}, {o.fate}): its task has not ended once, as done")
    return faults


def approved(h):
    """I14: who waits for a day gets the signal that was sent, and what nobody approves is refunded."""
    faults = []
    for o in h.orders:
        counts = True in h.told(o)
        sure = None not in h.told(o)
        if h.done(o, "refund") and (o.patience is None or counts):
            faults.append(f"I14 order {o.id} ({o.form}, {o.fate}): was approved, and refunded")
        if h.done(o, "ship") and sure and not counts:
            faults.append(f"I14 order {o.id} ({o.form}, {o.fate}): was shipped, and nobody had approved it")
    return faults


def exactly_once(h):
    """I15: what is SQL is done once."""
    return [f"I15 order {o.id}: {what} was done {h.done(o, what)} times" for o in h.orders if o.form == "chain"
            for what in ("pay", "ship", "refund") if h.done(o, what) > 1]


def outside(h):
    """I16."""
    return [fault for o in h.orders for fault in waits.stable_keys(name_of(o.id), h.calls, h.runs[name_of(o.id)])]


def first_counts(h):
    """I17."""
    return [fault for o in h.orders for fault in waits.first_counts(name_of(o.id), approver(h, o), h.sent)]


def approver(h, o):
    """Whom the history names."""
    done = [r for r in h.runs[name_of(o.id)] if r.outcome == "succeeded"]
    return waits.signaller(done[-1], "chain" if o.form == "chain" else "handler") if done and h.done(o, "ship") else None


def never_early(h):
    """I18: the patience of an order is not cut short."""
    faults = []
    for o in h.orders:
        if o.patience is None or not h.done(o, "refund"):
            continue
        runs = h.runs[name_of(o.id)]
        if o.form == "chain":
            since = max(r.finished_at for r in h.runs[f"pay {o.id}"] if r.outcome == "succeeded")
            until = min(r.finished_at for r in runs if r.outcome == "timed_out").timestamp()
        else:
            since = min((r.finished_at for r in runs if r.outcome == "waited"), default=None)
            until = min(c.at for c in h.calls if c.name == name_of(o.id) and c.what == "refund")
        if since is None or until < since.timestamp() + o.patience:
            faults.append(f"I18 order {o.id} ({o.form}): was refunded {'without having waited' if since is None else 'too early'}")
    return faults


CHECKS = [ended, approved, exactly_once, outside, first_counts, never_early]


def check(h):
    return [fault for one in CHECKS for fault in one(h)]

