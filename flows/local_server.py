"""The Prefect server of local runs: on loopback, in a session of its own, left running for the next run.

Bringing a server up takes ten seconds; a run against one that is up takes four. So the first local run starts one and
says so, and `geocairn dev` shows and stops it. What always holds: a server that the user's own settings name is used
instead; two runs that start at once share one server; it listens on loopback only. Loads no Prefect, so that its
start overlaps with Prefect's import.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from geocairn.failure import TransientFailure

START_SECONDS = 90.0
_STATE_FILE = "geocairn-server.json"


@dataclass(frozen=True)
class LocalServer:
    """A server that was started for local runs."""

    pid: int
    port: int
    url: str
    """Of its API."""

    @property
    def ui(self) -> str:
        """Where a browser sees it."""
        return self.url.removesuffix("/api")


def prefect_home() -> Path:
    """Return Prefect's folder, where its database and this server's state are."""
    return Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")


def stated_api_url() -> str | None:
    """Return the API that the user's own settings name: `PREFECT_API_URL`, or the active profile's."""
    stated = os.environ.get("PREFECT_API_URL")
    if stated is not None:
        return stated or None
    try:
        profiles = tomllib.loads((prefect_home() / "profiles.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    name = os.environ.get("PREFECT_PROFILE") or profiles.get("active")
    profile = profiles.get("profiles", {}).get(name, {})
    url = profile.get("PREFECT_API_URL")
    return str(url) if url else None


def running_server() -> LocalServer | None:
    """Return the local server if it is up and healthy."""
    server = _state()
    return server if server is not None and healthy(server.url) else None


def healthy(url: str, timeout: float = 2.0) -> bool:
    """Return whether a Prefect API answers at `url`."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=timeout) as answer:  # noqa: S310 - http only
            return int(answer.status) == 200
    except (OSError, urllib.error.URLError, ValueError):
        return False


def launch() -> tuple[LocalServer, bool]:
    """Start the local server if it is not up; return it, and whether this call started it. Does not wait for it."""
    with _locked():
        server = _state()
        if server is not None and (healthy(server.url) or _starting(server)):
            return server, False
        server = _start()
        _state_path().write_text(json.dumps(asdict(server)), encoding="utf-8")
        return server, True


def wait_until_healthy(server: LocalServer, seconds: float = START_SECONDS) -> None:
    """Wait for a server that is starting.

    Raises
    ------
    TransientFailure : when it does not answer in time, with the place of its log.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if healthy(server.url):
            return
        if not _alive(server.pid):
            break
        time.sleep(0.1)
    raise TransientFailure(
        "the local Prefect server did not come up",
        where=server.url,
        remedy=f"its log is {_log_path()}; `geocairn dev --stop` clears it away",
    )


def stop() -> LocalServer | None:
    """Stop the local server; return what was stopped, None where none was running."""
    with _locked():
        server = _state()
        _state_path().unlink(missing_ok=True)
        if server is None or not _is_ours(server.pid):
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
        end = time.monotonic() + 10
        while _alive(server.pid) and time.monotonic() < end:
            time.sleep(0.1)
        if _alive(server.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGKILL)
        return server


def _start() -> LocalServer:
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = {
        **os.environ,
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_UI_API_URL": url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning", "--timeout-keep-alive", "5"]
    with _log_path().open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=prefect_home(),
            start_new_session=True,
        )
    return LocalServer(process.pid, port, url)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _state_path() -> Path:
    return prefect_home() / _STATE_FILE


def _log_path() -> Path:
    return prefect_home() / "geocairn-server.log"


def _state() -> LocalServer | None:
    try:
        return LocalServer(**json.loads(_state_path().read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _starting(server: LocalServer) -> bool:
    """Return whether it is a server of ours that another run started a moment ago."""
    try:
        age = time.time() - _state_path().stat().st_mtime
    except OSError:
        return False
    return _is_ours(server.pid) and age < START_SECONDS


def _alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not waited for does not."""
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_ours(pid: int) -> bool:
    """Return whether a process is the server that we started, and not another that got its number."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return _alive(pid) and not Path("/proc").exists()
    return b"prefect.server.api.server:create_app" in command


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    home = prefect_home()
    home.mkdir(parents=True, exist_ok=True)
    with (home / "geocairn-server.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
