"""Strategies with real nodes: shares, waste, and what happens while the cluster changes.

What strategies answer is tested by tests/unit/test_strategy*.c over thousands of clusters; here it is whether nodes act on it.
"""
import json
import os
import shutil
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cluster import ROOT, run_pgrab, wait_until

STRATEGIES = ["default", "id_hash", "least_count", "weight", "rendezvous", "adaptive", "labels"]
PARTITIONS = [s for s in STRATEGIES if s not in ("default", "labels")]  # labels is another word for id_hash
TASKS = 50_000
# Nobody steals, nobody rescues: what a node runs is what its strategy gave it.
QUIET = {"heartbeat": "500ms", "fence_after": "4s", "dead_after": "7s", "steal_after": "60s"}


def options(strategy, **more):
    return {**QUIET, "strategy": strategy, **more}


def shares(db):
    """Owner -> shards."""
    rows = db.query("select node, count(*) as shards from pgrab.ownership group by node")
    assert sum(r.shards for r in rows) == 1024
    return {r.node: r.shards for r in rows}


def wait_settled(db, names, strategy="id_hash", timeout=10.0):
    """Until every shard has one owner, each of names owns some, and nobody else does."""
    owners = {"(first come)"} if strategy == "default" and len(names) > 1 else set(names)
    wait_until(lambda: set(shares(db)) == owners, timeout, f"ownership settled on {sorted(owners)}; it is {shares(db)}")
    return shares(db)


def beats(db):
    """Heartbeats of each node so far."""
    return {r.name: r.beat for r in db.query("select name, beat from pgrab.node")}


def settles_within(db, names, since, allowed, strategy="id_hash"):
    """As wait_settled, and no node may need more than so many heartbeats for it since beats(db) was taken.

    Counted in heartbeats, and not in seconds, a busy machine makes it slower but not wrong.  One more is allowed for the one under way.
    """
    owners = {"(first come)"} if strategy == "default" and len(names) > 1 else set(names)

    def settled():
        (now,) = db.query("select array_agg(distinct o.node) as owners, (select jsonb_object_agg(n.name, n.beat) from pgrab.node n) as beats from pgrab.ownership o")
        return now.beats if set(now.owners) == owners else None
    now = wait_until(settled, 15, f"ownership settled on {sorted(owners)}")
    took = {name: now[name] - since.get(name, 0) for name in names}
    assert max(took.values()) <= allowed + 1, f"heartbeats until ownership was settled: {took}"


def start_nodes(nodes, names, strategy, weights=None, **more):
    """Side by side; returns name -> node."""
    started = {name: nodes.start(name, wait=False, weight=(weights or {}).get(name), **options(strategy, **more)) for name in names}
    for node in started.values():
        node.wait_up()
    return started


def add_noops(db, count, over="0 s"):
    """Noop tasks, due one after the other over a time."""
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + %s::interval * (n::float8 / %s) from generate_series(1, %s) n", over, count, count)


def wait_done(db, timeout=50.0):
    db.wait("select not exists (select from pgrab.task)", timeout=timeout)


def assert_exactly_once(db, count):
    """Every task succeeded once, and nothing else happened but losses with a node that died."""
    rows = db.query("select count(*) filter (where outcome = 'succeeded') as runs, count(distinct task_id) as tasks, "
                    "count(*) filter (where outcome not in ('succeeded', 'lost')) as others from pgrab.run")
    assert rows == [(count, count, 0)]


def ran(db):
    """Node -> tasks it ran."""
    return {r.node: r.n for r in db.query("select node, count(*) as n from pgrab.run where outcome = 'succeeded' group by node")}


def waste(db, tasks):
    """Claims lost / attempted, once the beats have brought all counts."""
    db.wait("select sum(claims_won) >= %s from pgrab.node", tasks)
    return float(db.one("select sum(claims_lost) / sum(claims_attempted) from pgrab.node"))


# ------------------------------------------------------------------------------------------------------ shares and waste
@pytest.mark.parametrize("strategy", ["default", *PARTITIONS])
def test_four_nodes_share_as_promised(db, nodes, strategy):
    names = ["n1", "n2", "n3", "n4"]
    weights = {"n1": 1, "n2": 2, "n3": 3, "n4": 4} if strategy == "weight" else {}
    start_nodes(nodes, names, strategy, weights)
    owned = wait_settled(db, names, strategy)
    add_noops(db, TASKS)
    wait_done(db)
    assert_exactly_once(db, TASKS)
    if strategy == "default":
        assert db.query("select distinct shards from pgrab.nodes") == [(1024,)]
        return
    got, all_weights = ran(db), sum(weights.values()) or 4
    for name in names:
        part, tolerance = weights.get(name, 1) / all_weights, 0.05 if weights else 0.15
        assert abs(owned[name] / 1024 - part) <= tolerance * part, owned
        assert abs(got[name] / TASKS - part) <= tolerance * part, got
    assert waste(db, TASKS) < 0.02
    assert db.one("select sum(stolen) from pgrab.nodes") == 0


def test_a_weight_changed_at_run_time_is_honoured_within_two_heartbeats(db, nodes):
    started = start_nodes(nodes, ["n1", "n2"], "weight")
    assert wait_settled(db, ["n1", "n2"]) == {"n1": 512, "n2": 512}
    since = beats(db)
    db.query("update pgrab.node set weight = 3 where name = 'n1'")
    wait_until(lambda: shares(db) == {"n1": 768, "n2": 256}, 10, "the new weight to be seen")
    assert max(beat - since[name] for name, beat in beats(db).items()) <= 3
    add_noops(db, 4000)
    wait_done(db)
    assert ran(db)["n1"] == pytest.approx(3000, rel=0.05)
    # It outlasts a restart, until it is taken back.
    started["n1"].end()
    nodes.start("n1", weight=1, **options("weight"))
    wait_until(lambda: shares(db) == {"n1": 768, "n2": 256}, 5, "the same weight as before")
    db.query("update pgrab.node set weight = null where name = 'n1'")
    wait_until(lambda: shares(db) == {"n1": 512, "n2": 512}, 5, "the weight of the setting")


def test_weight_0_takes_nothing_unless_it_must(db, nodes):
    started = start_nodes(nodes, ["n1", "n2"], "weight", {"n1": 0, "n2": 1})
    assert wait_settled(db, ["n2"]) == {"n2": 1024}
    add_noops(db, 2000)
    wait_done(db)
    assert ran(db) == {"n2": 2000}
    started["n2"].end()
    assert wait_settled(db, ["n1"]) == {"n1": 1024}
    task = db.add(kind="noop")
    assert db.wait_run(task).node == "n1"


def test_all_weights_0_are_equal(db, nodes):
    start_nodes(nodes, ["n1", "n2"], "weight", {"n1": 0, "n2": 0})
    assert wait_settled(db, ["n1", "n2"]) == {"n1": 512, "n2": 512}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_require_is_honoured(db, nodes, strategy):
    for name, labels in {"n1": "zone=eu", "n2": "zone=us", "n3": None}.items():
        nodes.start(name, wait=False, labels=labels, **options(strategy))
    for node in nodes.all:
        node.wait_up()
    db.query("insert into pgrab.task (kind, name, require) select 'noop', z, case z when 'any' then '{}' else jsonb_build_object('zone', z) end "
             "from unnest('{eu,us,any}'::text[]) z, generate_series(1, 200)")
    wait_done(db, 20)
    got = {(r.name, r.node): r.n for r in db.query("select name, node, count(*) as n from pgrab.run group by name, node")}
    assert got.pop(("eu", "n1")) == 200 and got.pop(("us", "n2")) == 200
    assert {name for name, _ in got} == {"any"} and sum(got.values()) == 200


# --------------------------------------------------------------------------------------------- the cluster changes
@pytest.mark.parametrize("strategy", ["default", *PARTITIONS])
def test_a_join_and_a_death_in_mid_run(db, nodes, strategy):
    quick = {"fence_after": "2s", "dead_after": "4500ms"}
    started = start_nodes(nodes, ["n1", "n2", "n3"], strategy, **quick)
    wait_settled(db, ["n1", "n2", "n3"], strategy)
    count = 20_000
    add_noops(db, count, over="4 s")
    db.wait("select count(*) > 2000 from pgrab.run")
    nodes.start("n4", **options(strategy, **quick))
    settles_within(db, ["n1", "n2", "n3", "n4"], beats(db), 2, strategy)
    db.wait("select count(*) > 8000 from pgrab.run")
    started["n1"].kill9()
    # Three until it is seen to be silent; then it is as after any other change.
    settles_within(db, ["n2", "n3", "n4"], beats(db), 3 + 2, strategy)
    wait_done(db)
    assert_exactly_once(db, count)
    assert not db.query("select from pgrab.run group by task_id, version having count(*) > 1")
    assert set(ran(db)) == {"n1", "n2", "n3", "n4"}


@pytest.mark.parametrize("strategy", ["id_hash", "rendezvous"])
def test_a_frozen_view_costs_at_worst_lost_claims(db, nodes, strategy):
    patient = {"fence_after": "8s", "dead_after": "11s"}  # it is frozen for as long as a busy machine needs here
    started = start_nodes(nodes, ["n1", "n2", "n3"], strategy, **patient)
    wait_settled(db, ["n1", "n2", "n3"])
    before = started["n2"].incarnation()
    started["n2"].stop()
    nodes.start("n4", **options(strategy, **patient))
    wait_settled(db, ["n1", "n3", "n4"])
    count = 10_000
    add_noops(db, count, over="2 s")
    since = beats(db)
    started["n2"].cont()
    settles_within(db, ["n1", "n2", "n3", "n4"], since, 2)
    wait_done(db)
    assert_exactly_once(db, count)
    assert started["n2"].incarnation() == before and "event=fenced" not in started["n2"].log()
    assert db.one("select count(*) from pgrab.run where outcome <> 'succeeded'") == 0


def test_a_node_that_drains_owns_nothing_and_one_that_leaves_neither(db, nodes):
    # The task that keeps it draining.
    task = db.add(kind="sql", command="select pg_sleep(3)")
    first = nodes.start("n1", **options("id_hash", drain_timeout="10s"))
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    nodes.start("n2", **options("id_hash"))
    wait_settled(db, ["n1", "n2"])
    first.term()
    db.wait("select state = 'draining' from pgrab.node where name = 'n1'")
    settles_within(db, ["n2"], beats(db), 2)
    assert db.one("select shards from pgrab.nodes where name = 'n1'") == 0
    assert first.wait_exit(15) == 0
    assert shares(db) == {"n2": 1024}


def test_mixed_strategies_are_warned_of_and_nothing_lies_longer_than_steal_after(db, nodes):
    # By its own rule n1 leaves everything to n2, which by its rule leaves half to n1.
    nodes.start("n1", **options("weight", weight=0, steal_after="1s"))
    nodes.start("n2", **options("id_hash", steal_after="1s"))
    wait_until(lambda: shares(db) == {None: 512, "n2": 512}, 5, "half of the shards to have no owner")
    assert db.query("select name, strategy, warning from pgrab.nodes order by name") == [
        ("n1", "weight", "mixed strategies"), ("n2", "id_hash", "mixed strategies")]
    add_noops(db, 1000)  # far more than a thief has room for at once
    wait_done(db, 10)
    late = db.query("select extract(epoch from max(r.started_at - r.fire_at))::float8 as most from pgrab.run r")[0].most
    assert late < 1 + 1 + 1, "steal_after, the next look, and one for a busy machine"
    db.wait("select sum(claims_stolen) > 100 from pgrab.node")
    nodes.all[1].end()
    assert db.one("select count(*) from pgrab.nodes where warning is not null") == 0


def test_what_a_frozen_node_had_planned_is_taken_though_its_shards_are_still_its_own(db, nodes):
    """Nothing rings when a planned task falls due, and both nodes have had nothing to do for a while: they look every ten seconds."""
    nodes.start("n2", lookahead="0s")
    frozen = nodes.start("n1", lookahead="0s", heartbeat="5s", fence_after="14s", dead_after="20s")
    wait_settled(db, ["n1", "n2"])
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + interval '9 s' from generate_series(1, 30)")
    of_n1 = "from pgrab.task t join pgrab.ownership o on o.shard = pgrab.shard(t.id) where o.node = 'n1'"
    db.query(f"delete from pgrab.task where id not in (select t.id {of_n1})")
    assert db.one("select count(*) > 0 from pgrab.task")
    db.wait("select min(run_at) - now() < interval '1 s' from pgrab.task")
    frozen.stop()
    wait_done(db, 10)
    assert db.query("select distinct node from pgrab.run") == [("n2",)]
    late = db.one("select extract(epoch from max(started_at - fire_at))::float8 from pgrab.run")
    assert 2 <= late < 3, "steal_after, and a second for a busy machine"


def test_what_nodes_write_all_the_time_is_their_beat(db, nodes):
    """What they said of themselves is written once, and of each node one beat stays."""
    nodes.start("n1", heartbeat="100ms", fence_after="2s", dead_after="5s")
    wait_settled(db, ["n1"])
    db.query("create table written (beat bigint)")
    db.query("create function note() returns trigger language plpgsql as $$ begin insert into public.written values (1); return null; end $$")
    db.query("create trigger note after update on pgrab.registration for each row execute function note()")
    beat = db.one("select beat from pgrab.node")
    db.wait("select beat > %s from pgrab.node", beat + 30)
    assert db.one("select count(*) from written") == 0
    assert db.one("select count(*) <= 2 from pgrab.beat")


def drain_seconds(db, count):
    """How long the nodes need for noops that are all due."""
    add_noops(db, count)
    before = time.monotonic()
    wait_done(db)
    return time.monotonic() - before


def test_two_hundred_nodes_in_the_table_cost_a_loader_nothing_to_speak_of(db, nodes):
    node = nodes.start("n1", **options("weight"))
    wait_settled(db, ["n1"])
    drain_seconds(db, 1000)
    alone = drain_seconds(db, 20_000)
    # They beat once an hour, and want nothing.
    db.query("""with said as (
                  insert into pgrab.registration (name, host, pid, pgrab_version, strategy, weight, slots, heartbeat_every, dead_after, started_at)
                  select 's' || n, 'h', 1, '0', 'weight', 0, 8, '1 hour', '1 day', now() from generate_series(1, 200) n returning id)
                insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state) select id, 1, id, now(), 'up' from said""")
    node.wait_log("event=cluster nodes=201")
    among_many = drain_seconds(db, 20_000)
    assert among_many < 1.5 * alone + 1, (alone, among_many)
    assert shares(db) == {"n1": 1024} and "slow_strategy" not in node.log()


# ------------------------------------------------------------------------------------------------- files and the list
def build_so(folder, name, *flags, source=ROOT / "tests/unit/plugin_strategy.c", cflags=(f"-I{ROOT}/include",)):
    out = Path(folder) / f"{name}.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-std=gnu11", *flags, *cflags, "-o", out, source], check=True)
    return out


@pytest.mark.parametrize("flag, says", [
    ("-DTOY_ABI=99", "it was built for strategy ABI 99, this pgrab has ABI 2"),
    ("-DTOY_ENTRY=something_else", "it does not export the function pgrab_strategy_v1"),
    ("-DTOY_SHARDS=NULL", "has no shards()"),
    ("-DTOY_ANSWER=NULL", "returned NULL"),
])
def test_a_file_that_is_no_strategy_of_this_version_is_refused(db, nodes, tmp_path, flag, says):
    node = nodes.start("n1", wait=False, strategy=build_so(tmp_path, "toy", flag), strategy_options="1024")
    assert node.wait_exit() == 1
    assert says in node.log() and "toy.so" in node.log()
    assert not db.one("select count(*) from pgrab.node where state <> 'down'")


def test_a_file_of_ones_own_owns_shards_and_accepts(db, nodes, tmp_path):
    nodes.start("n1", strategy=build_so(tmp_path, "toy"), strategy_options="1024")
    assert wait_settled(db, ["n1"]) == {"n1": 1024}
    assert db.query("select node, strategy from pgrab.ownership where shard = 1023") == [("n1", "toy.so")]
    assert db.wait_run(db.add(kind="noop", id=2)).outcome == "succeeded", "the toy accepts even ids"


def test_one_that_names_shards_that_do_not_exist_is_refused(db, nodes, tmp_path):
    node = nodes.start("n1", wait=False, strategy=build_so(tmp_path, "toy"), strategy_options="5000")
    assert node.wait_exit() == 1
    assert "shards that do not exist" in node.log() and "1023" in node.log()


def test_the_example_builds_from_installed_headers_alone_and_runs(db, nodes, tmp_path, installed):
    shutil.copytree(ROOT / "strategies/example", tmp_path / "example")
    for command in (["setup", "--werror", "build"], ["compile", "-C", "build"]):
        subprocess.run(["meson", *command], cwd=tmp_path / "example", env=installed, check=True, stdout=subprocess.DEVNULL)
    assert f"{ROOT}/" not in (tmp_path / "example/build/compile_commands.json").read_text()
    more = {**QUIET, "strategy": tmp_path / "example/build/standby.so", "strategy_options": "active=1"}
    first = nodes.start("n1", **more)
    nodes.start("n2", **more)
    db.wait("select count(shards) = 2 from pgrab.node")
    assert wait_settled(db, ["n1"]) == {"n1": 1024}
    assert db.wait_run(db.add(kind="noop")).node == "n1"
    first.kill9()
    assert wait_settled(db, ["n2"]) == {"n2": 1024}
    assert db.wait_run(db.add(kind="noop")).node == "n2"


def test_each_built_in_strategy_builds_from_installed_headers_alone(db, nodes, tmp_path, installed):
    cflags = subprocess.run(["pkg-config", "--cflags", "pgrab"], env=installed, check=True, capture_output=True, text=True).stdout.split()
    built = {name: build_so(tmp_path, name, "-DPGRAB_STRATEGY_SO", "-Wall", "-Werror", source=ROOT / f"strategies/{name}.c", cflags=cflags)
             for name in ["default", *PARTITIONS]}
    # One rule, whether it was compiled in or loaded.
    nodes.start("n1", **options("rendezvous"))
    nodes.start("n2", **options(built["rendezvous"]))
    owned = wait_settled(db, ["n1", "n2"])
    assert min(owned.values()) > 490


def test_strategy_list():
    lines = run_pgrab("strategy", "list").stdout.splitlines()
    assert lines[0].split() == ["name", "summary"]
    assert [line.split()[0] for line in lines[1:]] == STRATEGIES
    rows = json.loads(run_pgrab("strategy", "list", "--json").stdout)
    assert [r["name"] for r in rows] == STRATEGIES and all(r["summary"] for r in rows)
    assert [r["name"] for r in rows if r["overlapping"]] == ["default"]
    assert run_pgrab("strategy", check=False).returncode == 2
    assert run_pgrab("strategy", "drop", check=False).returncode == 2
