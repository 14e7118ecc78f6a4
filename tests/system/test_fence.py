"""Statements of a node as they stand in its program, at the moment that matters."""
from cluster import ROOT


def statement(db, name, *params):
    """Runs src/db/sql/NAME.sql; how many rows it gave."""
    text = (ROOT / f"src/db/sql/{name}.sql").read_text(encoding="utf-8")
    with db.connect() as conn:
        result = conn.pgconn.exec_params(text.encode(), [str(p).encode() for p in params])
        assert not result.error_message, result.error_message
        return result.ntuples


def test_a_node_that_has_beaten_since_is_not_declared_dead(db, nodes):
    node = nodes.start()
    node.stop()

    def declare(earlier):
        # A node has several rows there until upkeep: the newest counts.
        row = db.query("""select n.id, n.incarnation, b.beat from pgrab.node n join pgrab.beat b on b.node_id = n.id
                          order by b.beat desc limit 1""")[0]
        return statement(db, "declare_dead", row.id, row.incarnation, row.beat - earlier, db.one("select pgrab_internal.server_life()"))

    assert declare(earlier=1) == 0
    assert db.one("select state from pgrab.nodes") != "down"
    # A beat that was under way when the node froze may arrive between reading the row and the statement; no
    # other can follow it.
    assert declare(earlier=0) == 1 or declare(earlier=0) == 1
    node.cont()
    node.wait_log("event=fenced")
