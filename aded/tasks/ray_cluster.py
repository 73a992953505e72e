"""Tasks on a Ray cluster. Ray is imported when a cluster is used.

Ray runs a task again if its worker or its node is lost, and recomputes what was stored there. The files of a job stay on the
machine where the command runs: tasks get their input and return their output through Ray (see docs/ray.md).
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aded
from aded.core.errors import RESUME_HINT, AdedError, InterruptedJobError, first_line
from aded.tasks.processes import in_order

INSTALL = "pip install 'ray>=2.50'"
Progress = Callable[[str, "float | None"], None]
ATTEMPTS = 4
"""Number of times that a task is started before its workers' deaths end the job."""
CONNECT_SECONDS = 5.0
WAIT_SECONDS = 30.0
"""Time after which a message says that there is no free worker."""
VARIABLES = ("ADED_CACHE", "ADED_COMMIT")
"""Environment variables that workers get from the command."""


@contextmanager
def connected(address: str | None) -> Iterator[RayCluster]:
    """A connection to the cluster at an address (None: a cluster of this machine alone, which is started and stopped).

    Raises:
        AdedError: Ray is not installed, or there is no cluster at the address.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        import ray
    except ImportError:
        raise AdedError(f"--engine ray needs the library Ray; install it with `{INSTALL}`") from None
    if address is not None and address != "auto":
        _check_reachable(address)
    root = str(Path(aded.__file__).resolve().parents[1])
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    given: dict[str, Any] = {"address": address} if address is not None else {"address": "local", "include_dashboard": False}
    own = not ray.is_initialized()
    if own:
        try:
            ray.init(**given, runtime_env={"env_vars": variables}, logging_level=logging.ERROR, log_to_driver=False)
        except Exception as error:  # Ray raises different exceptions for an address, a version and a missing node
            raise AdedError(
                f"cannot use the Ray cluster ({first_line(error)[:200]}); start the command on a node of a running cluster "
                "(`ray start --head`), with the cluster's versions of Python and Ray, or leave out --address"
            ) from None
    try:
        yield RayCluster()
    finally:
        if own:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself waits minutes for an address where nothing listens."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        raise AdedError(f"--address is {address}; give HOST:PORT of the cluster's head node, or auto, on a node of the cluster")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise AdedError(
            f"no Ray cluster answers at {address} ({first_line(error)}); give HOST:PORT of its head node, as `ray start --head` "
            "prints it, or leave out --address"
        ) from None


@dataclass(frozen=True)
class _Task:
    """A function as workers run it: after a check that the node has this version of ADED."""

    function: Callable[..., Any]
    version: str = aded.__version__

    def __call__(self, *arguments: Any) -> Any:
        if aded.__version__ != self.version:
            raise AdedError(f"node {_node()} has ADED {aded.__version__}, not {self.version}; install the same on all nodes")
        return self.function(*arguments)


def _node() -> str:
    """Address of this process's node."""
    import ray

    return ray.util.get_node_ip_address()


class RayCluster:
    """The cluster that this process is connected to; an ``aded.tasks.engine.Engine``.

    Attributes:
        workers: number of processor cores of the cluster.
    """

    def __init__(self) -> None:
        import ray

        self._ray = ray
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def cluster(self) -> RayCluster:
        return self

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        run, task = self._remote(lambda task, job: task(job)), self._ray.put(_Task(function))
        yield from in_order(lambda job: run.remote(task, job), self._get, jobs, self.workers)

    def shuffle(
        self,
        split: Callable[[Any], tuple[Any, Sequence[Any]]],
        jobs: Sequence[Any],
        join: Callable[[Iterator[Any]], Any],
        parts: int,
        done: Callable[[float], None],
    ) -> tuple[list[Any], list[Any]]:
        """Map and reduce: ``split`` divides the result of each job into parts, ``join`` makes a result of each part.

        Args:
            split: maps a job to a note and a list of ``parts`` values.
            join: gets the values of one part from all jobs, in no particular order, one at a time.
            done: called with the share of the tasks that are done, 0 to 1.

        Returns:
            The notes of all jobs, and the results of all parts. The values themselves stay on the nodes.
        """
        ray, total = self._ray, len(jobs) + parts
        divide = self._remote(_divide).options(num_returns=1 + parts)
        unite, splitter, joiner = (
            self._remote(_unite),
            ray.put(_Task(split)),
            ray.put(_Task(join)),
        )  # kept for tasks that run again
        rows = [divide.remote(splitter, job) for job in jobs]
        notes = [self._wait(row[0], rows, number / total, done) for number, row in enumerate(rows)]
        united = [unite.remote(joiner, *(row[1 + part] for row in rows)) for part in range(parts)]
        del rows
        return notes, [self._wait(one, united, (len(jobs) + n) / total, done) for n, one in enumerate(united)]

    def _wait(self, ref: Any, refs: list[Any], share: float, done: Callable[[float], None]) -> Any:
        done(share)
        return self._get(ref)

    @contextmanager
    def serving(self, function: Callable[[Any], Any]) -> Iterator[Callable[[Any], Any]]:
        """A function for tasks that runs ``function`` on this machine, where the job's files are."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        actor = self._ray.remote(_Server).options(num_cpus=0, scheduling_strategy=here, max_concurrency=8).remote(function)
        try:
            yield _Served(actor)
        finally:
            self._ray.kill(actor)

    @contextmanager
    def pool(self, make: Callable[[], Callable[[Any], Any]], files: Sequence[str] = ()) -> Iterator[ActorPool]:
        """Workers with a GPU each; in a cluster without GPUs, one worker per node with all its cores.

        Args:
            make: called once by each worker; returns the function that the worker runs.
            files: files that every node needs, under these paths.
        """
        pool = ActorPool(self._ray, _Task(make), files)
        try:
            yield pool
        finally:
            pool.close()

    def _remote(self, function: Callable[..., Any]) -> Any:
        return self._ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(function)

    def _get(self, ref: Any) -> Any:
        return _result(self._ray, ref)


def _result(ray: Any, ref: Any) -> Any:
    """The value of a task.

    Raises:
        AdedError: the one that the task raised.
        InterruptedJobError: the task's workers were killed, or its node is lost.
    """
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, (AdedError, KeyboardInterrupt)):
            raise error.cause from None
        if isinstance(error.cause, ray.exceptions.RayError) and "No module named" not in str(error):
            raise _killed(error.cause) from None
        if "No module named" in str(error):
            raise _unprepared(error) from None
        raise
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayActorError):
            raise
        if "No module named" in str(error):
            raise _unprepared(error) from None
        raise _killed(error) from None


def _unprepared(error: BaseException) -> AdedError:
    line = next(line.strip() for line in reversed(str(error).splitlines()) if "No module named" in line)
    node = getattr(error, "ip", None)
    return AdedError(
        f"{f'node {node}' if node else 'a node'} cannot run the task ({line}); install ADED with the same packages on all nodes"
    )


def _killed(error: BaseException) -> InterruptedJobError:
    return InterruptedJobError(
        f"a worker was killed {ATTEMPTS} times, probably for lack of memory ({type(error).__name__}); give tasks less with "
        f"--max-memory or --batch, and {RESUME_HINT}"
    )


def _divide(task: _Task, job: Any) -> Any:
    note, values = task(job)
    return (note, *values)


def _unite(task: _Task, *values: Any) -> Any:
    return task(iter(values))


class _Server:
    """Runs a function for other workers."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def call(self, value: Any) -> Any:
        return self.function(value)


@dataclass(frozen=True)
class _Served:
    actor: Any

    def __call__(self, value: Any) -> Any:
        import ray

        return ray.get(self.actor.call.remote(value))


class _Worker:
    """A worker of an `ActorPool`."""

    def start(self, make: _Task, files: Sequence[str]) -> None:
        missing = [file for file in files if not os.path.exists(file)]
        if missing:
            names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            raise AdedError(f"node {_node()} lacks {names}; copy them there, or give a path that all nodes share")
        self._function = self._said(make)

    def run(self, job: Any) -> Any:
        return self._said(self._function, job)

    def _said(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function; an error names this node."""
        try:
            return function(*arguments)
        except AdedError as error:
            raise type(error)(f"node {_node()}: {error}") from None


class ActorPool:
    """Workers that keep what they loaded. A lost worker is replaced, and its job goes to another."""

    def __init__(self, ray: Any, make: _Task, files: Sequence[str]) -> None:
        self._ray, self._make, self._files = ray, ray.put(make), list(files)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
        with_gpu = [node for node in nodes if node.get("GPU", 0) >= 1]
        if with_gpu:
            cores = min(max(1, int(node["CPU"] // node["GPU"])) for node in with_gpu)
            self._resources, self.size = {"num_gpus": 1, "num_cpus": cores}, sum(int(node["GPU"]) for node in with_gpu)
        else:
            self._resources, self.size = {"num_cpus": min((int(node["CPU"]) for node in nodes), default=1)}, max(1, len(nodes))
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[Any, Any]] = {}  # by task: its worker and its (number, job), None while it starts
        self._deaths: Counter[int | None] = Counter()  # by number of the job; None: while starting

    def map(self, jobs: Iterable[Any], waiting: Progress = lambda message, share: None) -> Iterator[Any]:
        """Results of the jobs in their order; at most ``2 * size`` jobs are taken in advance.

        Args:
            waiting: called with a message when no worker is free for a long time.

        Raises:
            InterruptedJobError: the workers of a job were killed `ATTEMPTS` times.
        """
        numbered, taken = enumerate(jobs), 0
        self._deaths.clear()
        open_jobs: deque[Any] = deque()
        finished: dict[int, Any] = {}
        try:
            for number in itertools.count():
                while number not in finished:
                    open_jobs.extend(itertools.islice(numbered, number + 2 * self.size - taken))
                    taken = max(taken, number + 2 * self.size)
                    self._start(open_jobs)
                    if not open_jobs and all(job is None for _, job in self._running.values()):
                        return
                    self._await(finished, open_jobs, waiting)
                yield finished.pop(number)
        finally:
            for ref in [ref for ref, (_, job) in self._running.items() if job is not None]:
                self._ray.kill(self._running.pop(ref)[0])

    def _start(self, jobs: deque[Any]) -> None:
        """Give jobs to idle workers, and start workers for the others while there are fewer than there may be."""
        while jobs and self._idle:
            worker, job = self._idle.pop(), jobs.popleft()
            self._running[worker.run.remote(job[1])] = worker, job
        starting = sum(job is None for _, job in self._running.values())
        for _ in range(min(self.size - len(self._running), len(jobs) - starting)):
            worker = self._ray.remote(_Worker).options(**self._resources).remote()
            self._running[worker.start.remote(self._make, self._files)] = worker, None

    def _await(self, finished: dict[int, Any], open_jobs: deque[Any], waiting: Progress) -> None:
        """Wait for the next worker that has started or finished."""
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=WAIT_SECONDS)
        if not done:
            if all(job is None for _, job in self._running.values()):
                waiting("waiting for a free GPU or node of the cluster", None)
            return
        worker, job = self._running.pop(done[0])
        try:
            value = _result(self._ray, done[0])
        except self._ray.exceptions.RayActorError as error:
            with suppress(Exception):  # it may only be out of reach
                self._ray.kill(worker)
            number = job[0] if job is not None else None
            self._deaths[number] += 1
            if self._deaths[number] >= ATTEMPTS * (self.size if job is None else 1):
                raise _killed(error) from None
            open_jobs.extendleft([job] if job is not None else [])
            return
        self._idle.append(worker)
        if job is None:
            del self._deaths[None]
        else:
            finished[job[0]] = value

    def close(self) -> None:
        """Stop all workers, which frees their GPUs and processor cores."""
        for worker in [*self._idle, *(worker for worker, _ in self._running.values())]:
            with suppress(Exception):  # the connection may be lost
                self._ray.kill(worker)
        self._idle.clear()
        self._running.clear()
