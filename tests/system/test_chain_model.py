"""Chains against a model: random graphs, ended, failed, retried and cancelled step by step, also by two sessions at once.

No node: a step calls what nodes and people call. (With nodes, and their deaths: test_chains.py.)"""
import random
import threading

import pytest

GRAPHS = 150
CONDITIONS = ["success"] * 2 + ["failure", "always"]
LIVE = ("waiting", "scheduled", "parked")
RESULT = {"done": "succeeded", "parked": "failed", "given up": "failed", "cancelled": "cancelled", "skipped": "skipped"}


def refuses(condition, result):
    """Can an edge never be satisfied by this end of its parent?  (None: it has not ended.)"""
    return result is not None and (condition == "success" and result != "succeeded" or condition == "failure" and result != "failed")


class Model:
    """The rules of docs/chains.md for a chain that runs once."""

    def __init__(self, rng):
        self.state = {}
        self.edges = {}  # (parent, child): condition
        tasks = list(range(1, rng.randint(2, 9) + 1))
        rng.shuffle(tasks)  # so that ids do not follow the graph
        for i, task in enumerate(tasks):
            for parent in rng.sample(tasks[:i], min(i, rng.choice([0, 1, 1, 1, 2, 2, 3]))):
                self.edges[parent, task] = rng.choice(CONDITIONS)
            self.state[task] = "waiting" if self.parents(task) else "scheduled"

    def parents(self, task):
        return [(p, condition) for (p, c), condition in self.edges.items() if c == task]

    def in_state(self, *states):
        return [t for t, s in self.state.items() if s in states]

    def settle(self):
        """Counts down whoever waits, until nothing moves."""
        moved = True
        while moved:
            moved = False
            for task in self.in_state("waiting"):
                ends = [(condition, RESULT.get(self.state[p])) for p, condition in self.parents(task)]
                if any(refuses(*end) for end in ends) or all(result == "skipped" for _, result in ends):
                    self.state[task], moved = "skipped", True
                elif all(result for _, result in ends):
                    self.state[task], moved = "scheduled", True

    def end(self, task, outcome):
        self.state[task] = {"succeeded": "done", "failed": "parked"}[outcome]

    def cancel(self, task):
        """A parked one has counted as failed for those below it, and is on record as cancelled."""
        self.state[task] = "given up" if self.state[task] == "parked" else "cancelled"

    def retry(self, task):
        def keeps_out(parent, condition):
            result = "cancelled" if self.state[parent] == "given up" else RESULT.get(self.state[parent])
            return parent not in back and refuses(condition, result)

        self.state[task] = "scheduled"
        back = {task}
        more = back
        while more:
            more = {c for p, c in self.edges if p in back and c not in back and self.state[c] == "skipped" and not any(keeps_out(*e) for e in self.parents(c))}
            back |= more
        for child in back - {task}:
            self.state[child] = "waiting"

    def hanging_together(self, task):
        part = {task}
        more = part
        while more:
            more = {t for edge in self.edges if part & set(edge) for t in edge} - part
            part |= more
        return part


class Player:
    """Does to the database what it does to the model."""

    def __init__(self, db, rng):
        self.rng = rng
        self.one, self.other = db.connect(autocommit=True), db.connect(autocommit=True)
        self.model = Model(rng)
        self.log = []

    def close(self):
        self.one.close()
        self.other.close()

    def ask(self, conn, statement, *params):
        self.log.append((statement, params))
        return conn.execute(statement, params).fetchall()

    def insert(self):
        model = self.model
        with self.one.transaction():
            self.one.execute("delete from pgrab.run")
            for task in model.state:
                parents = model.parents(task)
                parent, condition = self.rng.choice([*parents, (None, "success")])
                self.one.execute("insert into pgrab.task (id, kind, max_attempts, parent_id, run_if) overriding system value values (%s, 'noop', 1, %s, %s)", [task, parent, condition])
                for p, condition in parents:
                    if p != parent:
                        self.one.execute("insert into pgrab.edge values (%s, %s, %s)", [p, task, condition])
        self.log.append((dict(model.edges), dict(model.state)))

    def start(self, tasks):
        self.ask(self.one, "update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1, started_at = now() where id = any (%s) and status = 'scheduled' returning id", tasks)

    def finish(self, conn, ends):
        tasks, outcomes = [t for t, _ in ends], [o for _, o in ends]
        n = len(tasks)
        done = self.ask(conn, "select f.task_id from pgrab_internal.finish((%s, %s, %s, %s, %s, %s, null, null, null, null)::pgrab_internal.batch, 1, 'n') f",
                        tasks, [7] * n, [11] * n, [1] * n, [0] * n, outcomes)
        assert sorted(r.task_id for r in done) == tasks, self.log

    def end_some(self, at_once):
        """Runs end: one, several in one batch, or two by two sessions that wait for each other's locks."""
        scheduled = self.model.in_state("scheduled")
        tasks = sorted(self.rng.sample(scheduled, min(len(scheduled), at_once)))
        ends = [(t, self.rng.choice(["succeeded", "succeeded", "failed"])) for t in tasks]
        self.start(tasks)
        if len(ends) == 2 and self.rng.random() < 0.7:
            second = threading.Thread(target=self.finish, args=(self.other, ends[1:]))
            with self.one.transaction():
                self.finish(self.one, ends[:1])
                second.start()
                second.join(0.01)  # either it waits for us by then or it has not to
            second.join()
        else:
            self.finish(self.one, ends)
        for end in ends:
            self.model.end(*end)

    def retry(self):
        task = self.rng.choice(self.model.in_state("parked"))
        self.ask(self.one, "select id from pgrab.retry(%s)", task)
        self.model.retry(task)

    def cancel(self):
        """Of a link that has parents: that one.  Of a root, ended or not: all that hangs together with it."""
        task = self.rng.choice([t for t in self.model.state if t in self.model.in_state(*LIVE) or not self.model.parents(t)])
        part = {task} if self.model.parents(task) else self.model.hanging_together(task)
        if not part & set(self.model.in_state(*LIVE)):
            return
        self.ask(self.one, "select id from pgrab.cancel(%s)", task)
        for t in part & set(self.model.in_state(*LIVE)):
            self.model.cancel(t)

    def step(self, calm):
        """calm: towards the end, so that there is one."""
        x = 0 if calm and self.model.in_state("scheduled") else self.rng.random()
        if x < 0.75 and self.model.in_state("scheduled"):
            self.end_some(self.rng.choice([1, 1, 2, 2, 4]))
        elif x < 0.93 and self.model.in_state("parked") and not calm:
            self.retry()
        elif x >= 0.93 or not self.model.in_state("scheduled"):
            self.cancel()
        self.model.settle()

    def check(self):
        rows = {r.id: r.status for r in self.one.execute("select id, status from pgrab.task").fetchall()}
        live = {t: s for t, s in rows.items() if s != "skipped"}
        assert live == {t: s for t, s in self.model.state.items() if s in LIVE}, self.log
        assert all(self.model.state[t] == "skipped" for t, s in rows.items() if s == "skipped"), self.log

    def play(self):
        self.insert()
        steps = 0
        while self.model.in_state(*LIVE):
            steps += 1
            self.step(steps > 40)
            self.check()
        self.one.execute("select pgrab.upkeep()")  # two last ends at once may have left a row of pgrab.chain
        left = self.one.execute("select (select count(*) from pgrab.task) + (select count(*) from pgrab.edge) + (select count(*) from pgrab.chain) as n").fetchone()
        ended = {r.task_id: r.ended for r in self.one.execute("select task_id, ended from pgrab.run where ended is not null").fetchall()}
        assert left.n == 0, self.log
        assert ended == {t: "cancelled" if s == "given up" else s for t, s in self.model.state.items()}, self.log
        twice = self.one.execute("select task_id from pgrab.run where ended is not null group by 1 having count(*) > 1").fetchall()
        assert twice == [], self.log


@pytest.mark.deadline(120)
def test_random_chains_do_what_the_rules_say(db):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(GRAPHS):
        player = Player(db, rng)
        try:
            player.play()
        finally:
            player.close()
