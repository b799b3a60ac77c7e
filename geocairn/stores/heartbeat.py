"""A heartbeat: something done every so often by a thread until it is stopped or says that it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Heartbeat:
    """Calls `beat` every `interval` seconds, in a daemon thread, until `beat` returns false or `stop` is called.

    What always holds: after `stop` has returned, `beat` is not called again and no call is under way.
    """

    def __init__(self, interval: float, beat: Callable[[], bool], name: str) -> None:
        self._interval = interval
        self._beat = beat
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first beat comes after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """End, waiting for a beat that is under way."""
        self._over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            if not self._beat():
                return
