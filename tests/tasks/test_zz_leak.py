import gc, sys, types
sys.path.insert(0,"/work/main/tests/tasks")
from pathlib import Path
from prefect import flow
from flow_samples import metric
from geocairn.tasks import buffer, runs
def test_leak(place):
    @flow
    def f(d): return buffer(metric(), distance=d)
    for i in range(4):
        f(1.0+i)
    gc.collect(); gc.collect()
    runs.remove_what_ended()
    from prefect.client.schemas.objects import FlowRun
    alive=[o for o in gc.get_objects() if isinstance(o, FlowRun)]
    print(len(alive), len(runs._runs))
    def chain(o, depth=0, seen=set()):
        if depth>7: return
        for r in gc.get_referrers(o):
            if id(r) in seen or isinstance(r, types.FrameType) or r is alive: continue
            seen.add(id(r))
            print("  "*depth, type(r), repr(r)[:150].replace("\n"," "))
            chain(r, depth+1)
    for o in alive[-1:]: chain(o)
    assert 0
