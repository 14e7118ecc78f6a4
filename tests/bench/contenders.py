"""Whom a comparison sets side by side: pgrab, the floor under it, and the rivals, each with the same few verbs."""
import json
import os
import platform
import shutil
import subprocess
import sys

import cluster
from process import Failed, Process
from server import MEASURED_ROLE, ROOT

NODE_MODULES_STAMP = ".package-lock.json"
# What the args of a task in an application are like: a text of SQL, another one for each i.
ARGS = """('{"to": "customer' || i || '@example.org", "template": "order_shipped", "locale": "en_GB", "order": ' || i || \
', "items": [{"sku": "A-1003", "quantity": 2, "price": 12.5}, {"sku": "B-2210", "quantity": 1, "price": 80.0}], \
"address": {"street": "1 High Street", "city": "Anytown", "postcode": "AB1 2CD"}, "track": "https://example.org/' || i || '"}')"""
RIVAL_WORKERS = 24  # jobs at once in a process, as in graphile-worker's own benchmark
PGRAB_WORKERS = 8


class Contender:
    """work: {} nothing; {"sql": TEXT}, {"shell": LINE}, {"exec": PATH}, {"http": URL}; {"n": NUMBER} notes the moment of its start."""

    by_id = False  # a probe answers with the id of its task
    fewer = 1  # how many times fewer tasks make a round of about as long
    here = True  # on this kind of machine

    def __init__(self, arena):
        self.arena, self.server = arena, arena.server
        self.template = self.server.create()
        self.install(self.template)
        self.template.close()  # a database that somebody is connected to is no template

    def open(self):
        """A new database with nothing in it but the contender's schema."""
        return self.server.create(self.template.name)

    def begun(self, db):
        """Asked only of those that do not note when they began."""
        return True

    def span(self, db, since):
        """Seconds from the first start to the last end, where the database knows them."""
        return None

    def wake(self, processes):
        """Those that spawn() left waiting begin."""
        for process in processes:
            process.tell("go")

    def check(self, db, tasks):
        if self.done(db) < tasks:
            raise Failed(f"{self.name}: {tasks} tasks gave {self.done(db)} completions")


class Pgrab(Contender):
    name, by_id = "pgrab", True
    waits = False  # spawn() starts work at once
    takes_args = "nothing"  # the kind of tasks with args
    insert_one = "insert into pgrab.task (kind) values ('noop')"
    probe = "insert into pgrab.task (kind) values ('noop') returning id"

    def install(self, db):
        cluster.run_pgrab("migrate", dsn=db.dsn, timeout=120)
        db.query("insert into pgrab.kind (kind, summary) values ('nothing', 'do nothing, with args')")

    def insert(self, rows, due="now()"):
        return f"insert into pgrab.task (kind, run_at) select 'noop', {due} from generate_series(1, {rows}) i"

    def plain_insert(self, rows):
        return f"insert into pgrab.task (kind) select 'noop' from generate_series(1, {rows})"

    def load(self, db, tasks, work):
        kind, command = next(iter(work.items()), ("noop", ""))
        db.query(f"set role {MEASURED_ROLE}")  # sql runs as its owner, and the node has no other login
        db.query("insert into pgrab.task (kind, command) select %s, %s from generate_series(1, %s)", kind, command, tasks)
        db.query("reset role")

    def load_args(self, db, tasks):
        """Nothing to do, with args."""
        db.query(f"insert into pgrab.task (kind, args) select '{self.takes_args}', {ARGS}::jsonb from generate_series(1, {tasks}) i")

    def count_inserted(self, db):
        return db.one("select count(*) from pgrab.task")

    def spawn(self, db, count, workers=None, **options):
        flags = {"workers": workers or PGRAB_WORKERS, "allow": cluster.ALLOW_ALL, **options, **self.arena.node_options}
        words = [word for key, value in flags.items() for word in ("--" + key.replace("_", "-"), str(value))]
        # The role that all contenders log in as is a superuser of this private server.
        return [self.arena.start(f"pgrab{i + 1}", [self.arena.pgrab, "run", "--dsn", db.dsn, "--name", f"bench{i + 1}", *words],
                                 env={"PGRAB_ALLOW_SUPERUSER": "yes"})
                for i in range(count)]

    def wait_ready(self, db, processes):
        def up():
            for process in processes:
                process.must_run()
            return db.one("select count(*) from pgrab.node where state = 'up'") >= len(processes)
        cluster.wait_until(up, 60, "the nodes to be up")

    def left(self, db):
        return db.one("select exists (select from pgrab.task)")

    def span(self, db, since):
        return db.one("select extract(epoch from max(finished_at) - min(started_at))::float8 from pgrab.run where finished_at >= %s", since)

    def done(self, db):
        return db.one("select count(*) from pgrab.run where outcome = 'succeeded'")

    def check(self, db, tasks, before=0):
        runs, distinct, good = db.query("select count(*), count(distinct task_id), count(*) filter (where outcome = 'succeeded') "
                                        "from pgrab.run")[0]
        if (runs - before, good - before) != (tasks, tasks) or (before == 0 and distinct != tasks):
            raise Failed(f"not exactly once: {tasks} tasks gave {runs - before} runs of {distinct} tasks, {good - before} succeeded")

    def starts(self, db, processes):
        """probe's answer -> when it was started."""
        return dict(db.query("select task_id, extract(epoch from started_at)::float8 from pgrab.run"))

    def lateness(self, db, processes):
        return [row[0] for row in db.query("select extract(epoch from started_at - fire_at)::float8 from pgrab.run")]


class Handled(Pgrab):
    """Tasks of a kind that handler processes carry out."""
    takes_args = "bench"
    insert_one = "insert into pgrab.task (kind) values ('bench')"
    probe = "insert into pgrab.task (kind, args) values ('bench', '{\"n\": 1}') returning id"

    def install(self, db):
        super().install(db)
        db.query("insert into pgrab.kind (kind, summary, handled) values ('bench', 'a handler', true)")

    def load(self, db, tasks, work):
        db.query("insert into pgrab.task (kind) select 'bench' from generate_series(1, %s)", tasks)

    def spawn(self, db, count, workers=None, **options):
        path = self.arena.folder / f"{self.name}.conf"
        path.write_text("[pool bench]\nkinds = bench\n" + "".join(f"{key} = {value}\n" for key, value in self.section().items()))
        return super().spawn(db, count, workers, config=path, **options)

    def wait_ready(self, db, processes):
        cluster.wait_until(lambda: db.one("select exists (select from pgrab.pool where up = processes)"), 60, "the handlers to be up")

    def starts(self, db, processes):
        return dict(db.query("select task_id, output::float8 from pgrab.run where output <> ''"))


class Python(Handled):
    name = "pgrab-python"

    def section(self):
        return {"command": f"{sys.executable} -B {ROOT / 'tests/bench/handlers.py'}", "processes": 2, "concurrency": 12,
                "env": f"PYTHONPATH={ROOT / 'contrib/handlers/python'}"}


class JavaScript(Handled):
    name = "pgrab-js"

    def section(self):
        return {"command": f"{self.arena.rival[0]} {ROOT / 'tests/bench/handlers.mjs'} {ROOT / 'contrib/handlers/node/pgrab-handler.mjs'}",
                "processes": 1, "concurrency": 24}


class Floor(Pgrab):
    """The node's own statements in a plain loop; two connections per node, because a node has two busy ones."""
    name = "floor"

    def spawn(self, db, count, workers=None, **options):
        return [self.arena.start("floor", [self.arena.floor, "--dsn", db.dsn, "--connections", 2 * count])]


def install_rivals(folder):
    """npm's packages and the programs that use them, in the build folder; returns the command that runs one."""
    source, target = ROOT / "tests/bench/rivals", folder / "rivals"
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    stamp = target / "installed"
    lock = (target / "package-lock.json").read_text()
    if not stamp.exists() or stamp.read_text() != lock:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=target, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"npm could not install the rivals in {target}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        stamp.write_text(lock)
    # Both ask for Node.js 22, and Debian 12 has 18: one comes as a package of npm's.
    own = sorted(target.glob("node_modules/node-linux-*/bin/node"))
    node = str(own[0]) if own else shutil.which("node")
    if not node:
        raise Failed("there is no Node.js for this kind of machine. Install version 22 or newer, as `node`.")
    return [node, target / "rival.mjs"]


class Rival(Contender):
    waits, environment = True, {}

    def rival(self, db, *words):
        done = subprocess.run([*self.arena.rival, self.program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=cluster.clean_env(**self.server.environment(db)), check=False, timeout=60)
        if done.returncode != 0:
            raise Failed(f"{self.name} {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def install(self, db):
        self.rival(db, "install")

    def load(self, db, tasks, work):
        db.query(self.insert(tasks, data=f"'{json.dumps(work)}'::json"))

    def load_args(self, db, tasks):
        db.query(self.insert(tasks, data=f"{ARGS}::json"))

    def spawn(self, db, count, workers=None, **options):
        processes = [self.arena.start(f"{self.program}{i + 1}", [*self.arena.rival, self.program, "work", workers or RIVAL_WORKERS],
                                      env={**self.server.environment(db), **self.environment}, stdin=subprocess.PIPE) for i in range(count)]
        for process in processes:
            process.wait_said("ready")
        return processes

    def wait_ready(self, db, processes):
        self.wake(processes)
        for process in processes:
            process.wait_said("working")

    def noted(self, processes):
        """[n, moment] of every job that noted its start; known when the processes have ended."""
        return [pair for process in processes for pair in json.loads(process.log_path.read_text().splitlines()[-1])]

    def starts(self, db, processes):
        return dict(self.noted(processes))

    def lateness(self, db, processes):
        return [at - due for due, at in self.noted(processes)]


class Graphile(Rival):
    name, program, environment = "graphile-worker", "graphile", {}
    insert_one = "select id from graphile_worker.add_job('bench')"
    probe = "select 0 from graphile_worker.add_job('bench', json_build_object('n', %s::bigint))"

    def insert(self, rows, due="now()", data="'{}'::json"):
        return (f"select count(*) from graphile_worker.add_jobs((select array_agg(row('bench', {data}, null, {due}, null, null, null, null)"
                f"::graphile_worker.job_spec) from generate_series(1, {rows}) i))")

    plain_insert = insert

    def count_inserted(self, db):
        return db.one("select count(*) from graphile_worker._private_jobs")

    def begun(self, db):
        """Jobs with one due time go by their ids."""
        return db.one("select not exists (select from graphile_worker._private_jobs where id = 1)")

    def left(self, db):
        # The first by its index, as the workers ask too; the second reads the table from end to end, so it comes last.
        return (db.one("select exists (select from graphile_worker._private_jobs where is_available and priority = 0)")
                or db.one("select exists (select from graphile_worker._private_jobs)"))

    def done(self, db):
        """A finished job is deleted, one that failed stays; ids are given without a gap."""
        return db.one("select pg_sequence_last_value(pg_get_serial_sequence('graphile_worker._private_jobs', 'id')::regclass) - count(*) "
                      "from graphile_worker._private_jobs")


class PlainGraphile(Graphile):
    name, environment = "graphile-plain", {"GRAPHILE_PLAIN": "1"}


class Boss(Rival):
    name, program = "pg-boss", "pgboss"

    def install(self, db):
        super().install(db)
        self.text = self.rival(db, "insert-sql").strip()
        self.insert_one = self.text.replace("$1::text::json", "'[{}]'::json")
        self.probe = self.text.replace("%", "%%").replace("$1::text::json", "json_build_array(json_build_object('data', json_build_object('n', %s::bigint)))")

    def insert(self, rows, due=None, data="'{}'::json"):
        after = f", 'startAfter', to_char(({due}) at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')" if due else ""
        return self.text.replace("$1::text::json", f"(select json_agg(json_build_object('data', {data}{after})) from generate_series(1, {rows}) i)")

    plain_insert = insert

    def count_inserted(self, db):
        return db.one("select count(*) from pgboss.job")

    def left(self, db):
        return (db.one("select exists (select from pgboss.job where name = 'bench' and state < 'active')")
                or db.one("select exists (select from pgboss.job where state < 'completed')"))

    def span(self, db, since):
        return db.one("select extract(epoch from max(completed_on) - min(started_on))::float8 from pgboss.job where completed_on >= %s", since)

    def done(self, db):
        return db.one("select count(*) from pgboss.job where state = 'completed'")


class Dbos(Rival):
    name, program, fewer = "dbos", "dbos", 20
    insert_one = "select dbos.enqueue_workflow('bench', 'bench', array['{}'::json])"
    probe = "select dbos.enqueue_workflow('bench', 'bench', array[json_build_object('n', %s::bigint)])"

    def insert(self, rows, due=None, data="'{}'::json"):
        return f"select count(dbos.enqueue_workflow('bench', 'bench', array[{data}])) from generate_series(1, {rows}) i"

    plain_insert = insert

    def count_inserted(self, db):
        return db.one("select count(*) from dbos.workflow_status")

    def left(self, db):
        return db.one("select exists (select from dbos.workflow_status where status in ('ENQUEUED', 'PENDING'))")

    def done(self, db):
        return db.one("select count(*) from dbos.workflow_status where status = 'SUCCESS'")


class Duroxide(Rival):
    name, program, fewer = "duroxide", "duroxide", 100
    here = platform.machine() == "x86_64"  # npm has its compiled part for no other

    def install(self, db):
        super().install(db)
        self.item = self.rival(db, "insert-sql").strip()
        self.insert_one = self.insert(1)
        self.probe = self.insert(1, data="json_build_object('n', %s::bigint)")

    def insert(self, rows, due=None, data="'{}'"):
        item = f"replace(replace('{self.item}', '\"ID\"', to_json(id)::text), '\"INPUT\"', to_json(({data})::text)::text)"
        return (f"select count(enqueue_orchestrator_work(id, {item}, now())) "
                f"from (select gen_random_uuid()::text as id, i from generate_series(1, {rows}) i offset 0) t")

    plain_insert = insert

    def count_inserted(self, db):
        return db.one("select count(*) from orchestrator_queue")

    def left(self, db):
        return db.one("select exists (select from orchestrator_queue)")

    def done(self, db):
        return db.one("select count(*) from executions where status = 'Completed'")


KINDS = {kind.name: kind for kind in (Pgrab, Floor, Python, JavaScript, Graphile, PlainGraphile, Boss, Dbos, Duroxide)}
