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
    beat = """select n.id, n.incarnation, b.beat from pgrab.node n cross join lateral (select (to_jsonb(n) ->> 'beat')::bigint as beat) b"""
    if db.one("select count(*) from pg_attribute where attrelid = 'pgrab.node'::regclass and attname = 'beat' and not attisdropped") == 0:
        beat = "select n.id, n.incarnation, b.beat from pgrab.node n join pgrab.beat b on b.node_id = n.id"
    node.stop()
    row = db.query(beat)[0]
    assert statement(db, "declare_dead", row.id, row.incarnation, row.beat - 1) == 0
    assert db.one("select state from pgrab.nodes") != "down"
    assert statement(db, "declare_dead", row.id, row.incarnation, row.beat) == 1
    node.cont()
    node.wait_log("event=fenced")
