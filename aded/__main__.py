"""Entry point of ``aded`` and ``python -m aded``: all engine commands, and ``export`` for the page."""

from __future__ import annotations

from aded.core.interrupts import immediate_interrupts

with immediate_interrupts():
    import argparse
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from aded.cli.main import main
    from aded.core.errors import AdedError


def program(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status (see ``aded.cli.main``)."""
    return main(arguments, [_add_export])


def _add_export(commands: Any) -> None:
    parser = commands.add_parser("export", help="write the page as static files")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    site = actions.add_parser(
        "site", help="a static site that plays recorded races, for a web server, a static Space or a local folder"
    )
    site.add_argument("--out", required=True, metavar="DIR", help="output folder: new, empty, or a site exported before")
    site.add_argument("--traces", nargs="+", default=[], metavar="FILE", help="recorded races (default: all bundled ones)")
    site.set_defaults(run=_export_site)


def _export_site(options: argparse.Namespace) -> None:
    try:
        from ui.site import export
    except ImportError as error:
        raise AdedError(f"the page's packages are missing ({error}); run pip install -r requirements.txt") from None
    files = export(Path(options.out), [Path(file) for file in options.traces])
    size = sum(file.stat().st_size for file in files)
    print(f"{options.out}: {len(files)} files, {size / 1e6:.1f} MB; open {Path(options.out) / 'index.html'}")


if __name__ == "__main__":
    raise SystemExit(program())
