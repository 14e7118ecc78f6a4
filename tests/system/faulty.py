"""What the tests of faults share: a role that can be locked out, an address that can go silent, a thread that stands still."""
import ctypes
import os
from pathlib import Path

import pytest

from cluster import conninfo
from proxy import Proxy


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, tid):
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), ctypes.c_long(0), ctypes.c_long(0)) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


class FrozenThread:
    """One thread of a node stands still, the others go on: what a name lookup without an end looks like."""

    def __init__(self, node, name):
        for entry in Path(f"/proc/{node.pid}/task").iterdir():
            if (entry / "comm").read_text().strip() == name:
                self.tid = int(entry.name)
        try:
            ptrace(PTRACE_SEIZE, self.tid)
        except PermissionError:
            pytest.skip("this machine does not let a parent trace its child")
        ptrace(PTRACE_INTERRUPT, self.tid)
        os.waitpid(self.tid, WALL)

    def thaw(self):
        ptrace(PTRACE_DETACH, self.tid)


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
