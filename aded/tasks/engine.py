"""What runs tasks: the processes of this machine, or a Ray cluster (`aded.tasks.ray_cluster`)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from aded.core.errors import AdedError
from aded.tasks.processes import Processes

if TYPE_CHECKING:
    from aded.tasks.ray_cluster import RayCluster

ENGINES = ("local", "ray")


class Engine(Protocol):
    """Runs tasks.

    Attributes:
        workers: number of tasks that run at the same time.
    """

    workers: int

    @property
    def cluster(self) -> RayCluster | None:
        """The cluster that runs the tasks; None if they run on this machine."""

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of ``function`` for each job, in the order of the jobs; at most ``workers + 1`` are pending at a time.

        Raises:
            InterruptedJobError: a worker was killed, and again when the task was retried.
        """


def add_options(parser: Any) -> None:
    """Add ``--engine`` and ``--address`` to a parser or a group of options."""
    parser.add_argument(
        "--engine", choices=ENGINES, default="local", help="where tasks run: on this machine (default), or on a Ray cluster"
    )
    parser.add_argument(
        "--address", metavar="A", help="with --engine ray: the cluster, HOST:PORT or auto (default: one started on this machine)"
    )


def check_options(options: argparse.Namespace) -> None:
    """Raise ``AdedError`` if there is an address but no cluster is used."""
    if options.address is not None and options.engine != "ray":
        raise AdedError("--address is that of a Ray cluster; add --engine ray or leave it out")


@contextmanager
def engine_of(options: argparse.Namespace, processes: int = 1) -> Iterator[Engine]:
    """The engine that the options of `add_options` select; ``processes``: number of local processes.

    Raises:
        AdedError: Ray is not installed, or there is no cluster at the address.
    """
    if options.engine == "ray":
        from aded.tasks.ray_cluster import connected

        with connected(options.address) as cluster:
            yield cluster
    else:
        yield Processes(processes)
