"""The command `geocairn sweep`, on a folder and on a real S3 server."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result
from store_samples import fingerprint
from sweep_samples import commit, contents, expired, orphan

from geocairn.flows.command_line import main
from geocairn.s3 import S3Settings
from geocairn.stores import keys
from geocairn.stores.checkpoints import CheckpointStore

ONE = fingerprint("one")


@pytest.fixture
def command(store_url: str, store_settings: S3Settings | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command on the store."""
    if store_settings is not None:
        assert store_settings.access_key
        assert store_settings.secret_key
        monkeypatch.setenv("AWS_ENDPOINT_URL", store_settings.endpoint or "")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", store_settings.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store_settings.secret_key.get_secret_value())

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["sweep", "--store", store_url, *arguments])

    return run


def test_a_dry_run_tells_what_the_sweep_then_does(store: CheckpointStore, command: Any) -> None:
    made = expired(store, "one")
    kept = commit(store, "kept")
    assert made.layer is not None
    assert kept.layer is not None
    before = contents(store)
    told = command("--dry-run", "--grace", "0s", "--json")
    assert told.exit_code == 0
    assert contents(store) == before
    done = command("--grace", "0s", "--json")
    assert done.exit_code == 0
    planned, report = json.loads(told.stdout), json.loads(done.stdout)
    assert (planned["dry_run"], report["dry_run"]) == (True, False)
    assert planned["removed"] == report["removed"]
    assert [one["key"] for one in report["removed"]] == [keys.SHARED.record(ONE), made.layer.key]
    assert report["kept"]["checkpoint"]["count"] == 1
    assert set(contents(store)) == {keys.SHARED.record(kept.fingerprint), kept.layer.key}


def test_it_tells_a_person_what_went_why_and_what_stays(store: CheckpointStore, command: Any) -> None:
    expired(store, "one")
    commit(store, "kept")
    orphan(store, "two")
    told = command("--size-budget", "1kB")
    assert told.exit_code == 0
    assert "one: expired at 2020-01-08" in told.output
    assert "removed: 1 checkpoint (" in told.output
    assert "stays: 1 checkpoint, 3 layers (" in told.output
    assert "spared 2: younger than the grace period" in told.output
    assert "over the size budget" in told.output


def test_what_could_not_be_known_decides_the_exit_code(store: CheckpointStore, command: Any) -> None:
    made = expired(store, "one")
    store.objects.write(keys.run("run-1"), b"{}")  # a run that does not say what it may read
    told = command("--grace", "0s")
    assert told.exit_code == 4
    assert "left: runs/run-1.json" in told.output
    store.load(made)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--grace", "soon"], "--grace: 'soon' is not a duration"),
        (["--grace", "pinned"], "--grace: 'pinned' is not a duration"),
        (["--size-budget", "much"], "--size-budget: 'much' is not a size"),
        (["--keep-traces", "-1d"], "--keep-traces: '-1d' is not a duration"),
    ],
)
def test_what_is_not_understood_is_refused(arguments: list[str], complaint: str) -> None:
    told = CliRunner().invoke(main, ["sweep", *arguments])
    assert told.exit_code == 2
    assert complaint in told.output
    as_json = CliRunner().invoke(main, ["sweep", *arguments, "--json"])
    assert complaint in json.loads(as_json.stdout)["failure"]["message"]


def test_it_loads_neither_prefect_nor_geopandas(tmp_path: Any) -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from geocairn.flows.command_line import main\n"
        f"assert CliRunner().invoke(main, ['sweep', '--store', {str(tmp_path / 'store')!r}]).exit_code == 0\n"
        "print(sorted({'prefect', 'geopandas', 'boto3', 'pandas'} & set(sys.modules)))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
