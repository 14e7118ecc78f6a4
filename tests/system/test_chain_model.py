"""Chains against a model: random graphs, ended, failed, retried and cancelled step by step, also by two sessions at once.

No node: a step calls what nodes and people call. (With nodes, and their deaths: test_chains.py.)"""
import random
import threading

import psycopg
import pytest

GRAPHS = 150
EDITED = 40
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
        done = self.ask(conn, "select f.task_id from pgrab_internal.finish((%s, %s, %s, %s, %s, %s, null, null, null, null, null, null)::pgrab_internal.outcomes, 1, 'n') f",
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


class Recurring:
    """The rules of docs/chains.md for a chain with a schedule whose graph is edited while it runs.

    A run goes by the graph it began with: `taking` is who takes part and how far he is, `began` its edges.
    `edges` is the graph people see.  What hangs below the root no more is on its own (`alone`) when it takes
    no part in the run; what takes part leaves with the end of the run.
    """

    ROOT = 1

    def __init__(self, rng):
        self.rng = rng
        self.edges, self.began = {}, {}
        self.links, self.taking, self.alone, self.ended = {self.ROOT}, {}, {}, {}
        self.kept = set()  # parked when they were left behind, and what was skipped because of that
        for link in range(2, rng.randint(3, 8)):
            self.links.add(link)
            for parent in rng.sample(range(1, link), min(link - 1, rng.choice([1, 1, 2]))):
                self.edges[parent, link] = rng.choice(CONDITIONS)

    @staticmethod
    def below(tops, edges):
        part, more = set(tops), set(tops)
        while more:
            more = {c for p, c in edges if p in more} - part
            part |= more
        return part

    @staticmethod
    def around(links, edges):
        part, more = set(links), set(links)
        while more:
            more = {t for e in edges if more.intersection(e) for t in e} - part
            part |= more
        return part

    @staticmethod
    def verdict(link, edges, results):
        """waiting, scheduled or skipped, by the ends of its parents."""
        ends = [(condition, results.get(p)) for (p, c), condition in edges.items() if c == link]
        if ends and (any(refuses(*e) for e in ends) or all(result == "skipped" for _, result in ends)):
            return "skipped"
        return "scheduled" if all(result for _, result in ends) else "waiting"

    def begin(self):
        self.began = dict(self.edges)
        main = self.below({self.ROOT}, self.edges)
        self.taking = {link: "scheduled" if link == self.ROOT else "waiting" for link in main}

    def end(self, link, outcome):
        if link in self.taking:
            self.taking[link] = {"succeeded": "done", "failed": "parked"}[outcome]
        else:
            del self.alone[link]
            self.links.discard(link)
            self.ended[link] = outcome

    def add(self, parent, child, condition):
        self.links.add(child)
        self.edges[parent, child] = condition

    def drop(self, parent, child):
        """Nobody is skipped for it: a link on its own that waits for nobody else starts."""
        condition = self.edges.pop((parent, child))
        if child in self.alone and all(self.ended.get(p) for p, c in self.edges if c == child):
            self.alone[child] = "scheduled"
        return condition

    def delete(self, link):
        self.links.discard(link)
        self.alone.pop(link, None)
        self.edges = {e: condition for e, condition in self.edges.items() if link not in e}
        if link in self.taking and self.taking[link] not in RESULT:
            del self.taking[link]

    def settle(self):
        """Counts down whoever waits, sees who is on his own, and ends the run, until nothing moves."""
        for _ in range(100):
            before = (dict(self.taking), dict(self.alone), set(self.links))
            for link in [t for t, s in self.taking.items() if s == "waiting"]:
                results = {t: RESULT.get(s) for t, s in self.taking.items()}
                self.taking[link] = self.verdict(link, self.began, results)
            if self.taking and all(s in RESULT for s in self.taking.values()):
                self.end_run()
            # What came above a link that takes part waits with it for the end of the run.
            bound = self.around({self.ROOT, *self.taking} & self.links, self.edges)
            self.alone = {t: s for t, s in self.alone.items() if t not in bound}
            for link in self.links - bound - set(self.ended):
                verdict = self.verdict(link, self.edges, self.ended)
                if verdict != "skipped":
                    self.alone[link] = verdict
                elif self.alone.get(link) != "scheduled":
                    self.alone.pop(link, None)
                    self.ended[link] = "skipped"
            self.links = {t for t in self.links if t in bound or t in self.alone}
            if before == (self.taking, self.alone, self.links):
                return
        raise AssertionError(f"it never settles: {before}")

    def end_run(self):
        main = self.below({self.ROOT}, self.edges)
        lost = set(self.taking) - main
        if any(self.taking[t] == "parked" for t in lost):
            self.kept |= {t for t in lost if self.taking[t] in ("parked", "skipped")} & self.links
        gone = lost | self.below(lost & self.links, self.edges) - main
        self.links -= gone
        self.edges = {e: condition for e, condition in self.edges.items() if not gone.intersection(e)}
        self.taking = {}

    def status(self, link):
        if link in self.taking:
            return self.taking[link]
        if link in self.alone:
            return self.alone[link]
        return "scheduled" if link == self.ROOT else "waiting"


class Editor(Player):
    """Runs a recurring chain and edits it meanwhile.  Every link is to be delivered at most once."""

    REFUSED = (psycopg.errors.InvalidParameterValue, psycopg.errors.ForeignKeyViolation,
               psycopg.errors.UniqueViolation)

    def __init__(self, db, rng):
        super().__init__(db, rng)
        self.model = Recurring(rng)
        self.started = set()
        self.last = max(self.model.links)
        self.edits = self.refused = 0

    def insert_link(self, link, parent, condition):
        self.ask(self.one, "insert into pgrab.task (id, kind, delivery, max_attempts, parent_id, run_if, schedule, run_at)"
                 " overriding system value values (%s, 'noop', 'at_most_once', 1, %s, %s, %s, '2001-01-01Z') returning id",
                 link, parent, condition, "@every 1h" if parent is None else None)

    def insert(self):
        self.one.execute("delete from pgrab.run")
        with self.one.transaction():
            for link in sorted(self.model.links):
                parents = [(p, condition) for (p, c), condition in self.model.edges.items() if c == link]
                self.insert_link(link, *(parents[0] if parents else (None, "success")))
                for p, condition in parents[1:]:
                    self.ask(self.one, "insert into pgrab.edge values (%s, %s, %s) returning 1", p, link, condition)

    def run_some(self):
        links = [t for t in self.model.links | set(self.model.taking) if self.model.status(t) == "scheduled"]
        links = sorted(self.rng.sample(links, min(len(links), self.rng.choice([1, 1, 2, 3]))))
        if Recurring.ROOT in links and not self.model.taking:
            self.model.begin()
        for row in self.ask(self.one, "select id, fire_at from pgrab.task where id = any (%s)", links):
            assert row not in self.started, "started twice for one fire"
            self.started.add(row)
        self.start(links)
        outcomes = ["succeeded", "succeeded", "failed"]
        ends = [(t, self.rng.choice(outcomes) if t in self.model.taking else "succeeded") for t in links]
        self.finish(self.one, ends)
        for end in ends:
            self.model.end(*end)

    def move(self, old, child, new):
        """Another parent in the place of one, or (None) none."""
        if not self.ask(self.one, "select from pgrab.edge where parent_id = %s and child_id = %s", old, child):
            self.ask(self.one, "update pgrab.task set parent_id = %s where id = %s returning 1", new, child)
        elif new is None:
            self.ask(self.one, "delete from pgrab.edge where parent_id = %s and child_id = %s returning 1", old, child)
        else:
            self.ask(self.one, "update pgrab.edge set parent_id = %s where parent_id = %s and child_id = %s"
                     " returning 1", new, old, child)

    def edit(self):
        model, links = self.model, sorted(self.model.links)
        edges = sorted((p, c) for p, c in model.edges if c in links)
        parent, child, condition = self.rng.choice(links), self.rng.choice(links), self.rng.choice(CONDITIONS)
        what = self.rng.choice(["add", "insert", "delete", *["drop", "drop", "move"] * bool(edges)])
        if what == "add":
            self.ask(self.one, "insert into pgrab.edge values (%s, %s, %s) returning 1", parent, child, condition)
            model.add(parent, child, condition)
        elif what == "insert":
            self.last += 1
            self.insert_link(self.last, parent, condition)
            model.add(parent, self.last, condition)
        elif what == "delete" and child != Recurring.ROOT:
            self.ask(self.one, "delete from pgrab.task where id = %s returning id", child)
            model.delete(child)
        elif what in ("drop", "move"):
            old, child = self.rng.choice(edges)
            self.move(old, child, parent if what == "move" else None)
            condition = model.drop(old, child)
            if what == "move":
                model.add(parent, child, condition)

    def step(self, calm):
        if calm or self.rng.random() < 0.55:
            self.run_some()
        else:
            self.edits += 1
            try:
                self.edit()
            except self.REFUSED as refusal:
                self.log.append(str(refusal))
                self.refused += 1
        self.model.settle()

    def check(self):
        rows = {r.id: r.status for r in self.one.execute("select id, status from pgrab.task").fetchall()}
        rows = {t: s for t, s in rows.items() if t not in self.model.kept}
        deleted = set(self.model.taking) - self.model.links
        want = {t: self.model.status(t) for t in self.model.links | set(self.model.taking) - deleted}
        assert rows == want

    def play(self):
        self.insert()
        for n in range(50):
            self.step(n >= 40)
            self.check()
        with self.one.transaction():
            self.one.execute("select pgrab.delete_chain(t.id) from pgrab.task t where t.schedule is not null")
            self.one.execute("delete from pgrab.task")
        left = self.one.execute("select (select count(*) from pgrab.task) + (select count(*) from pgrab.edge)"
                                " + (select count(*) from pgrab.chain) + (select count(*) from pgrab.edge_change) as n")
        assert left.fetchone().n == 0, self.log


@pytest.mark.deadline(120)
def test_a_recurring_chain_that_is_edited_under_way_starts_no_link_twice_for_one_fire(db):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    edits = refused = 0
    for _ in range(EDITED):
        editor = Editor(db, rng)
        try:
            editor.play()
        except AssertionError:
            print(*editor.log, editor.model.edges, editor.model.taking, sep="\n")
            raise
        finally:
            editor.close()
        edits, refused = edits + editor.edits, refused + editor.refused
    assert refused < edits / 2, "hardly an edit was allowed"
