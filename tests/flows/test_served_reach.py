"""A served run reads and writes only what an operator has listed: nothing, where nobody has."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from prefect_server import posted
from served_flow import serving
from seven_steps import plan


@pytest.mark.prefect_server
@pytest.mark.timeout(240)
def test_a_served_run_is_closed_by_default(prefect_api: str, tmp_path: Path, made_data: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret.yaml").write_text("name: hush\nsources: {hush: {uri: hush.gpkg}}\nsteps: hush\n")
    values = plan()
    for source in values["sources"].values():
        source["uri"] = str(made_data.parent / source["uri"].replace("data", made_data.name))
    with serving(prefect_api, work) as served:
        run = served.start(values, None)
        file = served.start(str(tmp_path / "secret.yaml"), None)  # type: ignore[arg-type]
        messages = {}
        for name, started in (("run", run), ("file", file)):
            served.wait_for(started, "Failed")
            messages[name] = _log(prefect_api, started)
    for name in ("parcels", "districts", "sites"):
        assert f"{made_data}/{name}" in messages["run"]
    assert "may not be read by a plan" in messages["run"]
    assert "may not be written by a plan" in messages["run"]
    assert "checkpoint store block" in messages["run"]
    assert "--allow" not in messages["run"]
    assert "may not be read by a plan" in messages["file"]
    assert "hush.gpkg" not in messages["file"]
    assert not (work / "out").exists()


def _log(api: str, run: str) -> str:
    """Return the message of a run's state, and what it logged."""
    state = httpx.get(f"{api}/flow_runs/{run}").json()["state"]
    logs = posted(f"{api}/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}})
    return str(state["message"]) + "\n".join(line["message"] for line in logs)
