"""Command-line options of a decode: prompt, model, length, node budget, sampling, and the settings of the methods."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from aded.cli import method_options
from aded.cli.model_options import add_model_options
from aded.core.errors import AdedError, check_text
from aded.core.limits import MAX_NODES
from aded.core.validation import model_files

if TYPE_CHECKING:
    from aded.decoding.decoder import GenerationSettings

LONGEST = 2**24
"""Characters of a prompt file, more than any model's context holds; without a limit, /dev/zero would fill the memory."""
BUDGET = f"maximum nodes of a draft tree, root included, at most {MAX_NODES}; auto (default): from measured costs"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--prompt", help="the prompt")
    source.add_argument("--prompt-file", metavar="F", help="file with the prompt; - is the standard input")
    add_model_options(parser)
    parser.add_argument(
        "--max-new-tokens", type=int, default=128, metavar="N", help="maximum number of new tokens (default: 128)"
    )
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy (default)")
    parser.add_argument("--top-k", type=int, default=0, metavar="K", help="0 keeps all tokens (default)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="1 keeps all tokens (default)")
    parser.add_argument("--min-p", type=float, default=0.0, metavar="P", help="0 keeps all tokens (default)")
    parser.add_argument("--repetition-penalty", type=float, default=1.0, metavar="R", help="1 is none (default)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the random numbers (default: 0)")
    parser.add_argument("--stop", action="append", default=[], metavar="S", help="a string that ends the text; may be repeated")
    parser.add_argument("--budget", type=budget, default="auto", metavar="auto|N", help=BUDGET)
    parser.add_argument("--raw", action="store_true", help="do not apply the chat template to the prompt")
    method_options.add(parser)


def budget(text: str) -> int | str:
    """A node budget: ``auto`` or a number."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"budget is {text!r}; give 'auto' or a number of nodes") from None


def settings(options: argparse.Namespace) -> GenerationSettings:
    """The settings of a decode from these options."""
    from aded.decoding.decoder import GenerationSettings

    names = (field.name for field in fields(GenerationSettings))
    return GenerationSettings(**{name: getattr(options, name) for name in names})


def prompt(options: argparse.Namespace) -> str:
    """The prompt of ``--prompt`` or ``--prompt-file``.

    Raises:
        AdedError: there is none, or the file cannot be read.
    """
    if options.prompt is None and options.prompt_file is None:
        raise AdedError("there is no prompt; give --prompt TEXT or --prompt-file F")
    return check_prompt(_prompt_of_file(options) if options.prompt is None else options.prompt)


def check_prompt(text: str) -> str:
    """The text of a prompt.

    Raises:
        AdedError: it is blank or not valid Unicode.
    """
    check_text(text, "the prompt")
    if not text.strip():
        raise AdedError("the prompt is blank; write some text")
    return text


def inputs(options: argparse.Namespace, given: Mapping[str, Any]) -> list[str | None]:
    """The files that a decode reads: the prompt, the model, and the artifacts and draft models of ``given`` method options.

    Raises:
        AdedError: an artifact cannot be read.
    """
    return [options.prompt_file, *model_files(options.model), *method_options.files(given)]


def _prompt_of_file(options: argparse.Namespace) -> str:
    try:
        with nullcontext(sys.stdin) if options.prompt_file == "-" else open(options.prompt_file, encoding="utf-8") as file:
            text = file.read(LONGEST + 1).removeprefix("\ufeff")  # the byte order mark that some editors write
    except OSError as error:
        raise AdedError(f"cannot read {options.prompt_file}: {error.strerror}; give the path of a text file") from None
    except UnicodeDecodeError:
        raise AdedError(f"{options.prompt_file} is not UTF-8 text; save it as UTF-8") from None
    if len(text) > LONGEST:
        raise AdedError(f"{options.prompt_file} has more than {LONGEST:,} characters; give a shorter prompt")
    return text
