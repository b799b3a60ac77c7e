"""Workers that die over a step: counted by backend, and after two of them the next backend is taken."""

from __future__ import annotations

from chains import Chain

DIES = [("kill_in_step", {"step": "reach"})]


def counts(chain: Chain, run_id: str) -> dict[str, dict[str, int]]:
    import json

    trace = json.loads(chain.command("trace", run_id, "--store", chain.store_url, "--json"))
    found: dict[str, dict[str, int]] = trace["counts"]
    return found


def test_after_two_deaths_a_step_starts_on_the_next_backend(folder_chain: Chain) -> None:
    for _ in range(2):
        assert folder_chain.run(code=None, interference=DIES).code not in (0, 1, 2, 3, 4)
    answer = folder_chain.run().answer
    (reach,) = [step for step in answer["steps"] if step["name"] == "reach"]
    assert (reach["outcome"], reach["backend"]) == ("computed", "duckdb")
    (attempt,) = reach["attempts"]
    assert attempt["class"] == "capability"
    assert "2 workers died computing it on geopandas" in attempt["error"]
    assert answer["caveats"] == []
    assert counts(folder_chain, answer["run_id"])["reach"] == {"deaths": 1, "reroutes": 1}
    # The deaths outlive the lease: with one backend left it halts, with the remedy, and nothing is lost.
    folder_chain.step("reach")["backends"] = ["geopandas"]
    assert folder_chain.run().answer["unchanged"]


def test_one_death_is_taken_over_on_the_same_backend(folder_chain: Chain) -> None:
    folder_chain.run(code=None, interference=DIES)
    answer = folder_chain.run().answer
    (reach,) = [step for step in answer["steps"] if step["name"] == "reach"]
    assert (reach["backend"], reach["attempts"]) == ("geopandas", [])
    assert counts(folder_chain, answer["run_id"]) == {"reach": {"deaths": 1}}


def test_with_no_backend_left_it_halts_with_the_remedy(folder_chain: Chain) -> None:
    folder_chain.step("reach")["backends"] = ["geopandas"]
    for _ in range(2):
        folder_chain.run(code=None, interference=DIES)
    failure = folder_chain.run(code=1).answer["failure"]
    assert (failure["step"], failure["class"]) == ("reach", "capability")
    assert "give it more memory or less data" in failure["message"]
    # As the remedy says: when the count is deleted, it is tried again.
    key = failure["message"].partition("the object ")[2].partition(" ")[0]
    folder_chain.store.objects.delete(key)
    assert folder_chain.run().answer["status"] == "completed"
