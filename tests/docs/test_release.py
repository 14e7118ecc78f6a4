"""scripts/release: what it refuses, and what it would do.  That it does it is seen at a release."""
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def git(folder, *args):
    return subprocess.run(["git", "-c", "safe.directory=*", "-c", "user.name=me", "-c", "user.email=me@pgrab.example.org", *args], cwd=folder,
                          capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path):
    """The sources as they are here, committed, ready for 7.8.9."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    paths = [path for path in git(ROOT, "ls-files", "scripts", "contrib/*/node/package.json", "contrib/*/python/pgrab_*.py").splitlines() if (ROOT / path).exists()]
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text((ROOT / path).read_text().replace('"0.1.0"', '"7.8.9"'))
        (folder / path).chmod((ROOT / path).stat().st_mode)
    (folder / "CHANGELOG.md").write_text("# Changes\n\n## 7.8.9 (not released)\n\nNews.\n\n## 7.8.8 (2026-01-01)\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "all of it")
    return folder


def release(folder, *args):
    done = subprocess.run([folder / "scripts/release", *args], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_what_it_would_do(checkout):
    before = git(checkout, "rev-parse", "HEAD")
    status, said = release(checkout, "7.8.9", "--dry-run")
    steps = [line.removeprefix("== ") for line in said.splitlines() if line.startswith("== ")]
    assert status == 0, said
    assert steps == ["scripts/check", "set_date", "clone", "package deb", "package rpm", "package clients", "package sbom", "container", "sums"]
    assert git(checkout, "rev-parse", "HEAD") == before and git(checkout, "status", "--porcelain") == ""
    assert "scripts/check" not in release(checkout, "7.8.9", "--dry-run", "--checked")[1]


@pytest.mark.parametrize("change, message", [
    (lambda folder: (folder / "new").write_text("x"), "the tree has changes"),
    (lambda folder: git(folder, "tag", "v7.8.9"), "v7.8.9 is tagged already"),
], ids=["dirty", "tagged"])
def test_what_it_refuses(checkout, change, message):
    change(checkout)
    status, said = release(checkout, "7.8.9", "--dry-run")
    assert (status, message in said) == (1, True), said


def test_the_version_is_that_of_the_changelog_and_the_libraries(checkout):
    assert release(checkout, "7.8.9-rc1")[0] == 2
    status, said = release(checkout, "7.9.0", "--dry-run")
    assert status == 1 and "the top of CHANGELOG.md is '## 7.8.9 (not released)'" in said
    (checkout / "CHANGELOG.md").write_text("## 7.9.0 (not released)\n")
    git(checkout, "commit", "-q", "-a", "-m", "top")
    status, said = release(checkout, "7.9.0", "--dry-run")
    assert status == 1 and "has another version than 7.9.0" in said


@pytest.mark.skipif(not all(map(shutil.which, ["rpmbuild", "npm", "dpkg-buildpackage"])), reason="what it builds with is not installed (scripts/deps check)")
def test_a_failed_check_ends_it(checkout):
    (checkout / "scripts/check").write_text("#!/bin/sh\necho 'these checks failed: words' >&2\nexit 1\n")
    git(checkout, "commit", "-q", "-a", "-m", "a check that fails")
    before = git(checkout, "rev-parse", "HEAD")
    status, said = release(checkout, "7.8.9")
    assert status == 1 and "these checks failed" in said
    assert git(checkout, "rev-parse", "HEAD") == before and not (checkout / "build-release").exists()
