"""Compiles ADED's search in a separate process, while a model is downloaded, converted or loaded.

Numba compiles the search when it is first used on a machine, which takes as long as converting the default model. The compiled
code is kept in a separate folder, and later processes read it from there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aded.core.compilation.code_folder import code_folder
from aded.core.paths import PACKAGE

DONE = "complete"
"""Name of the file that marks the folder of compiled code as complete."""


def start() -> subprocess.Popen[bytes] | None:
    """Start to compile, unless it is complete or no folder is writable; a process that needs the code earlier compiles it too."""
    folder = code_folder()
    if folder is None or (folder / DONE).exists():
        return None
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    quiet = subprocess.DEVNULL
    with suppress(OSError):
        return subprocess.Popen([sys.executable, "-m", __name__], env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
    return None


@contextmanager
def meanwhile(progress: Callable[[str], None]) -> Iterator[None]:
    """Compile while the block runs, and wait for the end of both; reports to ``progress`` if the block ends first."""
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
    from aded.core import tree
    from aded.drafters.budget import tree_budget
    from aded.drafters.methods.aded import AdedDrafter

    tree.warm_up()
    tree_budget.warm_up()
    AdedDrafter(None, 2)
    folder = code_folder()
    if folder is not None:
        (folder / DONE).touch()


if __name__ == "__main__":
    main()
