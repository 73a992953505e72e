"""The results of a benchmark as one JSON object, and the environment in which it ran."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import aded
from aded.core.errors import AdedError

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

FORMAT, VERSION = "aded-bench", 1
FILE_OPTIONS = ("--questions", "--recorded", "--out", "--model")
"""Options whose values may be paths, of which results contain only the file name."""
FOLDERS = re.compile(r"(?<=[ =:,])/(?:[^/\s,:()]+/)*(?=[^/\s,:()])")
"""The folders of an absolute path within a label, a method or a command."""


def background(target: TargetModel | None = None) -> dict[str, Any]:
    """What figures depend on besides the settings: hardware, model, versions, commit."""
    body: dict[str, Any] = {"device": processor_name(), "dtype": None, "model": None, "tokenizer": None}
    versions = {"aded": aded.__version__, "python": platform.python_version(), "numpy": np.__version__}
    if target is not None:
        from aded.decoding.decoder import versions as engine_versions

        versions |= engine_versions()
        body["device"] = f"{target.device_name} (processor: {processor_name()})"
        body |= {"dtype": str(target.dtype).removeprefix("torch."), "model": target.label, "tokenizer": target.fingerprint}
    return {**body, "versions": versions, "commit": commit()}


def assemble(
    kind: str,
    target: TargetModel | None,
    settings: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    measured_on: Mapping[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """The results as one JSON object.

    Args:
        kind: "live", "recorded", "shape", "attention", "ablation", "fidelity" or "vllm".
        target: the model, if one ran.
        settings: what was requested.
        rows: the rows of the table.
        measured_on: the result of `background`.
        more: further fields.
    """
    body = {"format": FORMAT, "version": VERSION, "kind": kind, **measured_on, "command": command()}
    notice, footprint = getattr(target, "notice", None), getattr(target, "footprint", None)
    if footprint is not None:
        body["footprint"] = asdict(footprint)
    body |= {"notice": notice, "settings": dict(settings), **more, "rows": [_rounded(row) for row in rows]}
    return without_folders(body)


def without_folders(value: Any) -> Any:
    """A JSON value in which absolute paths after an option are reduced to file names, recursively."""
    if isinstance(value, str):
        return FOLDERS.sub("", value)
    if isinstance(value, Mapping):
        return {key: without_folders(v) for key, v in value.items()}
    return [without_folders(v) for v in value] if isinstance(value, (list, tuple)) else value


def dumps(results: Mapping[str, Any], indent: int | None = None) -> str:
    """Results as JSON text."""
    return json.dumps(results, ensure_ascii=False, allow_nan=False, indent=indent)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a ``results.json``; methods, labels and command have file names instead of absolute paths.

    Raises:
        AdedError: the file is missing or not a results file.
    """
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
        if body["format"] != FORMAT or body["version"] != VERSION or not isinstance(body["rows"], list):
            raise ValueError
    except OSError as error:
        raise AdedError(
            f"cannot read {path}: {error.strerror}; give a results.json from `python -m aded bench --out DIR`"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise AdedError(f"{path} is not a results file; give a results.json from `python -m aded bench --out DIR`") from None
    return without_folders(body)


def command(arguments: Sequence[str] | None = None) -> str:
    """The command line that repeats the run, with paths reduced to file names."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for i, word in enumerate(words):
        option, sign, value = word.partition("=")
        if sign and (option in FILE_OPTIONS or Path(value).is_absolute()):
            words[i] = f"{option}={Path(value).name}"
        elif Path(word).is_absolute() or (i and words[i - 1] in FILE_OPTIONS and Path(word).exists()):
            words[i] = Path(word).name
    return shlex.join(["python", "-m", "aded", *words])


def commit() -> str | None:
    """The commit of this code, marked if files have changed since; ``ADED_COMMIT`` overrides it. None if unknown."""
    root = Path(aded.__file__).resolve().parents[1]
    if override := os.environ.get("ADED_COMMIT"):
        return override
    if not (root / ".git").exists():
        return None
    revision = _git(root, "rev-parse", "--short=12", "HEAD")
    changed = revision and _git(root, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--", "aded")
    return f"{revision}, with changes" if changed else revision or None


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def processor_name() -> str:
    """The processor's model name, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        found = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        found = ""
    return found or platform.processor() or platform.machine() or "unknown processor"


def _rounded(value: Any) -> Any:
    """The value with floats rounded to six significant digits, recursively."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(v) for key, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, (list, tuple)) else value
