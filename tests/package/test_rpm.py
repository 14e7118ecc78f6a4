"""The package for Fedora and the like: what is in it, and what its scripts do.  No such system is here: it goes into a Debian that has all it needs."""
import os
import re
import shutil
import subprocess

import pytest
from cluster import ROOT
from conftest import left_of, make

pytestmark = [pytest.mark.deadline(900), pytest.mark.skipif(not shutil.which("rpmbuild"), reason="there is no rpmbuild")]


def rpm(*args, root=None):
    """Into another root it goes as on a machine that is being installed: with /proc, which systemd-tmpfiles wants."""
    inside = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", 'mount -t proc proc "$0/proc"; exec rpm --root "$0" "$@"', str(root)] if root else ["rpm"]
    done = subprocess.run([*inside, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def rpms():
    """The packages by name; PGRAB_RPMS has the folder of some that are there already."""
    folder = os.environ.get("PGRAB_RPMS") or make("rpm").parent
    return {re.sub(r"-\d.*\.(src|noarch|\w+)\.rpm$", lambda m: ".src" if m[1] == "src" else "", path.name): path
            for path in (ROOT / folder).glob("pgrab*.rpm")}


def test_what_is_in_them(rpms):
    assert sorted(rpms) == ["pgrab", "pgrab-devel", "pgrab.src"]
    files = {path: (mode, user, group) for mode, user, group, path in
             (line.split("\t") for line in rpm("-qp", "--qf", "[%{FILEMODES:perms}\t%{FILEUSERNAME}\t%{FILEGROUPNAME}\t%{FILENAMES}\n]", rpms["pgrab"]).splitlines())}
    for path in ("/usr/bin/pgrab", "/usr/lib/systemd/system/pgrab@.service", "/usr/lib/systemd/system/pgrab-serve.service", "/usr/lib/sysusers.d/pgrab.conf",
                 "/usr/lib/tmpfiles.d/pgrab.conf", "/usr/share/doc/pgrab/docs/operations.md", "/usr/share/pgrab/handlers/python/pgrab_handler.py",
                 "/usr/share/bash-completion/completions/pgrab"):
        assert files[path][1:] == ("root", "root"), path
    assert any(re.fullmatch(r"/usr/share/man/man1/pgrab\.1(\.\w+)?", path) for path in files)
    assert files["/etc/pgrab"][0] == "drwxr-x---" and files["/etc/pgrab/main.conf"][0] == "-rw-r-----", "settings hold passwords"
    assert rpm("-qcp", rpms["pgrab"]) == "/etc/pgrab/main.conf\n", "an upgrade leaves settings alone"
    assert {"/usr/include/pgrab/strategy.h", "/usr/share/pkgconfig/pgrab.pc"} <= set(rpm("-qlp", rpms["pgrab-devel"]).splitlines())
    assert re.search(r"^libpq\.so\.5", rpm("-qp", "--requires", rpms["pgrab"]), re.M)
    assert rpm("-qlp", rpms["pgrab.src"]).split()[1:] == ["pgrab.spec"]


@pytest.mark.skipif(not shutil.which("rpmlint"), reason="there is no rpmlint")
def test_rpmlint_finds_nothing(rpms):
    done = subprocess.run(["rpmlint", "-s", "-r", ROOT / "packaging/rpm/rpmlintrc", *rpms.values()], capture_output=True, text=True, timeout=120, check=False)
    assert re.search(r"\b0 errors, 0 warnings\b", done.stdout), done.stdout + done.stderr


def test_installed_upgraded_and_removed(debian, rpms):
    rpm("-i", "--nodeps", rpms["pgrab"], root=debian.folder)
    version = rpm("-qp", "--qf", "%{VERSION}", rpms["pgrab"])
    assert debian.run("pgrab", "version").stdout == f"pgrab {version.replace('~dev', '-dev')}\n"
    ours = "stat -c '%U:%G %a' /etc/pgrab /etc/pgrab/main.conf /var/lib/pgrab /run/pgrab"
    wanted = ["root:pgrab 750", "root:pgrab 640", "pgrab:pgrab 750", "pgrab:pgrab 755"]
    assert debian.run(ours).stdout.splitlines() == wanted
    assert not list(debian.path("/etc/systemd/system").glob("*/pgrab*")), "nothing starts before it has settings"

    debian.path("/etc/pgrab/main.conf").write_text("workers = 3\n")
    debian.run("systemctl", "--root=/", "enable", "pgrab@x")
    rpm("-U", "--nodeps", "--force", rpms["pgrab"], root=debian.folder)
    assert debian.path("/etc/pgrab/main.conf").read_text() == "workers = 3\n"
    assert debian.run(ours).stdout.splitlines() == wanted
    assert debian.run("systemctl", "--root=/", "is-enabled", "pgrab@x").stdout == "enabled\n"

    rpm("-e", "pgrab", root=debian.folder)
    assert not debian.path("/usr/bin/pgrab").exists()
    assert sorted(path for path in left_of(debian) if not path.startswith("/var/lib/rpm")) == [
        "/etc/pgrab", "/etc/systemd/system/multi-user.target.wants/pgrab@x.service", "/run/pgrab", "/var/lib/pgrab"], "settings and what tasks wrote stay"
