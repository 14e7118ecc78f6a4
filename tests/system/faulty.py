"""What the tests of faults share: a role that can be locked out, an address that can go silent."""
import pytest

from cluster import conninfo
from proxy import Proxy


@pytest.fixture
def role(db):
    """A role that may do what a node does, but is no superuser."""
    name = f"{db.name}_node"
    db.query(f"create role {name} login; grant {name} to current_user")
    db.query(f"grant usage on schema pgrab, pgrab_internal, pgrab_tool to {name}; grant all on all tables in schema pgrab to {name}; "
             f"grant all on all sequences in schema pgrab to {name}; "
             f"grant execute on all functions in schema pgrab, pgrab_internal, pgrab_tool to {name}")
    yield name
    db.query(f"drop owned by {name}; drop role {name}")


@pytest.fixture
def proxy(db):
    made = Proxy(db.dsn)
    yield made
    made.close()


FINISH = "execute on function pgrab_internal.finish, pgrab_internal.finish_run, pgrab_internal.finish_runs"


def as_role(db, name):
    return conninfo.make_conninfo(db.dsn, user=name)


def hang_up(db, app):
    db.query("select pg_terminate_backend(a.pid, 5000) from (select pid from pg_stat_activity where application_name = %s and datname = current_database() offset 0) a",
             f"pgrab {app}")
