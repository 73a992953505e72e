"""The program that builds and serves the page. Heavy modules are imported in functions, after ``run`` has set signal handlers."""

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
from aded.core.paths import cache_folder, prepare

if TYPE_CHECKING:
    from ui.race.engine import Engine
    from ui.race.models import Models

HOST, PORT = "127.0.0.1", 7860
MAX_LIMIT = 1_000_000
SWITCH_SECONDS = 0.0005
"""Python's switch interval. The thread that decodes releases the interpreter in each operation of torch; with the default, 5 ms,
a busy event loop would keep it for longer than a step takes on a GPU."""
PATH = r"(/(?!\.{1,2}(/|$))[\w.~-]+)*/?"
"""Path of the page behind a proxy, without . and .. as names."""
NUMBERS = {
    "queue_size": (32, 0, "maximum number of waiting jobs, of all visitors together"),
    "at_once": (4, 1, "number of jobs that run on the model in turns"),
    "max_new_tokens": (512, 1, "maximum number of new tokens per run"),
    "max_prompt": (20_000, 1, "maximum length of a prompt in characters"),
    "run_seconds": (300, 1, "maximum model time of a job in seconds, without that of other jobs"),
    "session_limit": (0, 0, "maximum number of new tokens per session and hour; 0 for no limit"),
    "keep_races": (
        64,
        0,
        "maximum size in MB of the ended races that are kept in the cache folder for their links; 0 keeps none",
    ),
    "keep_conversations": (
        512,
        0,
        "maximum size in MB of the KV caches that are kept for the next turn of conversations; 0 keeps none",
    ),
}
"""Options with whole numbers: default, minimum, meaning. Environment variables such as ADED_QUEUE_SIZE set other defaults."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; its defaults come from GRADIO_SERVER_NAME, GRADIO_SERVER_PORT and ADED_… in the environment."""
    from aded.cli.main import Parser

    env = os.environ.get
    parser = Parser(prog=program(), description="ADED Explorer: speculative decoding on a real model, step by step.")
    add = parser.add_argument
    add("--host", default=env("GRADIO_SERVER_NAME") or HOST, help="address to listen on (default: %(default)s)")
    add("--port", default=env("GRADIO_SERVER_PORT") or str(PORT), help="port (default: %(default)s)")
    add("--model", default=env("ADED_MODEL") or "default", metavar="SPEC", help="'default', a hub id, a folder, or a .gguf file")
    add("--allow-models", default=env("ADED_ALLOW_MODELS") or "", metavar="SPEC,…", help="further models for the API")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    add("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    for name, (default, _, words) in NUMBERS.items():
        value = env(f"ADED_{name.upper()}") or str(default)
        add(f"--{name.replace('_', '-')}", default=value, metavar="N", help=f"{words} (default: %(default)s)")
    framed = env("ADED_FRAME_ANCESTORS") or (hub() if env("SPACE_ID") else "")
    add("--frame-ancestors", default=framed, metavar="URL,…", help="sites that may embed the page in a frame")
    panels = "on or off: whether any site may show /embed in a frame, which is one panel without controls (default: %(default)s)"
    add("--embed", default=env("ADED_EMBED") or "on", metavar="STATE", help=panels)
    add(
        "--root-path",
        default=env("GRADIO_ROOT_PATH") or "",
        metavar="PATH",
        help="path of the page behind a proxy that removes it, such as /aded",
    )
    add("--no-browser", action="store_true", help="do not open the browser")
    return parser.parse_args(arguments)


def program() -> str:
    """The name of the program: ``app.py`` in a checkout, ``aded-explorer`` if installed."""
    return Path(sys.argv[0]).name


def hub() -> str:
    """The site that embeds Spaces in a frame: the default in a Space."""
    from huggingface_hub.constants import ENDPOINT

    return ENDPOINT


def check(options: argparse.Namespace) -> int:
    """Check all options before anything heavy starts; returns the port.

    Raises:
        AdedError: an invalid number, a missing folder or file, an unknown device or dtype, an address that is not available.
    """
    from ui import zerogpu

    if not re.fullmatch("[0-9]{1,5}", options.port) or not 0 < int(options.port) < 65536:
        raise AdedError(f"port is '{options.port}'; give a number from 1 to 65535")
    for spec in models_of(options):
        _check_model(spec)
    limits_of(options)
    frames_of(options)
    if options.embed not in ("on", "off"):
        raise AdedError(f"embed is '{options.embed}'; give on or off")
    if not re.fullmatch(rf"{PATH}|https?://[\w.-]+(:[0-9]{{1,5}})?{PATH}", options.root_path):
        raise AdedError(f"root path is '{options.root_path}'; give a path such as /aded, or the page's full address")
    if not re.fullmatch("auto|cpu|cuda(:[0-9]{1,3})?", options.device):
        raise AdedError(f"unknown device '{options.device}'; give auto, cpu, cuda or cuda:N")
    if options.device.startswith("cuda") and not zerogpu.ON:
        _check_gpu(options.device)
    if options.dtype not in ("auto", "float32", "bfloat16", "float16"):
        raise AdedError(f"unknown dtype '{options.dtype}'; give auto, float32, bfloat16 or float16")
    _check_address(host_of(options), int(options.port))
    return int(options.port)


def host_of(options: argparse.Namespace) -> str:
    """The address to listen on, without the brackets of IPv6 addresses in URLs.

    Raises:
        AdedError: an address with a zone, which URLs do not support.
    """
    host = str(options.host)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if "%" in bare:
        raise AdedError(f"host is '{host}'; give an address without a zone (%), such as ::1, or :: for all of IPv6")
    return bare


def models_of(options: argparse.Namespace) -> list[str]:
    """The page's model, then further models for the API."""
    further = [spec.strip() for spec in options.allow_models.split(",") if spec.strip()]
    return [options.model, *(spec for spec in dict.fromkeys(further) if spec != options.model)]


def limits_of(options: argparse.Namespace) -> dict[str, int]:
    """The limits as numbers.

    Raises:
        AdedError: one is not a whole number, or too small.
    """
    found = {}
    for name, (_, minimum, _) in NUMBERS.items():
        text = getattr(options, name)
        if not re.fullmatch("[0-9]{1,7}", text) or not minimum <= int(text) <= MAX_LIMIT:
            raise AdedError(f"{name.replace('_', ' ')} is '{text}'; give a whole number from {minimum} to {MAX_LIMIT}")
        found[name] = int(text)
    return found


def frames_of(options: argparse.Namespace) -> list[str]:
    """The sites that may embed the page in a frame.

    Raises:
        AdedError: one of them is not the address of a site.
    """
    sites = [site.strip() for site in options.frame_ancestors.split(",") if site.strip()]
    for site in sites:
        if not re.fullmatch(r"https?://(\*\.)?[A-Za-z0-9.-]+(:[0-9]{1,5})?", site):
            raise AdedError(f"'{site}' is not a site; give addresses such as https://example.org, separated by commas")
    return sites


def _check_model(spec: str) -> None:
    """A path must exist and be a model; a hub id is checked when the model is loaded."""
    from aded.engine.loading import weights

    path = Path(os.path.expanduser(spec))
    if not spec.strip():
        raise AdedError("the model is empty; give 'default', a hub id, a folder, or a .gguf file")
    looks_local = spec.startswith((".", "/", "~")) or spec.endswith(".gguf") or spec.count("/") > 1
    if looks_local and not path.exists():
        raise AdedError(f"there is no model at '{spec}'; give 'default', a hub id, a folder, or a .gguf file")
    if not weights.is_default(spec):
        weights.check_path(path, spec)


def _check_gpu(device: str) -> None:
    """A GPU that is named must exist; only then PyTorch is loaded before the address is checked."""
    from aded.engine.loading.loader import choose_device

    choose_device(device)


def _check_address(host: str, port: int) -> None:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not an address"
        shown = f"[{host}]" if ":" in host else host
        raise AdedError(f"cannot listen on {shown}:{port}: {reason}; give another --port or --host") from None


def on_desktop() -> bool:
    """Whether there is a display on which a browser can open."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def local_backend(specs: Sequence[str], device: str, dtype: str) -> tuple[Models, Engine]:
    """Models that are loaded at first use, and the engine of this process."""
    from ui.race.engine import Engine
    from ui.race.models import Models

    return Models(specs, device, dtype), Engine()


def serve(options: argparse.Namespace, port: int) -> None:
    """Build the page and serve it until interrupted."""
    os.environ.pop("GRADIO_SERVER_NAME", None)  # already applied; Gradio cannot check IPv6 addresses
    from aded.drafters import compile_ahead
    from ui import zerogpu
    from ui.serving import server
    from ui.serving.kept import KeptRaces
    from ui.serving.limits import Limits
    from ui.serving.service import Service

    sys.setswitchinterval(SWITCH_SECONDS)
    numbers = limits_of(options)
    limits = Limits(
        queue_size=numbers["queue_size"],
        at_once=numbers["at_once"],
        max_new_tokens=numbers["max_new_tokens"],
        prompt_characters=numbers["max_prompt"],
        run_seconds=numbers["run_seconds"],
        session_tokens=numbers["session_limit"] or None,
        prefix_bytes=numbers["keep_conversations"] * 1_000_000,
    )
    backend = zerogpu.backend if zerogpu.ON else local_backend
    models, engine = backend(models_of(options), options.device, options.dtype)
    races = KeptRaces(numbers["keep_races"] * 1_000_000, cache_folder() / "races")
    service = Service(models, limits, engine, races)
    open_browser = not options.no_browser and on_desktop()
    root = options.root_path.rstrip("/")
    _compiling = compile_ahead.start()  # until it is done or this process ends
    server.serve(service, server.Address(host_of(options), port, frames_of(options), options.embed == "on", open_browser, root))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app; exit status 2 for invalid options."""
    options = parse(arguments)
    prepare()
    try:
        serve(options, check(options))
    except AdedError as error:
        print(f"{program()}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the page was served
        return 0
    return 0


def run() -> NoReturn:
    """`main` as a program; it ends with status 0 if a signal arrives while it starts."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    sys.exit(main())
