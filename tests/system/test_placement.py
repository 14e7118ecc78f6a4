"""Which node takes a task, and whose turn it is: share_key, prefer, failover_after."""
from cluster import wait_until


def outcomes(db, where):
    return db.query(f"select node, count(*) as n from pgrab.run where {where} group by node order by node")


def test_keys_take_turns_whatever_their_numbers(db, nodes):
    db.query("insert into pgrab.task (command, share_key) select 'select pg_sleep(0.01)', 'big' from generate_series(1, 3000)")
    nodes.start("n1", workers=2)
    db.wait("select count(*) > 50 from pgrab.run", timeout=15)
    db.query("insert into pgrab.task (command, share_key) select 'select 1', 'small ' || i % 10 from generate_series(1, 50) i")
    began = db.one("select clock_timestamp()")
    db.wait("select not exists (select from pgrab.task where share_key like 'small%')", timeout=15)
    of_big = db.one("select count(*) from pgrab.run where definition ->> 'share_key' = 'big' and finished_at > %s", began)
    # Ten keys of five and one of thousands: some six rounds, and what was in hand already.
    assert of_big < 100, of_big


def test_one_key_alone_has_all_workers(db, nodes):
    db.query("insert into pgrab.task (command, share_key) select 'select pg_sleep(0.3)', 'only' from generate_series(1, 24)")
    nodes.start("n1", workers=4)
    db.wait("select count(*) = 4 from pgrab.running")
    db.wait("select count(*) = 24 from pgrab.run", timeout=20)


def test_more_keys_than_one_look_comes_by_all_have_their_turn(db, nodes):
    db.query("insert into pgrab.task (kind, share_key) select 'noop', 'k' || i % 1000 from generate_series(1, 20000) i")
    nodes.start("n1")
    db.wait("select not exists (select from pgrab.task)", timeout=40)
    assert db.one("select count(*) from pgrab.run") == 20000
    # in turns: when half were done, no key was done yet, or had hardly been begun
    half = db.query("select count(*) as n from (select definition ->> 'share_key' as key from pgrab.run order by finished_at limit 10000) x group by key")
    assert len(half) > 900, len(half)


def test_what_waits_for_its_turn_is_explained(db):
    db.query("insert into pgrab.task (command, share_key, run_at) select 'select 1', 'a', now() - interval '1 min' from generate_series(1, 3)")
    db.query("insert into pgrab.task (command, share_key) select 'select 1', k from unnest('{b,c}'::text[]) k")
    task = db.add(command="select 1", share_key="a")
    detail = db.one("select detail from pgrab.explain(%s) where gate = 'turn'", task)
    assert detail == "3 of share_key 'a' are before it; 2 other keys take turns with this one."


def test_of_those_that_came_together_one_is_before_the_other(db):
    db.query("insert into pgrab.task (command, share_key) select 'select 1', 'it''s' from generate_series(1, 2)")
    told = [db.one("select detail from pgrab.explain(%s) where gate = 'turn'", t.id) for t in db.query("select id from pgrab.task order by id")]
    assert [t.partition(" before")[0] for t in told] == ["0 of share_key 'it''s' are", "1 of share_key 'it''s' is"]


def test_preferred_nodes_take_it_and_others_only_when_they_have_not(db, nodes):
    home, away = nodes.start("home", labels="site=hq"), nodes.start("away", labels="site=branch")
    columns = "kind, prefer, failover_after, source"
    insert = f"insert into pgrab.task ({columns}) select 'noop', '{{\"site\": \"hq\"}}', '2 s', %s from generate_series(1, 100)"
    db.wait("select count(*) = 2 from pgrab.node where state = 'up'")
    db.query(insert, "first")
    db.wait("select count(*) = 100 from pgrab.run")
    assert [(r.node, r.n) for r in outcomes(db, "true")] == [("home", 100)]
    home.term()
    home.wait_exit()
    db.query(insert, "second")
    task = db.one("select min(id) from pgrab.task")
    explained = db.one("select detail from pgrab.explain(%s) where gate = 'preferred nodes'", task)
    assert explained.startswith('No node that it prefers is up, with labels {"site": "hq"}; others may take it at '), explained
    db.wait("select count(*) = 200 from pgrab.run", timeout=20)
    assert [(r.node, r.n) for r in outcomes(db, "definition ->> 'source' = 'second'")] == [("away", 100)]
    early = db.one("select count(*) from pgrab.run where definition ->> 'source' = 'second' and started_at < fire_at + interval '2 s'")
    assert early == 0
    nodes.start("home", labels="site=hq")
    db.wait("select count(*) = 2 from pgrab.node where state = 'up'")
    wait_until(lambda: "nodes=2" in away.log().rpartition("event=cluster")[2], 10, "the new picture of the cluster")
    db.query(insert, "third")
    db.wait("select count(*) = 300 from pgrab.run")
    assert [(r.node, r.n) for r in outcomes(db, "definition ->> 'source' = 'third'")] == [("home", 100)], "home again"


def test_the_locked_tasks_of_a_key_are_not_looked_at_again_and_again(db, nodes):
    db.query("insert into pgrab.task (command, share_key) select 'select pg_sleep(0.02)', k from generate_series(1, 50), unnest('{free,locked}'::text[]) k")
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where share_key = 'locked' for update")
        nodes.start("n1", workers=2)
        db.wait("select not exists (select from pgrab.task where share_key = 'free')", timeout=15)
        looks = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
        before = db.one(looks)
        db.query("select pg_sleep(4)")
        assert db.one(looks) - before < 200, "it goes on looking at what it cannot have"
        task = db.add(kind="noop", share_key="new")
        db.wait_run(task, timeout=5)
        person.rollback()
    db.wait("select not exists (select from pgrab.task)", timeout=20)
