"""pgrab import systemd with units as they are found: drop-ins, odd commands, what has no counterpart."""
import os
import time

import pytest
from test_import import apply, checker, imported, timer, unit  # noqa: F401


def test_drop_ins_belong_to_the_unit(db, tmp_path):
    timer(tmp_path, "OnCalendar=daily")
    for name, text in (("t.timer.d/b.conf", "[Timer]\nOnCalendar=weekly\n"), ("t.timer.d/a.conf", "[Timer]\nOnCalendar="), ("t.service.d/x.conf", "[Service]\nExecStart=\nExecStart=/bin/other\n"),
                       ("t.service.d/readme", "[Service]\nExecStart=/bin/no\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        unit(tmp_path, name, text)
    tasks, said = imported("systemd", tmp_path)
    assert [(t["schedule"], t["command"]) for t in tasks.values()] == [("0 0 * * 1", "/bin/other")] and said == ""


COMMANDS = {r"/bin/a \; b": ["/bin/a", ";", "b"], r"/bin/sh -c 'a ; b'": ["/bin/sh", "-c", "a ; b"], r"/bin/grep a\.b \d \"q\" \\ \t": ["/bin/grep", r"a\.b", r"\d", '"q"', "\\", "\t"],
            "/bin/a ; /bin/b": None, r"/bin/a \x41": None, r"/bin/a \101": None, r"/bin/a \u00e9": None}


@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_is_what_systemd_starts_or_is_left_out(tmp_path, text):
    timer(tmp_path, "OnCalendar=daily", service=f"[Service]\nType=oneshot\nExecStart={text}\n")
    tasks, said = imported("systemd", tmp_path, check=COMMANDS[text] is not None)
    if COMMANDS[text] is None:
        assert tasks == {} and "t.timer is left out: its command cannot be read" in said
    else:
        assert [tasks["t"]["command"], *tasks["t"]["args"]["argv"]] == COMMANDS[text] and said == ""


VARIABLES = {"$OPTS ${OPTS} $EMPTY end": ["-a", "-b c", '-a "-b c"', "end"], "pre$OPTS x${EMPTY}y $$OPTS": ["pre$OPTS", "xy", "$OPTS"],
             "-c 'for i in 1; do echo $i; done'": ["-c", "for i in 1; do echo $i; done"], "$NOBODY": None, "x${NOBODY}": None}


@pytest.mark.parametrize("text", VARIABLES)
def test_a_variable_is_what_systemd_makes_of_it(tmp_path, text):
    environment = "Environment='OPTS=-a \"-b c\"' EMPTY=\n"
    timer(tmp_path, "OnCalendar=daily", service=f"[Service]\n{environment}ExecStart=/bin/run {text}\n")
    tasks, said = imported("systemd", tmp_path, check=VARIABLES[text] is not None)
    if VARIABLES[text] is None:
        assert tasks == {} and "it has a variable ($) that Environment= does not set" in said
    else:
        assert tasks["t"]["args"]["argv"] == VARIABLES[text] and said == ""


def test_the_last_value_counts_and_an_empty_time_drops_all_times(tmp_path):
    timer(tmp_path, "OnUnitActiveSec=1d\nRandomizedDelaySec=1h", service="[Service]\nType=oneshot\nTimeoutStartSec=10min\nWorkingDirectory=/srv/old\nExecStart=/bin/true\n")
    for name, text in (("t.timer.d/a.conf", "[Timer]\nOnCalendar=\nOnCalendar=daily\nRandomizedDelaySec=5min\n"), ("t.service.d/x.conf", "[Service]\nTimeoutStartSec=6h\nWorkingDirectory=/srv/100%%\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        unit(tmp_path, name, text)
    tasks, _ = imported("systemd", tmp_path)
    assert [(t["schedule"], t["jitter"], t["timeout"], t["args"]["cwd"]) for t in tasks.values()] == [("0 0 * * *", "300 s", "21600 s", "/srv/100%")]
    unit(tmp_path, "t.service.d/x.conf", "[Service]\nWorkingDirectory=/srv/%N\n")
    assert "t.timer is left out: it has a specifier (%)" in imported("systemd", tmp_path, check=False)[1]


NAMED = {
    ("RandomizedDelaySec=900d", ""): "its RandomizedDelaySec= becomes 7 days, which is the most",
    ("RandomizedDelaySec=soon", ""): "its RandomizedDelaySec= is left out: it cannot be read",
    ("OnBootSec=5min\nWakeSystem=yes\nOnBootSec=6min", ""): "not carried over: OnBootSec=, WakeSystem=",
    ("", "Nice=5\nUMask=077"): "not carried over: Nice=, UMask=",
    ("", "WorkingDirectory=~"): "its WorkingDirectory= is left out: it is not a path",
    ("", "Type=oneshot\nTimeoutStartSec=900d"): None,
    ("", "RuntimeMaxSec=0.0001"): None,
    ("", 'Environment=F-O=1 9X=2 =3 "OK=4 %%"'): None,
}


@pytest.mark.parametrize("more", NAMED)
def test_a_setting_is_carried_over_or_named_and_apply_takes_what_is_left(db, tmp_path, more):
    timer(tmp_path, f"OnCalendar=daily\n{more[0]}", service=f"[Service]\nExecStart=/bin/true\n{more[1]}\n")
    tasks, said = imported("systemd", tmp_path)
    assert said == (f"pgrab import: t.timer: {NAMED[more]}\n" if NAMED[more] else "")
    apply(db, "systemd", tmp_path)
    assert tasks["t"]["args"].get("env") == ({"OK": "4 %"} if "OK" in more[1] else None)


def test_one_unit_that_cannot_be_imported_does_not_keep_the_others_out(db, tmp_path):
    for name, service in (("blank", "ExecStart=/bin/true\nExecStart=' '"), ("latin", "ExecStart=/bin/\udce9"), ("spec", "Environment=A=%h\nExecStart=/bin/true"), ("fine", "ExecStart=/bin/true")):
        timer(tmp_path, "OnCalendar=daily", name)
        (tmp_path / f"{name}.service").write_bytes(f"[Service]\n{service}\n".encode(errors="surrogateescape"))
    timer(tmp_path, "OnCalendar=daily", "many@")
    timer(tmp_path, "OnCalendar=daily\nUnit=../fine.service", "out")
    (tmp_path / "folder.timer").mkdir()
    (tmp_path / "masked.timer").symlink_to("/dev/null")
    (tmp_path / "lost.timer").symlink_to("nowhere")
    (tmp_path / "zero.timer").write_bytes(b"\0")
    os.mkfifo(tmp_path / "pipe.timer")
    began = time.monotonic()
    tasks, said = imported("systemd", tmp_path, check=False)
    assert list(tasks) == ["blank", "fine"] and time.monotonic() - began < 5
    for line in ("blank.timer, task 'blank-2', is left out: its command is empty", "latin.timer, task 'latin', is left out: it is not UTF-8",
                 "spec.timer is left out: it has a specifier", "many@.timer is left out: it is a template", "out.timer is left out: its service is not in the folder",
                 "folder.timer is left out: it cannot be read", "masked.timer is left out: it is empty, or masked", "lost.timer is left out: it cannot be read",
                 "zero.timer is left out: it cannot be read", "pipe.timer is left out: it cannot be read"):
        assert f"pgrab import: {line}" in said, said
    apply(db, "systemd", tmp_path, check=False)
    assert db.one("select count(*) from pgrab.task") == 2
