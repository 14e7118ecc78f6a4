"""The other half of an upgrade: a program with a migration more, or that of the release before.

The first is linked from what scripts/build has made, with other texts: seconds.  The second is built from its tag.
"""
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from cluster import ROOT, pgrab_bin

COLUMN = {
    "0002_colour.sql": """-- Breaking: no.
alter table pgrab.task add column colour text;
comment on column pgrab.task.colour is 'What it looks like.';
create table pgrab.colour (colour text not null, constraint colour_pkey primary key (colour));
insert into pgrab.colour values ('red'), ('blue');
""",
    "api/37_colour.sql": """
create or replace view pgrab.colours with (security_invoker = true) as
select t.id, t.colour from pgrab.task t where t.colour is not null;
create or replace function pgrab_internal.colours() returns setof text language sql as $$ select c.colour from pgrab.colour c $$;
do $$ begin if to_regclass('public.slow') is not null then perform pg_sleep(7); end if; end $$;
""",
}
"""A version that old nodes can work with: a column, a table, a view and a function more.  Slow to apply where there is public.slow."""
BREAKING = {**COLUMN, "0003_shape.sql": "-- Breaking: yes\nalter table pgrab.colour add column shape text;\n"}
"""One that they cannot work with, or so it says."""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def build_folder():
    """Where the program under test was linked; None when it is only a program."""
    folder = Path(pgrab_bin()).resolve().parents[1]
    return folder if (folder / "build.ninja").exists() else None


def next_version(folder, version, files):
    """This program as that version, with more migrations."""
    build = build_folder()
    if build is None:
        build = folder.parent / "build"
        if not build.exists():
            run("meson", "setup", "-Dtests=false", build, ROOT)
            run("meson", "compile", "-C", build, "pgrab")
    shutil.copytree(ROOT / "migrations", folder / "migrations")
    for name, text in files.items():
        (folder / "migrations" / name).write_text(text)
    run("python3", ROOT / "src/db/embed.py", folder / "sql.c", ROOT / "src/db/sql", folder / "migrations")
    (folder / "version.c").write_text(f'#include "base/version.h"\nconst char *version_text(void) {{ return "{version}"; }}\n')
    link = run("ninja", "-C", build, "-t", "commands", "src/pgrab").splitlines()[-1]
    link, linked = re.subn(r"-o src/pgrab (\S+main\.c\.o)", lambda m: f"-o {shlex.quote(str(folder / 'pgrab'))} {m[1]} {objects(folder)}", link)
    assert linked == 1, link
    run("sh", "-c", link, cwd=build)
    return folder / "pgrab"


def objects(folder):
    """Named before the libraries, so that these are taken and not what the libraries have."""
    made = []
    for source in ("sql.c", "version.c"):
        made.append(folder / source.replace(".c", ".o"))
        run(*shlex.split(os.environ.get("CC", "cc")), "-fPIC", "-I", ROOT / "src", "-c", folder / source, "-o", made[-1])
    return shlex.join(map(str, made))


def last_release():
    """The newest tag below HEAD, or None."""
    done = subprocess.run(["git", "-c", "safe.directory=*", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def released(tag, folder):
    """The program of a release, from its sources."""
    tree = folder / "tree"
    tree.mkdir()
    packed = subprocess.run(["git", "-c", "safe.directory=*", "archive", tag], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", tree, "-xf", "-"], input=packed, check=True)
    run("meson", "setup", "-Dtests=false", tree / "build", tree, env={**os.environ, "PGRAB_VERSION": tag[1:]})
    run("meson", "compile", "-C", tree / "build", "pgrab", env={**os.environ, "PGRAB_VERSION": tag[1:]})
    return tree / "build/src/pgrab"
