"""Does anything work at all?"""


def test_a_node_runs_a_task_and_writes_what_happened(db, nodes):
    task = db.add(kind="noop")
    nodes.start("n1")
    run = db.wait_run(task)
    assert (run.outcome, run.attempt, run.node) == ("succeeded", 1, "n1")
