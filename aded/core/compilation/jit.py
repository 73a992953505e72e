"""Numba's ``njit`` with an on-disk cache that is invalidated when any compiled source changes.

Numba recompiles a function when its own file has changed, but not when a function inlined into it or a global constant has
changed in another file. The cache folder is therefore named after a hash of all files that contain ``njit``. A compiled function
may use names from these files only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, config, event, types
from numba.core.caching import FunctionCache, NullCache
from numba.extending import intrinsic, overload

from aded.core.compilation.code_folder import code_folder


def njit(cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Like ``numba.njit``; ``cache`` stores compiled code in ``FOLDER``."""

    def compiled(function: Any) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache and not config.DISABLE_JIT:
            dispatcher._cache = _cache_of(function)
        return dispatcher

    return compiled


def prefetch(array: Any, row: int) -> None:
    """In compiled code, start to load the first cache line of ``array[row]`` without waiting for it; elsewhere do nothing."""


@intrinsic
def _prefetch(context, array, row):
    """Emit LLVM's prefetch instruction: for reading, to be kept in all levels of the data cache."""

    def emit(context, builder, signature, arguments):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        zero, number = ir.Constant(arguments[1].type, 0), ir.IntType(32)
        item = cgutils.get_item_pointer(context, builder, kind, view, [arguments[1]] + [zero] * (kind.ndim - 1))
        address = builder.bitcast(item, cgutils.voidptr_t)
        signature = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        instruction = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
        builder.call(instruction, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, row), emit


@overload(prefetch)
def _compiled_prefetch(array, row):
    return lambda array, row: _prefetch(array, row)


class Compilations(event.Listener):
    """Counts the compilations that are in progress; code that is read from the cache is not compiled."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: event.Event) -> None:
        self.count += 1

    def on_end(self, event: event.Event) -> None:
        self.count -= 1


COMPILATIONS = Compilations()
event.register("numba:compile", COMPILATIONS)


def compiling() -> bool:
    """Whether a function is being compiled now, in any thread."""
    return COMPILATIONS.count > 0


class CodeCache(FunctionCache):
    """Numba's cache, in which a full disk or a damaged file leads to recompilation instead of an error."""

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # unpickling damaged bytes can raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        with suppress(OSError):
            super().save_overload(*arguments)


FOLDER = code_folder()


def _cache_of(function: Any) -> Any:
    """Cache of a function in ``FOLDER``. Functions of other programs still use Numba's default folder."""
    if FOLDER is None:
        return NullCache()
    before, config.CACHE_DIR = config.CACHE_DIR, str(FOLDER)
    try:
        return CodeCache(function)
    except RuntimeError:  # raised by Numba if it finds no writable folder
        return NullCache()
    finally:
        config.CACHE_DIR = before
