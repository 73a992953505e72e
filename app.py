"""ADED Explorer: builds the page from ``ui/`` and serves it."""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from aded.cli import Parser
from aded.errors import AdedError

HOST, PORT = "127.0.0.1", 7860


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; the environment variables GRADIO_SERVER_NAME and GRADIO_SERVER_PORT are its defaults."""
    parser = Parser(prog="app.py", description="ADED Explorer: speculative decoding on a real model, step by step.")
    parser.add_argument(
        "--host", default=os.environ.get("GRADIO_SERVER_NAME") or HOST, help="address to listen on (default: %(default)s)"
    )
    parser.add_argument("--port", default=os.environ.get("GRADIO_SERVER_PORT") or str(PORT), help="port (default: %(default)s)")
    parser.add_argument("--model", default="default", metavar="SPEC", help="'default', a hub id, a folder, or a .gguf file")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--no-browser", action="store_true", help="do not open the browser")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> int:
    """The port as a number, after all that can be known before anything heavy starts.

    Raises:
        AdedError: a wrong port, a missing folder or file, an unknown device or dtype, an address that cannot be had.
    """
    if not re.fullmatch("[0-9]{1,5}", options.port) or not 0 < int(options.port) < 65536:
        raise AdedError(f"port is '{options.port}'; give a number from 1 to 65535")
    _check_model(options.model)
    if not re.fullmatch("auto|cpu|cuda(:[0-9]{1,3})?", options.device):
        raise AdedError(f"unknown device '{options.device}'; give auto, cpu, cuda or cuda:N")
    if options.dtype not in ("auto", "float32", "bfloat16", "float16"):
        raise AdedError(f"unknown dtype '{options.dtype}'; give auto, float32, bfloat16 or float16")
    _check_address(options.host, int(options.port))
    return int(options.port)


def _check_model(spec: str) -> None:
    """A path must exist; a hub id is looked up when the model is loaded."""
    path = Path(spec).expanduser()
    if not spec.strip():
        raise AdedError("the model is empty; give 'default', a hub id, a folder, or a .gguf file")
    looks_local = spec.startswith((".", "/", "~")) or spec.endswith(".gguf") or spec.count("/") > 1
    if looks_local and not path.exists():
        raise AdedError(f"there is no model at '{spec}'; give 'default', a hub id, a folder, or a .gguf file")


def _check_address(host: str, port: int) -> None:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no address"
        raise AdedError(f"cannot listen on {host}:{port}: {reason}; give another --port or --host") from None


def on_desktop() -> bool:
    """Whether there is a screen to open a browser on."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def serve(options: argparse.Namespace, port: int) -> None:
    """Build the page and serve it until interrupted."""
    from ui import theme
    from ui.models import ModelHolder
    from ui.page import build

    theme.serve_static()
    page = build(ModelHolder(options.model, options.device, options.dtype))
    page.queue(max_size=32).launch(
        server_name=options.host,
        server_port=port,
        inbrowser=not options.no_browser and on_desktop(),
        theme=theme.theme(),
        head=theme.head(),
        ssr_mode=False,
        run_history=False,
        footer_links=[],
        max_file_size="32mb",
        show_error=True,
        share=False,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app; 2 is the exit status for what the command line got wrong."""
    options = parse(arguments)
    try:
        serve(options, check(options))
    except AdedError as error:
        print(f"app.py: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
