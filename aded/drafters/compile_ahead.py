"""Compiles ADED's tree search ahead of time, in a separate process, while a model is downloaded, converted or loaded.

Numba otherwise compiles the search at its first call, which takes about as long as converting the default model. The compiled
code is cached on disk (``aded.core.compilation.code_folder``), and later processes load it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aded.core.compilation.code_folder import code_folder
from aded.core.paths import PACKAGE

DONE = "complete"
"""Name of the file that marks the cache folder as complete."""


def start() -> subprocess.Popen[bytes] | None:
    """Start compiling in a separate process. A process that calls the search before that is done compiles it itself.

    Returns:
        The process, which ends early if it is killed or deleted, or if this process ends; None if the cache is complete, no cache
        folder is writable, or the process cannot be started.
    """
    folder = code_folder()
    if folder is None or (folder / DONE).exists():
        return None
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    quiet = subprocess.DEVNULL
    with suppress(OSError):
        command = [sys.executable, "-m", __name__]
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
    return None


@contextmanager
def meanwhile(progress: Callable[[str], None]) -> Iterator[None]:
    """Compile while the block runs, then wait for the compilation; if the block raises, the compilation is killed.

    Args:
        progress: gets a message if the block ends before the compilation.
    """
    process = start()
    try:
        yield
        if process is not None and process.poll() is None:
            progress("compiling the search")
    except BaseException:
        if process is not None:
            process.kill()
        raise
    finally:
        if process is not None:
            process.wait()


def main() -> None:
    """Compile all functions that ADED's drafts use, and mark the cache folder as complete."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    from aded.core import tree
    from aded.drafters.budget import tree_budget
    from aded.drafters.methods.aded import AdedDrafter

    tree.warm_up()
    tree_budget.warm_up()
    AdedDrafter(None, 2)
    folder = code_folder()
    if folder is not None:
        (folder / DONE).touch()


def _end_with_input() -> None:
    """End this process when the one that holds the other end of its input has ended, by whatever signal."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
