"""Termination: what a step holds is given back as soon as the process is told to end, by SIGTERM or a closed terminal.

A flow run that is cancelled is sent SIGTERM. Prefect then lets steps in worker threads finish before the process
ends, and kills it after a while; a lease must not wait for that, nor count as a death. What always holds: Prefect's
own handler runs after ours, and nothing is done where there is none.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from geocairn.stores.leases import release_all

_HANG_UP = getattr(signal, "SIGHUP", None)
"""A closed terminal; there is none on Windows."""

PATIENCE = 5.0
"""Seconds that giving leases back may hold up the end of the process."""


def heed_termination() -> None:
    """Have this process give its leases back on SIGTERM, while a flow run is in its main thread, and on SIGHUP."""
    if threading.current_thread() is not threading.main_thread():
        return
    standing = signal.getsignal(signal.SIGTERM)
    if callable(standing) and not isinstance(standing, _Handler):
        signal.signal(signal.SIGTERM, _Handler(standing))
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) is signal.SIG_DFL:
        signal.signal(_HANG_UP, _Handler(None))


class _Handler:
    """Gives leases back, then does what the handler before does. Prefect removes it with its own at the flow's end."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.process = os.getpid()

    def __call__(self, number: int, frame: Any) -> Any:
        if os.getpid() == self.process:  # a forked child holds nothing, whatever it has inherited
            self._release()
        if self.before is not None:
            return self.before(number, frame)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return None

    def _release(self) -> None:
        # In a thread: the signal may have come while this one was in the midst of taking or giving back a lease.
        release = threading.Thread(target=release_all, name="leases given back", daemon=True)
        release.start()
        release.join(PATIENCE)
