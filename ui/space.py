"""Assembles the folder of a Hugging Face Space, and checks it as far as possible without the hub.

``python -m ui.space --out DIR`` copies what the page needs and lists large files for Git LFS. It checks the front matter of the
README, and the requirements against the versions of torch and Python that hosted Spaces have.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aded.core.errors import AdedError
from aded.core.paths import PACKAGE

ROOT = PACKAGE.parent
CONTENT = ("README.md", "LICENSE", "app.py", "requirements.txt", "aded", "ui", "assets", "docs")
"""Files and folders of the checkout that are copied."""
LEFT_OUT = ("__pycache__", "*.pyc", "img")
"""Patterns of names that are not copied."""
LARGE = 10_000_000
"""Files above this size in bytes must be stored with Git LFS in a Space."""
TORCH = ("2.8.0", "2.9.1", "2.10.0", "2.11.0")
"""Versions of torch that Spaces with shared GPUs (ZeroGPU) support, ascending."""
PYTHON = "3.12"
"""Version of Python of the Space."""
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)),
    *("manylinux1_x86_64", "manylinux2014_x86_64", "linux_x86_64"),
)
"""Platform tags of the wheels that a Space can install."""
BUILD = "from ui.page import build; from ui.serving.service import Service; build(Service())"
"""Python code that builds the page without starting it."""
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
"""Colours that the hub knows."""
LONGEST_DESCRIPTION = 60
"""Maximum number of characters of the short description on the hub."""


def assemble(out: Path, root: Path = ROOT) -> list[Path]:
    """Copy the contents of the Space, limit torch, and write ``.gitattributes``.

    Args:
        out: the folder of the Space, new or empty.
        root: the checkout.

    Returns:
        The large files, which ``.gitattributes`` names.

    Raises:
        AdedError: ``root`` is not a checkout, or ``out`` is not empty or not writable.
    """
    if not (root / "app.py").is_file():
        raise AdedError(f"{root} contains no app.py: a Space is made from a checkout; run this in the project's folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise AdedError(f"{out} is not empty; give --out a new or empty folder")
        for name in CONTENT:
            if (root / name).is_dir():
                shutil.copytree(root / name, out / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
            else:
                shutil.copy2(root / name, out / name)
        limit_torch(out)
        large = sorted(file for file in out.rglob("*") if file.is_file() and file.stat().st_size > LARGE)
        lines = [f"{file.relative_to(out).as_posix()} filter=lfs diff=lfs merge=lfs -text\n" for file in large]
        (out / ".gitattributes").write_text("".join(lines))
    except OSError as error:
        raise AdedError(f"cannot write to {out}: {error.strerror or error}; give another --out") from None
    return large


def limit_torch(folder: Path) -> None:
    """Limit torch in requirements.txt to the versions that work on every kind of Space: newer ones do not start on ZeroGPU."""
    file = folder / "requirements.txt"
    file.write_text(re.sub(r"(?m)^torch(?![\w.-]).*$", f"torch>={TORCH[0]},<={TORCH[-1]}", file.read_text("utf-8")), "utf-8")


def front_matter(readme: str) -> dict[str, Any]:
    """The settings at the start of a Space's README: YAML between two lines of ``---``.

    Raises:
        AdedError: there are none, or they are not valid YAML.
    """
    import yaml

    parts = readme.split("---\n", 2)
    try:
        found = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0] else None
    except yaml.YAMLError:
        found = None
    if not isinstance(found, dict):
        raise AdedError("README.md has no front matter; start it with the settings of the Space between lines of ---")
    return found


def errors_of_settings(settings: Mapping[str, Any], folder: Path) -> list[str]:
    """Errors of the settings that the hub would refuse or interpret differently."""
    from packaging.requirements import Requirement

    needed = {r.name: r for r in map(Requirement, requirements(folder))}
    checks = {
        "title is empty": settings.get("title"),
        "sdk is not gradio": settings.get("sdk") == "gradio",
        "requirements.txt does not name gradio": "gradio" in needed,
        "sdk_version is outside requirements.txt": "gradio" not in needed
        or str(settings.get("sdk_version")) in needed["gradio"].specifier,
        f"python_version is not '{PYTHON}' (in quotes)": settings.get("python_version") == PYTHON,
        "app_file is not there": (folder / str(settings.get("app_file"))).is_file(),
        "colorFrom or colorTo is no colour of the hub": {settings.get("colorFrom"), settings.get("colorTo")} <= COLOURS,
        f"short_description is longer than {LONGEST_DESCRIPTION} characters": len(str(settings.get("short_description", "")))
        <= LONGEST_DESCRIPTION,
        "license is missing": settings.get("license"),
    }
    return [error for error, holds in checks.items() if not holds]


def requirements(folder: Path) -> list[str]:
    """The requirements of requirements.txt, without comments."""
    lines = (line.split("#")[0].strip() for line in (folder / "requirements.txt").read_text("utf-8").splitlines())
    return [line for line in lines if line]


def errors_of_requirements(folder: Path) -> list[str]:
    """Errors for the versions of torch on hosted Spaces that the requirements exclude."""
    from packaging.requirements import Requirement

    torch = next((r for r in map(Requirement, requirements(folder)) if r.name == "torch"), None)
    if torch is None:
        return ["requirements.txt does not name torch"]
    return [f"requirements.txt excludes torch {version}" for version in TORCH if version not in torch.specifier]


def errors_of_resolution(folder: Path) -> list[str]:
    """Errors of pip if it finds no wheels of all requirements for the Python of Spaces and their oldest torch; takes a minute."""
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--target", target]
        command += ["--python-version", PYTHON, "--only-binary=:all:", *(f"--platform={name}" for name in PLATFORMS)]
        done = subprocess.run(
            [*command, "-r", str(folder / "requirements.txt"), f"torch=={TORCH[0]}"], capture_output=True, text=True, check=False
        )
    return [line for line in done.stderr.splitlines() if line.startswith("ERROR")] if done.returncode else []


def errors_of_environment(folder: Path, python: str) -> list[str]:
    """Install the requirements in a fresh virtual environment and build the page there; takes minutes.

    Args:
        python: the interpreter of the environment.

    Returns:
        The error of the first command that failed; empty if none did.
    """
    with tempfile.TemporaryDirectory() as environment:
        steps = (
            [python, "-m", "venv", environment],
            [f"{environment}/bin/python", "-m", "pip", "install", "--quiet", "-r", str(folder / "requirements.txt")],
            [f"{environment}/bin/python", "-c", BUILD],
        )
        for step in steps:
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                return [f"`{' '.join(step[:4])} …` failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"]
    return []


def python_of_spaces() -> str | None:
    """An interpreter of the Python version of Spaces; None if none is installed or it does not run."""
    found = shutil.which(f"python{PYTHON}")
    try:
        if found is not None:
            subprocess.run([found, "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Assemble and check the folder; returns the exit status: 0, 1 if the folder has errors, 2 if it cannot be assembled."""
    parser = argparse.ArgumentParser(prog="python -m ui.space", description="Assemble the folder of a Space and check it.")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="new or empty")
    parser.add_argument("--quick", action="store_true", help="skip checks that use a package index")
    options = parser.parse_args(arguments)
    try:
        large = assemble(options.out)
        errors = errors_of_settings(front_matter((options.out / "README.md").read_text("utf-8")), options.out)
    except AdedError as error:
        print(f"space: error: {error}", file=sys.stderr)
        return 2
    errors += errors_of_requirements(options.out)
    for file in large:
        print(f"{file.relative_to(options.out)}: {file.stat().st_size / 1e6:.1f} MB, through Git LFS (in .gitattributes)")
    if not options.quick:
        errors += errors_of_resolution(options.out)
        python = python_of_spaces()
        errors += errors_of_environment(options.out, python) if python else []
        print(f"built with Python {PYTHON}" if python else f"Python {PYTHON} is not installed: the page was not built with it")
    for text in errors:
        print(f"error: {text}")
    files = [file for file in options.out.rglob("*") if file.is_file()]
    print(f"{options.out}: {len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
