"""Fixtures of the package's tests: those of the system tests, and a clean Debian in which the package is installed."""
import concurrent.futures
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SYSTEM = Path(__file__).resolve().parents[1] / "system"
sys.path.insert(0, str(SYSTEM))
spec = importlib.util.spec_from_file_location("system_conftest", SYSTEM / "conftest.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
globals().update({name: value for name, value in vars(module).items() if not name.startswith("__")})

from cluster import ROOT, wait_until  # noqa: E402

# Mounts are seen by the command alone, and are gone with it.
ENTER = """mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && mount --bind /sys "$0/sys" && exec chroot "$0" "$@" """


def make(*args, under=()):
    """The last path that scripts/package prints, called by a command or not."""
    done = subprocess.run([*under, ROOT / "scripts/package", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.splitlines()[-1])


class Debian:
    """A copy of the clean root.  Its network is this machine's."""

    def __init__(self, folder, environment=None):
        self.folder = Path(folder)
        self.processes = []
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
                    "DEBIAN_FRONTEND": "noninteractive", "MANPAGER": "cat", "TZ": "UTC", **(environment or {})}

    def popen(self, *command, **options):
        process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, str(self.folder), *map(str, command)],
                                   stdin=subprocess.DEVNULL, env=self.env, start_new_session=True, **options)
        self.processes.append(process)
        return process

    def run(self, *command, check=True, timeout=180):
        """Runs a command in it as root; a single text is a script of sh."""
        if len(command) == 1:
            command = ("sh", "-euc", command[0])
        process = self.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = process.communicate(timeout=timeout)
        done = subprocess.CompletedProcess(command, process.returncode, out, err)
        assert not check or done.returncode == 0, f"{command} ended with {done.returncode}:\n{out}{err}"
        return done

    def install(self, *debs):
        for deb in debs:
            shutil.copy(deb, self.folder / "tmp")
        return self.run("apt-get", "install", "-q", "-y", "--no-install-recommends", *(f"/tmp/{deb.name}" for deb in debs))

    def path(self, name):
        return self.folder / name.lstrip("/")

    def node(self, instance="main"):
        """What systemd would start."""
        unit = next(self.folder.glob("*/lib/systemd/system/pgrab@.service"), self.path("/lib/systemd/system/pgrab@.service")).read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1].replace("%i", instance)
        user = re.search(r"^User=(.*)$", unit, re.M)[1]
        log = open(self.path(f"/var/log/pgrab-{instance}.log"), "ab")
        with log:
            process = self.popen("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *command.split(), stdout=log, stderr=log)
        return process

    def log(self, instance="main"):
        return self.path(f"/var/log/pgrab-{instance}.log").read_text()

    def stop(self, process, timeout=60):
        """What systemd would do; returns the exit status."""
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                wait_until(lambda p=process: p.poll() is not None, 60, "the end of a process in the clean root")


def left_of(debian):
    """The files with our name, but for those that tell of the past and those that the tests brought."""
    found = debian.run("find / -xdev -path /proc -prune -o -name '*pgrab*' -print").stdout.splitlines()
    return [path for path in found if not re.match(r"/(tmp|var/cache/apt|var/log|var/lib/dpkg|dev|sys|proc)/", path)]


@pytest.fixture(scope="session")
def making():
    """What scripts/package makes, both at once: one waits for the network, the other for the compiler."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        wanted = ["root"] * (os.getuid() == 0) + ["deb"] * (not os.environ.get("PGRAB_DEB"))
        yield {what: pool.submit(make, what) for what in wanted}


@pytest.fixture(scope="session")
def clean_root(making):
    if "root" not in making:
        pytest.skip("a clean root is made by root")
    return making["root"].result()


@pytest.fixture(scope="session")
def deb(making):
    return making["deb"].result() if "deb" in making else Path(os.environ["PGRAB_DEB"])


@pytest.fixture(scope="session")
def older_deb(deb, tmp_path_factory):
    """The same package as one of an earlier version."""
    folder = tmp_path_factory.mktemp("older")
    subprocess.run(["dpkg-deb", "-R", deb, folder / "tree"], check=True)
    control = folder / "tree/DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", "Version: 0.0.1", control.read_text(), flags=re.M))
    older = folder / re.sub(r"_.*_", "_0.0.1_", deb.name)
    subprocess.run(["dpkg-deb", "-b", folder / "tree", older], check=True, stdout=subprocess.DEVNULL)
    return older


@contextlib.contextmanager
def copy(of, at):
    """A Debian like the one in a folder: a layer above it where the kernel can do that, else a copy."""
    folder, layer = at / "root", at / "layer"
    for path in folder, layer / "upper", layer / "work":
        path.mkdir(parents=True)
    layered = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={of},upperdir={layer}/upper,workdir={layer}/work", folder],
                             capture_output=True, check=False).returncode == 0
    if not layered:
        subprocess.run(["cp", "-aT", "--reflink=auto", of, folder], check=True)
    root = Debian(folder)
    try:
        yield root
    finally:
        root.end()
        if layered:
            subprocess.run(["umount", folder], check=True)
        subprocess.run(["rm", "-rf", "--one-file-system", folder, layer], check=True)


@pytest.fixture
def fresh_debian(clean_root, tmp_path):
    """As it comes from Debian: what the package needs is downloaded and not installed."""
    with copy(clean_root, tmp_path) as root:
        yield root


@pytest.fixture(scope="session")
def furnished_root(clean_root, deb, tmp_path_factory):
    """With all that the package needs, so that not every test has to wait for that."""
    with copy(clean_root, tmp_path_factory.mktemp("furnished")) as root:
        root.install(deb)
        root.run("apt-get", "purge", "-q", "-y", "pgrab")
        yield root.folder


@pytest.fixture
def debian(furnished_root, tmp_path):
    with copy(furnished_root, tmp_path) as root:
        yield root
