"""A sql run whose connection or node is lost: its backend may work on, so nobody runs the task before that has ended."""
import pytest
from cluster import conninfo, run_pgrab, stays
from proxy import CANCEL, Proxy

ACTIVE = "select pid from pg_stat_activity where application_name like 'pgrab sql %%' and state = 'active' and query like 'select pg_sleep%%' and datname = current_database()"


@pytest.fixture
def proxy(db):
    made = Proxy(db.dsn)
    yield made
    made.close()


def test_a_run_whose_connection_is_lost_is_over_only_when_its_backend_is(db, nodes, proxy):
    task = db.add(command="select pg_sleep(40)", backoff="0", max_attempts=2)
    nodes.start("n1", dsn=proxy.dsn)
    first = db.wait(ACTIVE)
    proxy.lose(b"pgrab sql")
    db.wait("select count(*) = 1 from pgrab.run")
    assert not db.query("select from pg_stat_activity where pid = %s", first), "nobody does it any more"
    assert [r.outcome for r in db.runs(task)] == ["failed"]
    assert db.wait(ACTIVE) != first
    db.query("select pg_terminate_backend(%s)", db.wait(ACTIVE))
    assert db.wait_run(task, count=2).outcome == "failed"


def test_a_commit_whose_answer_is_lost_is_looked_up(db, nodes, proxy):
    db.query("create table effect (n int)")
    proxy.until = b"commit\0"
    task = db.add(command="insert into public.effect values (1)", max_attempts=5, backoff="0")
    nodes.start("n1", dsn=proxy.dsn)
    db.wait("select not exists (select from pgrab.task)")
    assert proxy.until is None, "the answer was lost"
    assert db.one("select count(*) from effect") == 1
    assert [r.outcome for r in db.runs(task)][-1] == "succeeded"
    assert db.one("select count(*) filter (where outcome = 'succeeded') from pgrab.run") == 1


def test_the_work_of_a_run_that_is_another_s_now_is_rolled_back(db, nodes):
    db.query("create table effect (n int)")
    task = db.add(command="insert into public.effect values (1); select pg_sleep(1)", max_attempts=5, backoff="0")
    nodes.start("n1")
    db.wait("select exists (select from pg_stat_activity where query like 'select pg_sleep(1)%%' and datname = current_database())")
    db.query("update pgrab.task set version = version + 1, node_id = 4711, incarnation = 4711 where id = %s", task)
    db.query("insert into pgrab.hold values (4711, 1, array[%s])", task)
    db.wait("select not exists (select from pgrab.task)", timeout=25)
    assert [r.outcome for r in db.runs(task)].count("succeeded") == 1
    assert db.one("select count(*) from effect") == 1, "what the first run did has not happened"


def test_a_cancel_that_nobody_answers_ends_the_backend_instead(db, nodes, proxy):
    proxy.swallow = CANCEL
    task = db.add(command="select pg_sleep(60)", timeout="300 ms", max_attempts=1)
    nodes.start("n1", dsn=proxy.dsn)
    first = db.wait(ACTIVE)
    assert db.wait_run(task, timeout=8).outcome == "timed_out"
    assert not db.query("select from pg_stat_activity where pid = %s", first)


@pytest.fixture
def role(db):
    """A role that may do what a node does, but is no superuser."""
    name = f"{db.name}_node"
    db.query(f"create role {name} login; grant {name} to current_user")
    db.query(f"grant usage on schema pgrab, pgrab_internal, pgrab_tool to {name}; grant all on all tables in schema pgrab to {name}; grant all on all sequences in schema pgrab to {name}; "
             f"grant execute on all functions in schema pgrab, pgrab_internal, pgrab_tool to {name}")
    yield name
    db.query(f"drop owned by {name}; drop role {name}")


def as_role(db, name):
    return conninfo.make_conninfo(db.dsn, user=name)


def freeze_in_sql(db, nodes, owner, **options):
    task = db.add_as(owner, command="select pg_sleep(case when current_setting('application_name') = (select 'pgrab sql ' || incarnation from pgrab.node where name = 'n1') then 60 else 0 end)")
    frozen = nodes.start("n1", allow="sql,noop", **options)
    pid = db.wait(ACTIVE)
    frozen.stop()
    return task, frozen, pid


def test_the_sql_backend_of_another_role_is_ended_too(db, nodes, role, tmp_path):
    task, frozen, pid = freeze_in_sql(db, nodes, role, dsn=as_role(db, role))
    (tmp_path / "ini").write_text(f"[owner {role}]\ndsn = {as_role(db, role)}\n")
    nodes.start("n2", config=tmp_path / "ini").wait_log("event=node_dead name=n1 .*sql_ended=1", timeout=10)
    assert not db.query("select from pg_stat_activity where pid = %s", pid)
    assert db.wait_run(task, count=2).outcome == "succeeded"
    frozen.cont()


@pytest.mark.deadline(90)
def test_a_sql_run_whose_backend_may_not_be_ended_is_not_started_again_before_that_has_gone(db, nodes, role):
    task, frozen, pid = freeze_in_sql(db, nodes, db.one("select current_user"))
    other = db.add(kind="noop", run_at="2100-01-01")
    # Also held by the dead, and not sql: that goes back at once.
    db.query("""with won as (
                  update pgrab.task t set status = 'claimed', version = t.version + 1, node_id = n.id,
                    incarnation = n.incarnation, claimed_at = now(), due_at = now()
                  from pgrab.node n where n.name = 'n1' and t.id = %s returning t.id, t.incarnation)
                insert into pgrab.hold select w.incarnation, 4711, array[w.id] from won w""", other)
    version = db.one("select version from pgrab.task where id = %s", task)
    second = nodes.start("n2", dsn=as_role(db, role), allow="sql,noop")
    second.wait_log("event=node_dead name=n1 .*sql_ended=0", timeout=10)
    second.wait_log("event=sql_not_ended backends=1")
    assert db.wait_run(other).outcome == "succeeded"
    stays(lambda: db.one("select status = 'running' and version = %s from pgrab.task where id = %s", version, task), 1, "the run")
    db.query("select pg_terminate_backend(%s, 5000)", pid)
    nodes.start("n3")  # n2 cannot log in as the owner
    assert db.wait_run(task, count=2, timeout=30).outcome == "succeeded"
    assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"]
    frozen.cont()


def test_what_the_server_has_put_back_to_before_its_start_is_found_again(db, nodes, probe):
    """As after a failover to a standby that had the claim and not the start: the end of the run is nobody's any more."""
    probe.close_gate()
    node = nodes.start("n1")
    task = db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    db.query("alter table pgrab.task disable trigger user")
    db.query("update pgrab.task set status = 'claimed', attempt = 0, started_at = null where id = %s", task)
    db.query("alter table pgrab.task enable trigger user")
    probe.open_gate()
    node.wait_log("event=stale_finish")
    for _ in range(3):  # claims, which delete what is over
        db.wait_run(db.add(kind="noop"))
    node.end()
    assert db.one("select status from pgrab.task where id = %s", task) == "claimed"
    nodes.start("n2")
    assert db.wait_run(task).outcome == "succeeded"
    assert len(probe.events("start", "a")) == 2


def test_a_task_that_is_held_without_a_claim_is_named_by_doctor_and_searched_for(db, nodes):
    task = db.add(kind="noop", run_at=db.one("select now() - interval '1 hour'"))
    db.query("update pgrab.task set status = 'claimed', node_id = 4711, incarnation = 4711, claimed_at = now() - interval '1 hour' where id = %s", task)
    said = run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert f"the first is {task}" in said
    nodes.start("n1")  # on a server that no node has searched yet
    assert db.wait_run(task, timeout=20).outcome == "succeeded"
    assert f"the first is {task}" not in run_pgrab("doctor", dsn=db.dsn, check=False).stdout
