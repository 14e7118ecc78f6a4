"""The image, on a Debian of our own: no registry is asked, and no container runtime is needed.  Takes minutes, so only with PGRAB_CONTAINER=1."""
import os
import shutil
import subprocess

import pytest
from cluster import ROOT, wait_until
from conftest import Debian
from psycopg import conninfo

pytestmark = [pytest.mark.deadline(600), pytest.mark.skipif(os.environ.get("PGRAB_CONTAINER") != "1", reason="PGRAB_CONTAINER=1 builds the image"),
              pytest.mark.skipif(not shutil.which("buildah"), reason="there is no buildah")]
BASE, WORK = "localhost/pgrab-test-base", "pgrab-test"


def buildah(*args):
    done = subprocess.run(["buildah", *map(str, args)], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def image(clean_root):
    """The files of the image, mounted."""
    buildah("from", "--name", WORK, "scratch")
    buildah("add", "-q", WORK, clean_root, "/")
    buildah("commit", "-q", "--rm", WORK, BASE)
    done = subprocess.run([ROOT / "scripts/package", "container", "--base", BASE], capture_output=True, text=True, timeout=500, check=False,
                          env={**os.environ, "BUILDAH_ISOLATION": "chroot"})
    assert done.returncode == 0, done.stdout + done.stderr
    name = "localhost/pgrab:" + subprocess.run([ROOT / "scripts/version"], capture_output=True, text=True, check=True).stdout.strip()
    buildah("from", "--name", WORK, "--pull-never", name)
    yield Debian(buildah("mount", WORK))
    buildah("rm", WORK)
    buildah("rmi", name, BASE)


def test_a_node_runs_in_the_image_and_drains_at_term(image, db):
    assert image.run("/usr/bin/pgrab", "version").stdout.startswith("pgrab ")
    image.env.update(PGRAB_DSN=conninfo.make_conninfo(db.dsn, host="127.0.0.1"), PGRAB_NAME="boxed")
    node = image.popen("setpriv", "--reuid=999", "--regid=999", "--clear-groups", "/usr/bin/pgrab", "run")
    try:
        wait_until(lambda: db.one("select true from pgrab.node where name = 'boxed' and state = 'up'"), 30, "the node")
        assert db.wait_run(db.add(command="select 1")).outcome == "succeeded"
        assert image.stop(node) == 0
    finally:
        image.end()
    assert db.one("select state from pgrab.node where name = 'boxed'") == "down"
