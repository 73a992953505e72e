"""The model that writes a text, loaded in this process or by the workers of a cluster; both write the same batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.data import corpus
from aded.data.conversations import Conversation
from aded.data.readers import local_spec, model_files
from aded.engine.loading.weights import Progress

if TYPE_CHECKING:
    from aded.data.self_generation import ConversationGenerator
    from aded.tasks.engine import Engine
    from aded.tasks.ray_cluster import ActorPool


@dataclass(frozen=True)
class GenerationSpec:
    """What determines the batches besides their index and size.

    Attributes:
        model, device, dtype: as on the command line.
        seed, greedy_share: see ``aded.data.self_generation.ConversationGenerator``.
        beginnings: path of a file of question prefixes, or None.
    """

    model: str
    device: str
    dtype: str
    seed: int
    greedy_share: float
    beginnings: str | None


@dataclass(frozen=True)
class GenerationModel:
    """The loaded model.

    Attributes:
        tokenizer, vocab_size: of the model.
        where: device and dtype on which it runs.
        beginnings: token ids of question prefixes.
        generator: makes a generator of batches of a size (None: the largest useful one); second argument: see `RemoteGenerator`.
        release: stops the workers, whose processor cores are then free.
    """

    tokenizer: Any
    vocab_size: int
    where: tuple[str, str]
    beginnings: Sequence[Sequence[int]]
    generator: Callable[[int | None, Callable[[int], bool]], Any]
    release: Callable[[], None] = lambda: None


@contextmanager
def generation_model(settings: GenerationSpec, engine: Engine, progress: Progress) -> Iterator[GenerationModel]:
    """Load the model, in this process or by each worker of the engine's cluster.

    Raises:
        AdedError: the model cannot be loaded, or cannot write conversations.
    """
    if engine.cluster is None:
        yield _local(settings, progress)
        return
    tokenizer, vocab_size = corpus.load_tokenizer(settings.model)
    beginnings = _beginnings(settings, tokenizer)
    make = RemoteModel(settings, local_spec(settings.model), beginnings)
    with engine.cluster.pool(make, model_files(settings.model)) as pool:
        progress("loading the model on the cluster", None)
        where = next(pool.map([(None, None)], progress))

        def generator(batch: int | None, exists: Callable[[int], bool]) -> RemoteGenerator:
            return RemoteGenerator(pool, batch, exists, progress)

        yield GenerationModel(tokenizer, vocab_size, where, beginnings, generator, pool.close)


def _local(settings: GenerationSpec, progress: Progress) -> GenerationModel:
    from aded.engine.target_model import TargetModel

    target = TargetModel.load(settings.model, settings.device, settings.dtype, progress)
    beginnings = _beginnings(settings, target.tokenizer)
    return GenerationModel(
        target.tokenizer,
        target.vocab_size,
        (target.device_name, str(target.dtype)),
        beginnings,
        lambda batch, exists: _generator(target, settings, batch, beginnings),
    )


def _beginnings(settings: GenerationSpec, tokenizer: Any) -> Sequence[Sequence[int]]:
    from aded.data.self_generation import read_beginnings

    return read_beginnings(settings.beginnings, tokenizer) if settings.beginnings else []


def _generator(
    target: Any, settings: GenerationSpec, batch: int | None, beginnings: Sequence[Sequence[int]]
) -> ConversationGenerator:
    from aded.data.self_generation import ConversationGenerator

    return ConversationGenerator(target, batch, settings.seed, settings.greedy_share, beginnings=beginnings)


@dataclass(frozen=True)
class RemoteModel:
    """Makes the function that a worker runs; ``spec`` names the model on every node."""

    settings: GenerationSpec
    spec: str
    beginnings: Sequence[Sequence[int]]

    def __call__(self) -> Callable[[tuple[int | None, int | None]], Any]:
        from aded.engine.target_model import TargetModel

        target = TargetModel.load(self.spec, self.settings.device, self.settings.dtype)
        made: list[ConversationGenerator] = []

        def run(job: tuple[int | None, int | None]) -> Any:
            """(None, None): device, dtype; (None, size or 0): batch size, notice; (index, size): a batch."""
            index, batch = job
            if index is batch is None:
                return target.device_name, str(target.dtype)
            if not made or batch not in (0, made[0].batch_size):
                made.clear()  # first free its memory
                made.append(_generator(target, self.settings, batch or None, self.beginnings))
            return (made[0].batch_size, made[0].notice) if index is None else made[0].generate_batch(index)

        return run


class RemoteGenerator:
    """Batches that the workers of a cluster write, in advance and at the same time; used as a ``ConversationGenerator``."""

    def __init__(self, pool: ActorPool, batch: int | None, exists: Callable[[int], bool], progress: Progress) -> None:
        """
        Args:
            exists: whether a batch is stored, so that it is not written in advance.
        """
        self._pool, self._exists, self._progress = pool, exists, progress
        self._indices: Iterator[int] = iter(())
        self._batches: Iterator[list[Conversation]] = iter(())
        self.batch_size, self.notice = next(pool.map([(None, batch or 0)], progress))

    def generate_batch(self, index: int, progress: Callable[[int], None] = lambda tokens: None) -> list[Conversation]:
        """Batch number ``index``; see ``ConversationGenerator.generate_batch``."""
        if next(self._indices, None) != index:  # the first, or one that is stored but damaged
            self._batches, self._indices = iter(()), self._from(index)
            jobs = ((number, self.batch_size) for number in self._from(index))
            self._batches = self._pool.map(jobs, self._progress)
            next(self._indices)
        batch = next(self._batches)
        progress(sum(len(one.tokens) for one in batch))
        return batch

    def _from(self, index: int) -> Iterator[int]:
        return (number for number in itertools.count(index) if number == index or not self._exists(number))


def exists_in(folder: Path) -> Callable[[int], bool]:
    """Whether a batch is stored in a work folder."""
    return lambda index: (folder / batch_name(index)).exists()


def batch_name(index: int) -> str:
    """Name of the file of a batch."""
    return f"batch-{index:05d}.npz"
