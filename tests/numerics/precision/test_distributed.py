"""Trials on a cluster of processes, by the client of Dask; a worker that is killed loses nothing."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, Future, KilledWorker, LocalCluster

import workbench as wb
from tests.numerics.precision.test_sensitivity import CULPRIT, inputs, network
from workbench.numerics.precision.trials import measure


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two processes of one thread each, and a scheduler here; nothing listens beyond this machine."""
    options = {"distributed.nanny.environ": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}}
    with (
        dask.config.set(options),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
        ) as made,
    ):
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as made:
        yield made


class Killing:
    """A client of which one trial kills the worker that measures it."""

    def __init__(self, client: Client, trial: int, killed: Path, always: bool = False) -> None:
        self.client, self.trial, self.killed, self.always = client, trial, killed, always
        self.scatter = client.scatter
        self.trials: list[tuple[Any, ...]] = []

    def submit(self, fn: Callable[..., Any], *args: Any) -> Any:
        self.trials += [args] if fn is measure else []
        if fn is not measure or len(self.trials) != self.trial:
            return self.client.submit(fn, *args)
        killed, always = self.killed, self.always

        def killing(*given: Any) -> Any:
            if always or not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return fn(*given)

        return self.client.submit(killing, *args)


def test_a_cluster_measures_the_same(client: Client):
    here = wb.sensitivity(network(), inputs())
    assert wb.sensitivity(network(), inputs(), executor=client).table().equals(here.table())
    found = wb.search_precision(network(), inputs(), 1e-3, executor=client)
    assert found.keep == (CULPRIT,)


def test_a_killed_worker_changes_nothing(client: Client, tmp_path: Path):
    executor = Killing(client, 4, tmp_path / "killed")
    found = wb.search_precision(network(), inputs(), 1e-3, executor=executor)
    assert (tmp_path / "killed").exists()
    here = wb.search_precision(network(), inputs(), 1e-3)
    assert (found.keep, found.error) == (here.keep, here.error)
    assert found.trials.equals(here.trials)
    # The program and the inputs are sent once, not with each trial.
    assert {type(x) for args in executor.trials for x in args} == {Future, tuple}


def test_a_trial_that_kills_every_worker_is_reported(
    cluster: LocalCluster, client: Client, tmp_path: Path
):
    cluster.scheduler.allowed_failures = 0
    executor = Killing(client, 3, tmp_path / "killed", always=True)
    with pytest.raises(KilledWorker) as caught:
        wb.search_precision(network(), inputs(), 1e-3, executor=executor)
    best = vars(caught.value)["result"]
    assert best.is_within
    assert len(best.trials) == 2
