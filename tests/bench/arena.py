"""Where a comparison takes place: the built programs, the server, the contenders and the processes of the round under way."""
import os
import tempfile
from pathlib import Path

import contenders
import stage
from process import Failed, Process
from server import Server


class Arena:
    """With everything that was asked for; all of it is gone when it closes."""

    def __init__(self, args, progress, names, settings=None, pg_bin=None):
        self.args, self.progress, self.names, self.pg_bin = args, progress, names, pg_bin
        self.settings = {**(settings or {}), **dict(setting.split("=", 1) for setting in args.set)}
        self.server, self.processes, self.aside = None, [], []
        self.node_options = dict(option.split("=", 1) for option in args.node_option)
        self.logs = tempfile.TemporaryDirectory(prefix="pgrab-bench.")
        self.folder = Path(self.logs.name)

    def __enter__(self):
        try:
            self.build()
            self.progress.show("starting PostgreSQL")
            self.server = Server(self.settings, self.pg_bin)
            self.contenders = {name: contenders.KINDS[name](self) for name in self.names}
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        self.progress.show("building")
        folder = stage.build("tests/bench/floor", "tests/bench/nothing.so", *([] if self.args.bin else ["src/pgrab"]))
        self.floor, self.nothing = folder / "tests/bench/floor", folder / "tests/bench/nothing.so"
        self.pgrab = os.path.abspath(self.args.bin or folder / "src/pgrab")
        if not os.access(self.pgrab, os.X_OK):
            raise Failed(f"{self.pgrab} is not a program")
        os.environ["PGRAB_BIN"] = self.pgrab  # for whoever migrates
        if any(issubclass(contenders.KINDS[name], (contenders.Rival, contenders.JavaScript)) for name in self.names):
            self.progress.show("installing the rivals")
            self.rival = contenders.install_rivals(folder)

    def __exit__(self, *exc):
        self.kill_all()
        for process in self.aside:
            process.kill()
        if self.server:
            self.server.close()
        self.logs.cleanup()

    def start(self, name, command, **how):
        """A process of this round."""
        process = Process(command, self.folder / f"{name}.log", **how)
        self.processes.append(process)
        return process

    def start_aside(self, name, command):
        """A process that outlives a round."""
        process = Process(command, self.folder / f"{name}.log")
        self.aside.append(process)
        return process

    def kill_all(self):
        for process in self.processes:
            process.kill()
        self.processes = []
