"""The program that builds the page and serves it. What takes time to import is imported in functions, after ``run`` began."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from aded.core.errors import AdedError
from aded.core.paths import prepare

if TYPE_CHECKING:
    from ui.engine import Engine
    from ui.models import Models

HOST, PORT = "127.0.0.1", 7860
LARGEST = 1_000_000
PATH = r"(/(?!\.{1,2}(/|$))[\w.~-]+)*/?"
"""Of a page below a proxy: names that stand for no other folder."""
NUMBERS = {
    "queue_size": (32, 0, "runs that may wait for the model at once, of all visitors together"),
    "at_once": (4, 1, "runs that take turns on the model"),
    "max_new_tokens": (512, 1, "most tokens that a lane may write"),
    "max_prompt": (20_000, 1, "most characters of a prompt"),
    "run_seconds": (300, 1, "seconds of the model that a run may take, those of others not counted"),
    "session_limit": (0, 0, "tokens that a session may have written within an hour; 0 for any number"),
}
"""Options that are whole numbers: default, least value, meaning. ADED_QUEUE_SIZE and so on may set defaults too."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; its defaults come from GRADIO_SERVER_NAME, GRADIO_SERVER_PORT and ADED_… in the environment."""
    from aded.cli.main import Parser

    known = os.environ.get
    parser = Parser(prog=program(), description="ADED Explorer: speculative decoding on a real model, step by step.")
    add = parser.add_argument
    add("--host", default=known("GRADIO_SERVER_NAME") or HOST, help="address to listen on (default: %(default)s)")
    add("--port", default=known("GRADIO_SERVER_PORT") or str(PORT), help="port (default: %(default)s)")
    add(
        "--model", default=known("ADED_MODEL") or "default", metavar="SPEC", help="'default', a hub id, a folder, or a .gguf file"
    )
    add("--allow-models", default=known("ADED_ALLOW_MODELS") or "", metavar="SPEC,…", help="further models for programs to use")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    add("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    for name, (default, _, words) in NUMBERS.items():
        value = known(f"ADED_{name.upper()}") or str(default)
        add(f"--{name.replace('_', '-')}", default=value, metavar="N", help=f"{words} (default: %(default)s)")
    framed = known("ADED_FRAME_ANCESTORS") or (hub() if known("SPACE_ID") else "")
    add("--frame-ancestors", default=framed, metavar="URL,…", help="sites that may show the page in a frame")
    add(
        "--root-path",
        default=known("GRADIO_ROOT_PATH") or "",
        metavar="PATH",
        help="where a proxy shows the page, such as /aded, if not at its root; the proxy takes it off",
    )
    add("--no-browser", action="store_true", help="do not open the browser")
    return parser.parse_args(arguments)


def program() -> str:
    """The name by which the program was started: ``app.py`` in a checkout, ``aded-explorer`` where it is installed."""
    return Path(sys.argv[0]).name


def hub() -> str:
    """Who shows a Space in a frame: the default where the environment says that this is one."""
    from huggingface_hub.constants import ENDPOINT

    return ENDPOINT


def check(options: argparse.Namespace) -> int:
    """The port as a number, after all that can be known before anything heavy starts.

    Raises:
        AdedError: a wrong number, a missing folder or file, an unknown device or dtype, an address that cannot be had.
    """
    from ui import zerogpu

    if not re.fullmatch("[0-9]{1,5}", options.port) or not 0 < int(options.port) < 65536:
        raise AdedError(f"port is '{options.port}'; give a number from 1 to 65535")
    for spec in models_of(options):
        _check_model(spec)
    limits_of(options)
    frames_of(options)
    if not re.fullmatch(rf"{PATH}|https?://[\w.-]+(:[0-9]{{1,5}})?{PATH}", options.root_path):
        raise AdedError(f"root path is '{options.root_path}'; give a path such as /aded, or the page's whole address")
    if not re.fullmatch("auto|cpu|cuda(:[0-9]{1,3})?", options.device):
        raise AdedError(f"unknown device '{options.device}'; give auto, cpu, cuda or cuda:N")
    if options.device.startswith("cuda") and not zerogpu.ON:
        _check_card(options.device)
    if options.dtype not in ("auto", "float32", "bfloat16", "float16"):
        raise AdedError(f"unknown dtype '{options.dtype}'; give auto, float32, bfloat16 or float16")
    _check_address(host_of(options), int(options.port))
    return int(options.port)


def host_of(options: argparse.Namespace) -> str:
    """The address to listen on, without the brackets that one of IPv6 has in a URL.

    Raises:
        AdedError: it is one of a single link, which no URL can name.
    """
    host = str(options.host)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if "%" in bare:
        raise AdedError(f"host is '{host}'; give an address without a zone (%), such as ::1, or :: for all of IPv6")
    return bare


def models_of(options: argparse.Namespace) -> list[str]:
    """The page's model, then those that programs may name too."""
    further = [spec.strip() for spec in options.allow_models.split(",") if spec.strip()]
    return [options.model, *(spec for spec in dict.fromkeys(further) if spec != options.model)]


def limits_of(options: argparse.Namespace) -> dict[str, int]:
    """The limits as numbers.

    Raises:
        AdedError: one is not a whole number, or too small.
    """
    found = {}
    for name, (_, least, _) in NUMBERS.items():
        text = getattr(options, name)
        if not re.fullmatch("[0-9]{1,7}", text) or not least <= int(text) <= LARGEST:
            raise AdedError(f"{name.replace('_', ' ')} is '{text}'; give a whole number from {least} to {LARGEST}")
        found[name] = int(text)
    return found


def frames_of(options: argparse.Namespace) -> list[str]:
    """The sites that may show the page in a frame.

    Raises:
        AdedError: one is no address of a site.
    """
    sites = [site.strip() for site in options.frame_ancestors.split(",") if site.strip()]
    for site in sites:
        if not re.fullmatch(r"https?://(\*\.)?[A-Za-z0-9.-]+(:[0-9]{1,5})?", site):
            raise AdedError(f"'{site}' is no site; give addresses such as https://example.org, with commas between")
    return sites


def _check_model(spec: str) -> None:
    """A path must exist and be that of a model; a hub id is looked up when the model is loaded."""
    from aded.engine import weights

    path = Path(os.path.expanduser(spec))
    if not spec.strip():
        raise AdedError("the model is empty; give 'default', a hub id, a folder, or a .gguf file")
    looks_local = spec.startswith((".", "/", "~")) or spec.endswith(".gguf") or spec.count("/") > 1
    if looks_local and not path.exists():
        raise AdedError(f"there is no model at '{spec}'; give 'default', a hub id, a folder, or a .gguf file")
    if not weights.is_default(spec):
        weights.check_path(path, spec)


def _check_card(device: str) -> None:
    """A card that is asked for by name must be there; this alone loads PyTorch before the address is looked at."""
    from aded.engine.loader import choose_device

    choose_device(device)


def _check_address(host: str, port: int) -> None:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no address"
        shown = f"[{host}]" if ":" in host else host
        raise AdedError(f"cannot listen on {shown}:{port}: {reason}; give another --port or --host") from None


def on_desktop() -> bool:
    """Whether there is a screen to open a browser on."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def usual_parts(specs: Sequence[str], device: str, dtype: str) -> tuple[Models, Engine]:
    """Models that are loaded when they are needed, and the engine of this process."""
    from ui.engine import Engine
    from ui.models import Models

    return Models(specs, device, dtype), Engine()


def serve(options: argparse.Namespace, port: int) -> None:
    """Build the page and serve it until interrupted."""
    os.environ.pop("GRADIO_SERVER_NAME", None)  # heeded already; Gradio itself cannot probe one of IPv6
    from ui import zerogpu
    from ui.serving import server
    from ui.serving.limits import Limits
    from ui.serving.service import Service

    asked = limits_of(options)
    limits = Limits(
        queue_size=asked["queue_size"],
        at_once=asked["at_once"],
        max_new_tokens=asked["max_new_tokens"],
        prompt_characters=asked["max_prompt"],
        run_seconds=asked["run_seconds"],
        session_tokens=asked["session_limit"] or None,
    )
    parts = zerogpu.parts if zerogpu.ON else usual_parts
    models, engine = parts(models_of(options), options.device, options.dtype)
    service = Service(models, limits, engine)
    opens = not options.no_browser and on_desktop()
    root = options.root_path.rstrip("/")
    server.serve(service, server.Address(host_of(options), port, frames_of(options), opens, root))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app; 2 is the exit status for what the command line got wrong."""
    options = parse(arguments)
    prepare()
    try:
        serve(options, check(options))
    except AdedError as error:
        print(f"{program()}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the page was there
        return 0
    return 0


def run() -> NoReturn:
    """`main` as a program of its own, which ends with status 0 when it is told to end while it starts."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    sys.exit(main())
