"""Fixtures of the system tests: cluster, db, nodes, probe.  See cluster.py for what they can do."""
import contextlib
import ctypes
import functools
import os
import signal
import subprocess
from pathlib import Path

import pytest
from cluster import ROOT, Cluster, Db, Nodes, clean_env, end_leftovers, pgrab_bin, run_pgrab
from pooler import THROUGH_IT, Pooler
from probe import Probe
from serving import Serve

PR_SET_CHILD_SUBREAPER = 36
DEADLINE_S = 60
SHARE = os.environ.get("PGRAB_TEST_SHARE")
"""A folder in which processes that share the files note which ones they have taken (scripts/test)."""


def pytest_configure(config):
    config.addinivalue_line("markers", "private_server: the test stops, kills or reconfigures its PostgreSQL server")
    config.addinivalue_line("markers", "direct(why): cannot be asked of nodes behind a pooler; skipped with scripts/test --pooler")
    config.addinivalue_line("markers", f"deadline(seconds): the longest the test may take; {DEADLINE_S} without it")
    # Whatever a killed node leaves behind becomes our child, so that no test's processes get out of sight.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Started in the background SIGINT is ignored, and SIGTERM would end us without tearing anything down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@functools.cache
def is_ours(name):
    try:
        os.mkdir(Path(SHARE, name))
        return True
    except FileExistsError:
        return False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """Skips the tests of a file that another process has taken."""
    return None if SHARE is None or is_ours(item.path.name) else True


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("direct")
    if THROUGH_IT and marker:
        pytest.skip(f"not through a pooler: {marker.args[0]}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    marker = item.get_closest_marker("deadline")
    seconds = marker.args[0] if marker else DEADLINE_S

    def too_late(*_):
        raise AssertionError(f"the test was not done within {seconds} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the nodes said."""
    report = (yield).get_result()
    nodes = getattr(item, "funcargs", {}).get("nodes")
    if report.failed and nodes:
        for node in nodes.all:
            lines = node.log().splitlines()[-80:]
            report.sections.append((f"node {node.name} (pid {node.pid}, exit {node.proc.poll()})", "\n".join(lines)))


@pytest.fixture(scope="session")
def shared_server():
    server = Cluster(os.environ.get("PGRAB_DSN") or None)
    yield server
    server.close()


@pytest.fixture(scope="session")
def private_server():
    server = Cluster(stoppable=True)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def no_leftovers():
    """The first fixture of each test and so the last to end: it fails a test whose processes are still there."""
    yield
    left = end_leftovers()
    assert not left, "processes of this test were left and had to be killed:\n" + "\n".join(left)


@pytest.fixture
def cluster(request, no_leftovers):
    """The PostgreSQL server: all tests' own, or with the mark private_server one that may be stopped."""
    if not request.node.get_closest_marker("private_server"):
        yield request.getfixturevalue("shared_server")
        return
    server = request.getfixturevalue("private_server")
    server.pg_start()
    yield server
    server.pg_start()


@pytest.fixture
def db(cluster):
    """A database with pgrab's schema that nobody else uses."""
    database = Db(cluster, cluster.create_database())
    yield database
    database.close()
    if cluster.stoppable:
        cluster.pg_start()
    cluster.drop_database(database.name)


@pytest.fixture
def tenants(cluster):
    """Several pgrabs in one database: one = tenants('one'), as db."""
    name, made = cluster.create_database(template="template1"), []

    def tenant(schema):
        run_pgrab("migrate", "--schema", schema, dsn=cluster.dsn_of(name))
        made.append(Db(cluster, name, schema))
        return made[-1]

    yield tenant
    for database in made:
        database.close()
    cluster.drop_database(name)


@contextlib.contextmanager
def nodes_of(db, folder):
    poolers = []

    def pooled():
        if not poolers:
            poolers.append(Pooler(db, folder))
        return poolers[0].dsn

    started = Nodes(db, folder, pooled if THROUGH_IT else None)
    yield started
    try:
        started.end()
    finally:
        for pooler in poolers:
            pooler.end()


@pytest.fixture
def nodes(db, tmp_path):
    """Starts nodes: n1 = nodes.start('n1', workers=2).  They are ended in order after the test."""
    with nodes_of(db, tmp_path) as started:
        yield started


@pytest.fixture
def three(cluster, tmp_path):
    """Three databases with their nodes, for what has to wait at length: [(db, nodes), ...]."""
    with contextlib.ExitStack() as stack:
        made = []
        for name in "123":
            db = Db(cluster, cluster.create_database())
            stack.callback(cluster.drop_database, db.name)
            stack.callback(db.close)
            (tmp_path / name).mkdir()
            made.append((db, stack.enter_context(nodes_of(db, tmp_path / name))))
        yield made


@pytest.fixture
def probe(tmp_path):
    """Shell tasks that leave a trace."""
    tracer = Probe(tmp_path)
    yield tracer
    tracer.open_gate()
    tracer.close()


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """pgrab's headers and pkg-config file, installed; the environment in which pkg-config finds them."""
    root = tmp_path_factory.mktemp("installed")
    build = Path(pgrab_bin()).resolve().parents[1]
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    if not (build / "build.ninja").exists():
        build = root / "build"
        subprocess.run(["meson", "setup", "-Dtests=false", build, ROOT], **quiet)
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--tags", "devel", "--destdir", root], **quiet)
    (pc,) = root.rglob("pgrab.pc")
    assert not [p for p in root.rglob("*.h") if p.parent.name != "pgrab"], "only public headers are installed"
    return clean_env(PKG_CONFIG_PATH=pc.parent, PKG_CONFIG_SYSROOT_DIR=root)


@pytest.fixture
def serving(db, tmp_path):
    """Starts `pgrab serve`: s = serving(timeout='1s')."""
    started = []

    def start(**options):
        started.append(Serve(db, tmp_path, **options))
        return started[-1]
    yield start
    for server in started:
        server.end()
