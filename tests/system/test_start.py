"""Starting, and what bad settings get."""
import os
import re
import signal
import subprocess

import pytest

from cluster import Db, clean_env, conninfo, pgrab_bin, run_pgrab
from test_keeper import keeper_of


def start(*args, env=None, timeout=15):
    return subprocess.run([pgrab_bin(), "run", *args], env=clean_env(**(env or {})), capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize("args, says", [
    (["--pol", "1s"], "did you mean --poll"),
    (["--poll", "5"], "200ms"),
    (["--workers", "0"], "from 1 to 1024"),
    (["--dead-after", "5s"], "dead_after to 18s or more"),
    (["--labels", "zone"], "key=value"),
    (["--log-level", "loud"], "debug info warn error"),
    (["extra"], "options only"),
])
def test_bad_settings_exit_2_and_say_what_is_right(args, says):
    done = start(*args)
    assert done.returncode == 2 and says in done.stderr, done.stderr


def test_a_bad_file_is_named_with_its_line(tmp_path):
    conf = tmp_path / "pgrab.conf"
    conf.write_text("# a comment\nworkers = 4\nheartbeet = 1s\n")
    done = start("--config", str(conf))
    assert done.returncode == 2 and f"{conf}:3" in done.stderr and "heartbeat" in done.stderr
    conf.write_text("workers = 4\nlabels = zone=" + "y" * 70000 + "\n")
    done = start("--config", str(conf))
    assert done.returncode == 2 and f"{conf}:2" in done.stderr and "64 KiB" in done.stderr
    done = start("--config", str(tmp_path / "none"))
    assert done.returncode == 2 and "none" in done.stderr


def test_flag_wins_over_file_wins_over_environment(db, nodes, tmp_path):
    conf = tmp_path / "pgrab.conf"
    conf.write_text("workers = 5\nlabels = from=file\nname = from_file\n")
    nodes.start("n1", config=str(conf), env={"PGRAB_WORKERS": "6", "PGRAB_WEIGHT": "7", "PGRAB_LABELS": "from=env"})
    row = db.query("select slots, weight, labels, name from pgrab.node")[0]
    assert (row.slots, row.weight, row.labels, row.name) == (5 + 64, 7.0, {"from": "file"}, "n1")


@pytest.mark.parametrize("args, says", [
    (["--allow", "sql,fly"], "fly"),
    (["--strategy", "magic"], "id_hash"),
    (["--executors", "/no/such.so"], "such.so"),
])
def test_what_cannot_be_loaded_is_refused_with_the_list(db, args, says):
    done = start("--dsn", db.dsn, *args)
    assert done.returncode != 0 and says in done.stderr


def test_a_wrong_database_or_role_ends_the_node_with_what_to_do(db):
    done = start("--dsn", db.dsn.replace(f"dbname={db.name}", "dbname=no_such_db"))
    assert done.returncode == 1 and "no_such_db" in done.stderr


def test_a_node_that_may_only_read_says_which_setting_it_is_and_waits(db, nodes):
    def default(what):
        with db.connect() as conn:
            conn.execute("set default_transaction_read_only = off")
            conn.execute(f'alter database "{db.name}" {what}')

    default("set default_transaction_read_only = on")
    node = nodes.start("n1", wait=False)
    node.wait_log("event=waiting for=database .*transactions are read-only: default_transaction_read_only is on")
    default("reset default_transaction_read_only")
    node.wait_up()
    assert node.log().count("event=waiting") == 1


def test_too_few_connections_are_named_and_work_goes_on_when_there_are_more(db, nodes):
    tasks = db.one("with t as (insert into pgrab.task (kind, command) select 'noop', '' from generate_series(1, 20) returning id) select array_agg(id) from t")
    db.query(f'alter database "{db.name}" connection limit 4')
    node = nodes.start("n1")
    node.wait_log("event=fault .*too many connections for database")
    db.wait("select ill from pgrab.node")
    verdicts = dict(re.findall(r"^(.*?)  +(ok|note|fix) ", run_pgrab("doctor", dsn=conninfo.make_conninfo(db.dsn, user="postgres"), check=False).stdout, re.M))
    assert verdicts["recording"] == "fix" and verdicts["strategies"] == "ok", verdicts
    db.query(f'alter database "{db.name}" connection limit -1')
    for task in tasks:
        assert db.wait_run(task, timeout=20).outcome == "succeeded"


def test_an_empty_database_gets_its_schema_from_the_first_node(cluster, nodes):
    bare = Db(cluster, cluster.create_database(template="template0"))
    try:
        node = nodes.start("n1", dsn=bare.dsn, wait=False)
        node.wait_log("event=up", timeout=15)
        assert bare.one("select count(*) from pgrab.node") == 1
        node.end()
    finally:
        bare.close()
        cluster.drop_database(bare.name)


def test_an_older_schema_is_left_alone_and_the_command_named(db):
    db.query("delete from pgrab.migration where version = (select max(version) from pgrab.migration)")
    done = start("--dsn", db.dsn)
    assert done.returncode == 1 and "pgrab migrate" in done.stderr


def test_a_second_live_node_of_the_same_name_is_refused(db, nodes):
    nodes.start("n1")
    done = start("--dsn", db.dsn, "--name", "n1")
    assert done.returncode == 1 and "live node has the name" in done.stderr and "--name" in done.stderr


def test_settings_help_lists_every_key():
    done = run_pgrab("run", "--help")
    for key in ("name", "strategy", "strategy-options", "weight", "labels", "workers", "loaders", "lookahead", "poll", "heartbeat", "fence-after", "dead-after",
                "kill-grace", "steal-after", "allow", "drain-timeout", "retention", "log-level", "log-format", "config", "dsn"):
        assert f"--{key}" in done.stdout, key


def test_json_log_lines_are_json(db, nodes):
    import json
    node = nodes.start("n1", log_format="json")
    node.end()
    lines = [json.loads(line) for line in node.log().splitlines()]
    assert {"up", "stopped"} <= {line["event"] for line in lines}


def with_files(tmp_path, limit):
    """A program that runs pgrab with so few descriptors."""
    program = tmp_path / "few"
    program.write_text(f"#!/bin/sh\nulimit {limit}\nexec {pgrab_bin()} \"$@\"\n")
    program.chmod(0o755)
    return str(program)


def test_too_few_descriptors_are_refused_at_the_start(db, nodes, tmp_path):
    node = nodes.start("n1", binary=with_files(tmp_path, "-n 48"), workers=30, wait=False)
    assert node.wait_exit() == 1
    assert re.search(r"at most 48 files may be open at once, but with 30 workers .* this node needs \d+: raise the limit", node.log())


def test_a_limit_that_may_be_raised_is(db, nodes, tmp_path):
    nodes.start("n1", binary=with_files(tmp_path, "-S -n 48"), workers=30)
    tasks = [db.add(kind="shell", command="sleep 0.5; ulimit -n") for _ in range(30)]
    assert {db.wait_run(task, timeout=20).output for task in tasks} == {"48\n"}
    os.kill(keeper_of(nodes.all[0]), signal.SIGKILL)  # a new one comes from a node whose limit is higher by now
    assert db.wait_run(db.add(kind="shell", command="ulimit -n", max_attempts=9), timeout=20).output == "48\n"
