import time
def test_it(chain, right_outputs):
    t=time.time()
    e=chain.run()
    print(time.time()-t, e.log, e.stderr)
    t=time.time()
    e=chain.run()
    print(time.time()-t, e.log, e.answer["unchanged"], e.answer["seconds"])
    t=time.time()
    e=chain.run("--record")
    print(time.time()-t, e.log, e.outcomes())
    assert chain.outputs()==right_outputs
    t=time.time()
    print(chain.to_compute(), time.time()-t)
    from forked_runs import Runs
    t=time.time()
    e=chain.run("--set","reach.distance=800",interference=[("kill_in_step",{"step":"covered"})], code=-9)
    print(time.time()-t, e.log, chain.committed())
