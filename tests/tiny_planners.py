"""Planners as an installed package would declare them, for the tests: each a function of plan, step and diagnosis."""

from __future__ import annotations

import copy
import difflib
import json
from pathlib import Path
from typing import Any

ENTRY_POINTS = {
    name: f"tiny_planners:{name}" for name in ("mend", "learn", "same", "silent", "broken", "stubborn", "talk", "halve")
}


def mend(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Take the nearest column that the input has for one that it has not."""
    Path(f"diagnosis-{diagnosis['round']}.json").write_text(json.dumps(diagnosis), encoding="utf-8")
    changed = copy.deepcopy(plan)
    plan.clear()  # a planner gets copies: what it does to them is its own affair
    columns = list(diagnosis["inputs"]["layer"]["columns"])
    params = _step(changed, step)["params"]
    params["by"] = [difflib.get_close_matches(name, columns, n=1)[0] for name in params["by"]]
    return changed


def learn(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Name a parameter that there is not, and mend that when told."""
    if diagnosis["complaints"]:
        return mend(plan, step, diagnosis)
    _step(plan, step)["params"]["buy"] = ["zone"]
    return plan


def same(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Write a default out, which changes nothing."""
    _step(plan, step)["allow_empty"] = False
    return plan


def silent(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> None:
    """Know nothing."""


def broken(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> dict[str, Any]:
    raise KeyError("the planner's own mistake")


def stubborn(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Try one column after another that there is not."""
    _step(plan, step)["params"]["by"] = [f"zon{diagnosis['round']}"]
    return plan


def talk(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> str:
    return "try another column"


def halve(plan: dict[str, Any], step: str, diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Mend by changing an earlier step, adding one, and leaving one out."""
    mended = mend(plan, step, diagnosis)
    _step(mended, "reach")["params"]["distance"] = 450
    mended["steps"] = [each for each in mended["steps"] if each["name"] != "hulls"]
    mended["steps"].append({"name": "middles", "op": "centroid", "inputs": "reach"})
    mended["outputs"][1]["from"] = "middles"
    return mended


def _step(plan: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(step for step in plan["steps"] if step["name"] == name)
    return found


def install(folder: Path) -> Path:
    """Lay this module out in a folder as an installed distribution, and return the folder."""
    folder.mkdir()
    (folder / "tiny_planners.py").write_text(Path(__file__).read_text("utf-8"), encoding="utf-8")
    (folder / "never_declared.py").write_text("open('imported', 'w').close()\ndef plan(*_): ...\n", encoding="utf-8")
    about = folder / "tiny_planners-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-planners\nVersion: 1.0\n", encoding="utf-8")
    lines = ["[geocairn.planners]", *(f"{name} = {value}" for name, value in ENTRY_POINTS.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
