"""The folder of a Space: assembled, then checked as far as possible without the hub.

``python -m ui.space --out DIR`` copies what the page needs, lists large files for Git LFS, and checks the
front matter, and the requirements against the versions of torch and Python of hosted Spaces.
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
LEFT_OUT = ("__pycache__", "*.pyc", "img")
LARGE = 10_000_000
"""Files above this size in bytes must be stored with Git LFS in a Space."""
TORCH = ("2.8.0", "2.9.1", "2.10.0", "2.11.0")
PYTHON = "3.12"
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)),
    *("manylinux1_x86_64", "manylinux2014_x86_64", "linux_x86_64"),
)
BUILD = "from ui.page import build; from ui.serving.service import Service; build(Service())"
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
LONGEST_DESCRIPTION = 60


def assemble(out: Path, root: Path = ROOT) -> list[Path]:
    """Copy the contents of the Space; returns its large files, which ``.gitattributes`` names.

    Raises:
        AdedError: this is not a checkout, or the folder is not empty or not writable.
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
    """Limit torch to versions of every kind of Space: newer ones do not start on shared GPUs (ZeroGPU)."""
    file = folder / "requirements.txt"
    file.write_text(re.sub(r"(?m)^torch\b.*$", f"torch>={TORCH[0]},<={TORCH[-1]}", file.read_text("utf-8")), "utf-8")


def front_matter(readme: str) -> dict[str, Any]:
    """The settings at the start of a Space's README.

    Raises:
        AdedError: there are none.
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
    """Settings that the hub would refuse or interpret differently."""
    from packaging.requirements import Requirement

    needed = {r.name: r for r in map(Requirement, requirements(folder))}
    checks = {
        "title is empty": settings.get("title"),
        "sdk is not gradio": settings.get("sdk") == "gradio",
        "sdk_version is outside requirements.txt": str(settings.get("sdk_version")) in needed["gradio"].specifier,
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
    """Versions of torch on hosted Spaces that the requirements exclude."""
    from packaging.requirements import Requirement

    torch = next((r for r in map(Requirement, requirements(folder)) if r.name == "torch"), None)
    if torch is None:
        return ["requirements.txt does not name torch"]
    return [f"requirements.txt excludes torch {version}" for version in TORCH if version not in torch.specifier]


def errors_of_resolution(folder: Path) -> list[str]:
    """Check that pip finds wheels of all requirements for the Spaces' Python and their oldest torch; takes a minute."""
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--target", target]
        command += ["--python-version", PYTHON, "--only-binary=:all:", *(f"--platform={name}" for name in PLATFORMS)]
        done = subprocess.run(
            [*command, "-r", str(folder / "requirements.txt"), f"torch=={TORCH[0]}"], capture_output=True, text=True, check=False
        )
    return [line for line in done.stderr.splitlines() if line.startswith("ERROR")] if done.returncode else []


def errors_of_environment(folder: Path, python: str) -> list[str]:
    """Check that the page can be built in a fresh environment of this Python with the requirements; takes minutes."""
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
    """A Python interpreter of the Spaces' version; None if there is none that runs."""
    found = shutil.which(f"python{PYTHON}")
    try:
        if found is not None:
            subprocess.run([found, "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Assemble and check; exit status 1 if the folder has errors, 2 if it cannot be made."""
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
