"""A database of each version that was released, with everything under way, is brought up to date and goes on.

dumps/VERSION.sql.gz is made by scripts/upgrade-dump, once, when the version is released; see make.py.
"""
import contextlib
import gzip
import re
import subprocess
from datetime import date, datetime, timedelta

import pytest
from cluster import Db, clean_env, run_pgrab, stays, wait_until
from make import DUMPS, structure, versions

DUMPED = sorted(path.name.removesuffix(".sql.gz") for path in DUMPS.glob("[0-9]*.[0-9]*.[0-9]*.sql.gz"))
LONG = "36500d"
"""The retention of nodes that are not to drop what was history when the dump was made."""


def text_of(version):
    return gzip.decompress((DUMPS / f"{version}.sql.gz").read_bytes()).decode()


def aged(text, days=60):
    """As if it had been made so long ago, because that is when dumps are restored: every day near its own is moved."""
    made = date.fromisoformat(re.search(r"^-- made on (\S+)$", text, re.M)[1])

    def moved(match):
        try:
            day = date.fromisoformat(match[0]) if "-" in match[0] else datetime.strptime(match[0], "%Y%m%d").date()
        except ValueError:
            return match[0]
        return (day - timedelta(days)).strftime("%Y-%m-%d" if "-" in match[0] else "%Y%m%d") if abs(day - made).days < 40 else match[0]

    return re.sub(r"\b20\d\d-\d\d-\d\d\b|(?<=_)20\d{6}\b", moved, text)


def restore(text, dsn):
    done = subprocess.run(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", dsn], input=text, capture_output=True, text=True, env=clean_env(), check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def empty(cluster):
    db = Db(cluster, cluster.create_database(template="template0"))
    yield db
    db.close()
    cluster.drop_database(db.name)


@pytest.fixture
def db(empty):
    """The nodes of these tests work in a database that has nothing yet."""
    return empty


def test_each_release_has_its_dump():
    lacking = [version for version, released in versions().items() if released and version not in DUMPED]
    assert not lacking, f"released without a dump: {lacking}; run scripts/upgrade-dump on that commit (docs/release.md)"
    stray = [version for version in DUMPED if version not in versions()]
    assert not stray, f"CHANGELOG.md does not know {stray}: delete the dumps of versions that were never released"


@pytest.mark.parametrize("version", DUMPED)
def test_the_dump_has_this_structure(version):
    """Migration 1 is frozen by a release; until then the dump follows it."""
    made_of = re.search(r"^-- migration 1: (\S+)$", text_of(version), re.M)[1]
    assert made_of == structure(), (
        f"migrations/0001_schema.sql is frozen, {version} is released: leave it as it was, and write migrations/0002_what.sql (docs/release.md)"
        if versions()[version] else
        f"migrations/0001_schema.sql has changed since tests/upgrade/dumps/{version}.sql.gz was made. "
        f"{version} is not released yet, so make the dump anew: scripts/upgrade-dump")


def unmet(db):
    return [what for what, query in db.query("select what, query from upgrade.expected order by id") if not db.one(query)]


@contextlib.contextmanager
def told(db):
    """A failure says which of the expectations were not met, in words."""
    try:
        yield
    except AssertionError as e:
        raise AssertionError(f"not met: {unmet(db)}") from e


@pytest.mark.deadline(100)
@pytest.mark.parametrize("version", DUMPED)
def test_everything_goes_on(version, db, nodes):
    restore(aged(text_of(version)), db.dsn)
    run_pgrab("migrate", dsn=db.dsn)
    assert run_pgrab("migrate", "--check", dsn=db.dsn).stdout.endswith("is up to date.\n")
    runs = db.one("select count(*) from pgrab.run")
    one, _ = (nodes.start(name, workers=4, retention=LONG) for name in ("new1", "new2"))
    # The server is another one, so this is a copy until somebody says that the original is gone.
    one.wait_log("pgrab adopt", 20)
    stays(lambda: db.one("select count(*) from pgrab.run where node like 'new%%'") == 0, 1, "the rest of a copy")
    assert db.one("select count(*) from pgrab.run") >= runs
    # While nothing runs, so that each finds what it is for.
    for (statement,) in db.query("select statement from upgrade.act order by id"):
        db.query(statement)
    run_pgrab("adopt", dsn=db.dsn)
    with told(db):
        wait_until(lambda: not unmet(db), 60, "everything to be as it should")
    for node in nodes.all:
        node.end()
    check_history(db)


def check_history(db):
    """Nothing is lost, nothing doubled."""
    for table, key in (("run", "task_id, version, attempt, outcome, finished_at, output, error, kind, owner"), ("event", "at, what, role, task_id, detail")):
        assert db.one(f"select count(*) from (select {key} from upgrade.{table} except select {key} from pgrab.{table}) lost") == 0, table
    # Each task that was there is there, or has one end.
    assert db.query("""select b.id, b.key, b.name, count(r.*) from upgrade.task b left join pgrab.run r on r.task_id = b.id and r.ended is not null
      where b.schedule is null and b.chain is null and not exists (select from pgrab.task t where t.id = b.id)
      group by 1, 2, 3 having count(r.*) <> 1""") == []
    # What SQL tasks did they did once, however often they began.
    assert db.query("""select e.name, count(*) from upgrade.effect e where e.name not in ('tick', 'each day', 'nightly') group by 1 having count(*) <> 1""") == []
