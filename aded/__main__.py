"""The program ``aded``, also ``python -m aded``: the engine's commands, and the page's where it is installed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aded.cli.main import main
from aded.core.errors import AdedError


def program(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status (see ``aded.cli.main``)."""
    return main(arguments, [_add_export])


def _add_export(commands: Any) -> None:
    parser = commands.add_parser("export", help="write the page as files that need no server program")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    site = actions.add_parser("site", help="the explorer playing recorded races, for a web server, a static Space or a disk")
    site.add_argument("--out", required=True, metavar="DIR", help="new, empty, or an exported site")
    site.add_argument("--traces", nargs="+", default=[], metavar="FILE", help="recorded races (default: all bundled ones)")
    site.set_defaults(run=_export_site)


def _export_site(options: argparse.Namespace) -> None:
    try:
        from ui.site import export
    except ImportError as error:
        raise AdedError(f"the page's packages are missing ({error}); install what requirements.txt names") from None
    files = export(Path(options.out), [Path(file) for file in options.traces])
    size = sum(file.stat().st_size for file in files)
    print(f"{options.out}: {len(files)} files, {size / 1e6:.1f} MB; open {Path(options.out) / 'index.html'}")


if __name__ == "__main__":
    raise SystemExit(program())
