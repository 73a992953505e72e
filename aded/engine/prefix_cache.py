"""Prefix caching: the KV cache of a decode that has ended serves the next one as far as the tokens of both are the same.

The second turn of a conversation begins with the first one, so its prefill reads only what is new. The keys and values of a
token depend only on the tokens up to it, so the text is the one without this cache, up to the rounding of forward passes of
different sizes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.core.prefixes import common_prefix
from aded.engine.kv_cache import KVCache
from aded.engine.session import TargetSession, free_cache

if TYPE_CHECKING:
    from aded.engine.outputs import DrafterNeeds
    from aded.engine.target_model import TargetModel

Kept = tuple["TargetModel", np.ndarray, KVCache]
"""A model, tokens int32 ``[n]``, and the cache with their keys and values."""


class PrefixCache:
    """Keeps the KV cache of the last decode. It serves one decode at a time; ``free`` may be called by any thread.

    Attributes:
        reused: number of prompt tokens of the latest decode whose keys and values were kept.
    """

    def __init__(self) -> None:
        self.reused = 0
        self._kept: Kept | None = None
        self._freed = False
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Memory of the kept keys and values."""
        kept = self._kept
        return kept[2].bytes if kept else 0

    def session(self, target: TargetModel, ids: Sequence[int], capacity: int, needs: DrafterNeeds | None = None) -> TargetSession:
        """Start a decode whose cache holds as many of the first tokens as are kept.

        Args:
            ids: all tokens that the cache may hold; a decode needs the last prompt token as root, so it passes all but that one.
            capacity: number of tokens for which the cache needs space.
            needs: see ``TargetModel.session``.
        """
        kept = self._take()
        self.reused = common_prefix(kept[1], np.asarray(ids, dtype=np.int32)) if kept and kept[0] is target else 0
        if kept and self.reused:
            session = TargetSession(target, capacity, kept[2])
            session.rewind(self.reused)
            kept[2].reserve(capacity - self.reused)
            return session
        if kept:
            free_cache(kept[0], kept[2])
        return target.session(capacity, needs)

    def keep(self, session: TargetSession, tokens: np.ndarray) -> None:
        """End a decode and keep its cache, if it can serve another one.

        Args:
            tokens: the committed tokens, at least those in the cache, int32 ``[n]``.
        """
        cache = session.take_cache()
        if cache is None:
            return
        with self._lock:
            if not self._freed and self._kept is None:
                self._kept = session.target, tokens[: cache.length].copy(), cache
                return
        free_cache(session.target, cache)

    def free(self) -> None:
        """Free the kept cache, and keep no other one."""
        self._freed = True
        if kept := self._take():
            free_cache(kept[0], kept[2])

    def _take(self) -> Kept | None:
        with self._lock:
            kept, self._kept = self._kept, None
        return kept
