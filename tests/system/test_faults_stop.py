"""TERM ends a node in every state, in bounded time and without a crash."""
import time

import pytest

from cluster import descendants, wait_until
from faulty import FrozenThread, proxy  # noqa: F401 (fixtures)


def test_term_with_a_silent_database_ends_in_time(db, nodes, probe, proxy):
    node = nodes.start("n1", dsn=proxy.dsn, drain_timeout="1s", fence_after="9s", dead_after="12s", heartbeat="1s")
    db.add(**probe.shell("a", seconds=60))
    probe.wait("start", "a")
    proxy.silent = True
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 10)")
    node.term()
    at = time.monotonic()
    assert node.wait_exit(10) == 1
    assert time.monotonic() - at < 1 + 0.5 + 5, "drain_timeout + kill_grace + 5 s"
    proxy.silent = False
    wait_until(lambda: not descendants(), 20, "the keeper's farewell to get through")


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.deadline(120)
def test_term_while_fenced_ends_without_a_crash(db, nodes, proxy, dead):
    """With a dead peer to bury as well, which the heartbeat tells others about."""
    if dead:
        nodes.start("n2").kill9()
    for i in range(3):
        proxy.silent = False
        node = nodes.start(f"m{i}", dsn=proxy.dsn, fence_after="2s", dead_after="6s", drain_timeout="1s")
        node.wait_log("event=up")  # its row says so before the node knows
        proxy.silent = True
        node.wait_log("event=fenced")
        proxy.silent = False
        node.term()
        assert node.wait_exit(15) in (0, 1), node.log()[-2000:]


@pytest.mark.deadline(120)
def test_term_beside_a_dead_peer_ends_without_a_crash(db, nodes):
    for i in range(4):
        nodes.start("dead").kill9()
        node = nodes.start(f"n{i}", dead_after="4s", heartbeat="50ms")
        db.wait("select count(*) > 20 from (select generate_series(1, beat) from pgrab.node where name = %s) b", f"n{i}")
        node.term()
        assert node.wait_exit(10) == 0


PLUGIN = r"""
#include <pgrab/executor.h>
#include <unistd.h>
static void *begin(const void *internal, char *err, size_t size) { return &begin; }
static void end(void *self) {}
static void run(void *self, const struct pgrab_run *r, const struct pgrab_host *host, struct pgrab_result *result)
{
	host->log(host->ctx, "begun");
	for (;;)
		pause();
}
static const struct pgrab_executor deaf = {.abi = PGRAB_EXECUTOR_ABI, .size = sizeof(struct pgrab_executor), .kind = "deaf", .summary = "never ends", .open = begin, .close = end, .run = run};
const struct pgrab_executor *pgrab_executor_v2(void) { return &deaf; }
"""


@pytest.fixture
def deaf(tmp_path):
    import subprocess
    from cluster import ROOT
    source, library = tmp_path / "deaf.c", tmp_path / "deaf.so"
    source.write_text(PLUGIN)
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT}/include", "-o", library, source], check=True)
    return library


def start_deaf(db, nodes, library, **options):
    node = nodes.start("n1", executors=library, allow="noop,deaf", **options)
    task = db.add(kind="deaf", command="", backoff="0")
    node.wait_log('text="begun"')  # the row says running before the node has heard that it may begin
    return node, task


def test_a_fenced_node_whose_plug_in_does_not_stop_exits_before_others_begin(db, nodes, proxy, deaf):
    node, task = start_deaf(db, nodes, deaf, dsn=proxy.dsn)
    proxy.silent = True
    assert node.wait_exit(10) == 1
    assert "event=fence_stuck" in node.log()
    assert not db.runs(task), "nobody has recorded it as lost by then"


def test_a_fence_that_is_seen_late_leaves_a_deaf_plug_in_no_more_time(db, nodes, proxy, deaf):
    times = {"fence_after": "1s", "dead_after": "7s", "kill_grace": "1s", "heartbeat": "300ms"}
    node, task = start_deaf(db, nodes, deaf, dsn=proxy.dsn, **times)
    other = nodes.start("n2", allow="deaf", executors=deaf, **times)
    heartbeat = FrozenThread(node, "heartbeat")
    proxy.silent = True
    db.wait("select clock_timestamp() > max(b.heartbeat_at) + '5 s' from pgrab.beat b join pgrab.node n on n.id = b.node_id where n.name = 'n1'")
    heartbeat.thaw()
    assert node.wait_exit(10) == 1
    assert 'text="begun"' not in other.log(), "two at once"
    other.wait_log('text="begun"')
    proxy.silent = False
    other.kill9()


def test_a_stop_ends_although_a_plug_in_does_not(db, nodes, deaf):
    node, task = start_deaf(db, nodes, deaf, drain_timeout="500ms")
    node.term()
    at = time.monotonic()
    assert node.wait_exit(10) == 1
    assert time.monotonic() - at < 0.5 + 0.5 + 5
