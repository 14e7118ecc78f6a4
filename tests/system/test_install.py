"""What `meson install` puts where: the program, its manual, the unit, and completions that know the database."""
import os
import re
import shutil
import subprocess

import pytest
from cluster import ROOT, clean_env, pgrab_bin, run_pgrab

PAGES = ["man1/pgrab.1", "man5/pgrab.conf.5", "man7/pgrab.7"]


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The root of an installation below /usr."""
    build = os.path.dirname(os.path.realpath(pgrab_bin()))
    build = os.path.dirname(build) if os.path.basename(build) == "src" else build
    root = tmp_path_factory.mktemp("installed")
    done = run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root)
    assert done.returncode == 0, done.stderr
    prefix = run("meson", "introspect", build, "--buildoptions").stdout
    prefix = re.search(r'"name": "prefix", "value": "([^"]*)"', prefix)[1]
    return root / prefix.lstrip("/")


def test_everything_is_installed(installed):
    for name in ["bin/pgrab", "include/pgrab/strategy.h", "include/pgrab/executor.h",
                 "lib/systemd/system/pgrab@.service", "lib/sysusers.d/pgrab.conf", "lib/tmpfiles.d/pgrab.conf",
                 "share/doc/pgrab/examples/pgrab.conf", "share/bash-completion/completions/pgrab",
                 "share/zsh/site-functions/_pgrab", "share/pkgconfig/pgrab.pc", *("share/man/" + page for page in PAGES)]:
        assert (installed / name).is_file(), name
    assert run(installed / "bin/pgrab", "version").stdout == run_pgrab("version").stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_manual_is_without_faults(installed, page):
    path = installed / "share/man" / page
    assert run("man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", path).stderr == ""
    if shutil.which("mandoc"):
        # Made anew at each build, it has no date of its own.
        faults = run("mandoc", "-Tlint", "-Wwarning", path).stdout.splitlines()
        assert [f for f in faults if "missing date" not in f] == []


def text_of(installed, page):
    return run("man", "-E", "ascii", "-P", "cat", "-l", installed / "share/man" / page,
               env=clean_env(MANWIDTH="2000", MAN_KEEP_FORMATTING="")).stdout


def test_the_manual_says_what_help_says(installed):
    page = text_of(installed, "man1/pgrab.1")
    commands = re.findall(r"^  ([a-z-]+) ", run_pgrab("help").stdout, re.M)
    assert len(commands) > 30
    for command in commands:
        assert f"pgrab {command}" in page
        for flag in re.findall(r"--[a-z-]+", run_pgrab("help", command).stdout):
            assert command == "run" or flag in page, (command, flag)
    settings = text_of(installed, "man5/pgrab.conf.5")
    for flag in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", run_pgrab("help", "run").stdout, re.M):
        assert flag == "config" or f" {flag.replace('-', '_')} = " in settings, flag
    owner, pool = settings.split("KEYS OF [owner NAME]")[1].split("KEYS OF [pool NAME]")
    assert " directory = " in owner and " run_as = " in owner and " processes = " not in owner
    assert " processes = " in pool and " run_as = " in pool
    sections = re.search(r"sections;.*", run_pgrab("help", "run").stdout, re.S)[0]
    assert {"[owner NAME]", "[pool NAME]"} <= set(re.findall(r"\[\w+ NAME\]", sections))
    for key in re.findall(r"(\w+)[,\n ]", sections.split("conf.", 1)[1].replace("NAME]", "")):
        assert key in ("owner", "pool") or f" {key} = " in settings, key


def test_the_manual_describes_the_schema(installed, db):
    page = text_of(installed, "man7/pgrab.7")
    for (column,) in db.query("select attname from pg_attribute where attrelid = 'pgrab.task'::regclass and attnum > 0 and not attisdropped"):
        assert re.search(rf"^ +{column}( |$)", page, re.M), column
    for (view,) in db.query("select oid::regclass::text from pg_class where relkind = 'v' and relnamespace = 'pgrab'::regnamespace"):
        assert f"{view}\n" in page or f"{view} " in page, view
    for (function,) in db.query("select p.oid::regproc::text from pg_proc p where pronamespace = 'pgrab'::regnamespace and prorettype <> 'trigger'::regtype"):
        assert f"{function}(" in page, function


def test_the_libraries_for_handlers_are_there(installed):
    for library in ("python/pgrab_handler.py", "node/pgrab-handler.mjs"):
        assert (installed / "share/pgrab/handlers" / library).read_text() == (ROOT / "contrib/handlers" / library).read_text()


def test_the_example_is_a_configuration(installed, tmp_path, db):
    text = (installed / "share/doc/pgrab/examples/pgrab.conf").read_text()
    assert not re.search(r"^[^#\n]", text, re.M)
    # Every default that it shows is one that the program takes; what is no setting of that kind is left out.
    config = tmp_path / "all.conf"
    config.write_text(re.sub(r"^#(\w+ = .+|\[.+\])$", r"\1", text, flags=re.M) + "\n[pgrab]\nworkers = none\n")
    done = run_pgrab("run", "--config", config, check=False)
    assert done.returncode == 2 and "workers cannot be" in done.stderr, done.stderr


def test_the_unit_is_one_that_systemd_takes(installed):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    unit = (installed / "lib/systemd/system/pgrab@.service").read_text()
    here = installed / "pgrab@test.service"
    here.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={installed}/bin/pgrab", unit, flags=re.M))
    done = run("systemd-analyze", "verify", "--man=no", here)
    assert (done.returncode, done.stderr) == (0, "")
    # 0 is a service that may do nothing, 10 one that may do all; a plain unit has 9.6.
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=40", "--no-pager", here)
    assert done.returncode == 0, done.stdout
    for line in ["User=pgrab", "OOMPolicy=continue", "Delegate=yes", "KillMode=process", "NoNewPrivileges=yes", "WantedBy=multi-user.target"]:
        assert f"\n{line}\n" in unit


BASH = """
[ ! -f /usr/share/bash-completion/bash_completion ] || . /usr/share/bash-completion/bash_completion
. "$1"; shift
COMP_LINE="${LINE-$*}"; COMP_POINT=${#COMP_LINE}
COMP_WORDS=(); for w in "$@"; do COMP_WORDS+=("$w"); done
COMP_CWORD=$(($# - 1))
compopt() { :; }
_pgrab
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(installed):
    def in_bash(*words, dsn="host=/nowhere", cwd=None, **env):
        done = run("bash", "-c", BASH, "bash", installed / "share/bash-completion/completions/pgrab", installed / "bin/pgrab",
                   *words, env=clean_env(PGRAB_DSN=dsn, **env), cwd=cwd)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split("\n")[:-1]
    return in_bash


def test_bash_completes_commands_and_options(complete, tmp_path):
    assert complete("ch") == ["chains"]
    assert "run-now" in complete("") and "__complete" not in complete("")
    assert complete("runs", "--out") == ["--outcome"]
    assert complete("runs", "--outcome", "s") == ["succeeded", "skipped"]
    assert complete("resolve", "17", "") == ["succeeded", "failed"]
    assert complete("run", "--log-level", "") == ["debug", "info", "warn", "error"]
    assert complete("blackout", "") == ["add", "list", "remove"]
    assert complete("help", "un") == ["undelete", "undrain"]
    assert complete("nonsense", "") == [""]
    (tmp_path / "tasks.json").touch()
    assert complete("apply", "ta", cwd=tmp_path) == ["tasks.json"]
    assert complete("run", "--config", "ta", cwd=tmp_path) == ["tasks.json"]


def test_bash_completes_what_the_database_knows(complete, db, nodes):
    nodes.start("web-1")
    task = db.add(command="select 1", run_at="2100-01-01")
    db.add(key="nightly", command="select 1", schedule="@yearly")
    db.add(key="etl:load", command="select 1", schedule="@yearly", source="etl")
    db.add(name="two words", command="select 1", run_at="2100-01-01")
    db.query("insert into pgrab.limit (key, max_running) values ('api', 1)")
    db.query("insert into pgrab.blackout (name, schedule, lasts) values ('weekend', '@weekly', '1 h')")
    assert complete("show", "ni", dsn=db.dsn) == ["nightly"]
    assert complete("pause", "nightly", "tw", dsn=db.dsn) == ["two\\ words"]
    assert complete("cancel", str(task), dsn=db.dsn) == [str(task)]
    assert str(task) in complete("explain", "", dsn=db.dsn)
    assert complete("drain", "", dsn=db.dsn) == ["web-1"]
    assert complete("runs", "--node", "w", dsn=db.dsn) == ["web-1"]
    assert complete("runs", "--key", "n", dsn=db.dsn) == ["nightly"]
    assert complete("tasks", "--source", "", dsn=db.dsn) == ["etl"]
    assert complete("limit", "", dsn=db.dsn) == ["api"]
    assert complete("blackout", "remove", "", dsn=db.dsn) == ["weekend"]
    assert complete("blackout", "add", "w", dsn=db.dsn) == [""]
    assert "shell" in complete("add", "--kind", "s", dsn=db.dsn)
    assert complete("add", "--key", "n", dsn=db.dsn) == [""]  # a new one
    assert complete("show", "--dsn", db.dsn, "ni") == ["nightly"]
    db.add(key="release", kind="noop", wait_for="approved")
    db.add(kind="batch", command="")
    assert complete("signal", "release", "", dsn=db.dsn) == ["approved"]


def test_bash_replaces_only_its_own_part_of_a_word(complete, installed, db):
    db.add(key="etl:load", command="select 1", schedule="@yearly")
    # bash hands over etl:lo as three words, and replaces the last one.
    if os.path.exists("/usr/share/bash-completion/bash_completion"):
        line = f"{installed}/bin/pgrab show etl:lo"
        assert complete("show", "etl", ":", "lo", dsn=db.dsn, LINE=line) == ["load"]
    out = run_pgrab("__complete", "show", "etl:lo", dsn=None, env={"PGRAB_DSN": db.dsn}).stdout
    assert out == "etl:load\n"
    out = run_pgrab("__complete", "runs", "--key=etl:", env={"PGRAB_DSN": db.dsn}).stdout
    assert out == "--key=etl:load\n"


def test_nothing_is_said_when_the_database_cannot_be_reached(complete):
    assert complete("show", "") == [""]
    assert complete("drain", "", dsn="host=127.0.0.1 port=1") == [""]


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here")
def test_zsh_completes(installed, db):
    db.add(key="nightly", command="select 1", schedule="@yearly")
    script = f"""
    compadd() {{ shift; print -l "${{(@P)1}}" }}
    _files() {{ print FILES }}
    try() {{ local -a words; words=({installed}/bin/pgrab "$@"); local CURRENT=$#words; source {installed}/share/zsh/site-functions/_pgrab }}
    try show ni; try ch; try apply ''; try nonsense ''
    """
    done = run("zsh", "-fc", script, env=clean_env(PGRAB_DSN=db.dsn))
    assert (done.stdout, done.stderr) == ("nightly\nchains\nFILES\n", "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze (systemd) is not installed")
@pytest.mark.parametrize("unit", ["pgrab@.service", "pgrab-serve.service"])
def test_units_are_no_more_exposed_than_the_docs_say(installed, unit):
    said = re.search(rf"^\| `{re.escape(unit)}` \| ([0-9.]+) \|", (ROOT / "docs/security.md").read_text(), re.M)[1]
    done = run("systemd-analyze", "security", "--offline=true", f"--threshold={round(float(said) * 10)}", "--no-pager",
               installed / "lib/systemd/system" / unit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{unit.replace('@', '@i')}: {said} " in done.stdout, "docs/security.md says another figure"
