"""Runs of the command line, each in a process of its own that is forked from one which has loaded everything.

Loading Prefect and geopandas takes three seconds, forking a process that has loaded them none. `Runs` is the side of
the tests; run as a program, this file is the process that forks. It has one thread, so that its children are sound.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOADED = (
    *("boto3", "s3fs", "fastapi", "graphviz", "geopandas", "pyarrow.csv", "pyarrow.fs", "pyarrow.parquet", "pyogrio"),
    *("prefect.engine", "prefect.flow_engine", "prefect.task_engine", "prefect.concurrency.sync"),
    *("geocairn.flows.run_chain", "geocairn.flows.local_run", "geocairn.gate", "geocairn.globe"),
    *("geocairn.sources.geoparquet", "geocairn.sources.publish", "geocairn.sources.vector", "geocairn.sources.writing"),
    *("geocairn.stores.layers", "geocairn.stores.s3"),
)
"""What a run loads sooner or later."""

Interference = tuple[str, Mapping[str, Any]]
"""The name of a function in `interference`, and its arguments."""


@dataclass
class Ended:
    """A run that has ended."""

    code: int
    """Its exit code; the signal that killed it as a negative number."""
    stdout: str
    stderr: str
    log: list[str] = field(default_factory=list)
    """What it did: see `interference.watch`."""

    @property
    def answer(self) -> dict[str, Any]:
        """The one JSON object that it printed."""
        try:
            found: dict[str, Any] = json.loads(self.stdout)
        except ValueError:
            raise AssertionError(f"exit code {self.code}; no answer in: {self.stdout!r}\n{self.stderr}") from None
        return found

    def did(self, verb: str) -> list[str]:
        """What was computed, loaded, read or published, in order."""
        return [line.partition(" ")[2] for line in self.log if line.startswith(verb + " ")]

    @property
    def computed(self) -> list[str]:
        """The steps whose operation was called, sorted."""
        return sorted(self.did("compute"))

    def outcomes(self) -> dict[str, str]:
        return {step["name"]: step["outcome"] for step in self.answer["steps"]}


class Running:
    """A run that was started."""

    def __init__(self, runs: Runs, pid: int, folder: Path) -> None:
        self.runs, self.pid, self.folder = runs, pid, folder

    def wait(self) -> Ended:
        """Wait for its end."""
        status = self.runs.ask({"do": "wait", "pid": self.pid})["status"]
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        texts = [(self.folder / name).read_text("utf-8") for name in ("stdout", "stderr")]
        log = self.folder / "log"
        return Ended(code, *texts, log=log.read_text("utf-8").splitlines() if log.exists() else [])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class Runs:
    """Starts runs."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="geocairn-runs-"))
        self.count = 0
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )

    def start(
        self,
        arguments: Sequence[str],
        cwd: Path,
        *,
        environment: Mapping[str, str] | None = None,
        interference: Sequence[Interference] = (),
    ) -> Running:
        """Start `geocairn ARGUMENTS` in a folder."""
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        request = {
            "do": "start",
            "folder": str(folder),
            "arguments": list(arguments),
            "cwd": str(cwd),
            "environment": dict(environment or {}),
            "interference": [[name, dict(given)] for name, given in interference],
        }
        return Running(self, self.ask(request)["pid"], folder)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process that forks runs has ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


def _serve() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    for name in LOADED:
        importlib.import_module(name)
    from geocairn.operations import operations

    assert len(operations)  # finds them all
    gc.collect()
    gc.freeze()  # a collection in a child would copy all that it shares with this process
    answers = os.fdopen(os.dup(1), "w")
    # Read byte-wise: a buffer of standard input would be shared with the children.
    requests = os.fdopen(os.dup(0), "r")
    for line in iter(requests.readline, ""):
        request = json.loads(line)
        if request["do"] == "wait":
            answer = {"status": os.waitpid(request["pid"], 0)[1]}
        else:
            pid = os.fork()
            if pid == 0:
                _run(request)
            answer = {"pid": pid}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _run(request: Mapping[str, Any]) -> None:
    """Be a run: the end of this process is the run's."""
    folder = Path(request["folder"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.argv = ["geocairn", *request["arguments"]]
    import interference

    interference.watch(str(folder / "log"))
    for name, given in request["interference"]:
        getattr(interference, name)(**given)
    from geocairn.flows.command_line import main

    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    # What the interpreter does at its end, but for taking down a thousand modules.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
