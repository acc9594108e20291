"""Options that are set for a block, and threads that run at the same time."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from workbench.compiler.arrays.parallel import WAKING, spread
from workbench.knobs import knobs


def test_scopes_of_two_threads_do_not_meet():
    """Each thread leaves its scope while the other is inside of its own."""
    met, inside, after = Barrier(2, timeout=10), {}, {}

    def work(threads: int) -> None:
        with knobs.scope(threads=threads):
            met.wait()
            inside[threads] = knobs.threads
            met.wait()
        met.wait()
        after[threads] = knobs.threads

    before = knobs.threads
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (1, 2)))
    assert inside == {1: 1, 2: 2}
    assert after == {1: before, 2: before}
    assert knobs.threads == before


def test_work_shared_by_threads_keeps_the_scope():
    with knobs.scope(threads=2, progress=False):
        seen: list[bool] = []
        spread(lambda _: seen.append(knobs.progress), 2, WAKING)
    assert seen == [False, False]


def test_an_assignment_is_for_every_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(knobs, "assigned", {})
    knobs.validate = True
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: knobs.validate).result()
    with knobs.scope(validate=False):
        assert not knobs.validate
