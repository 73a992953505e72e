"""Known vulnerabilities of installed packages, by pip-audit if it has data; ``make audit`` and ``make check`` run it."""

from __future__ import annotations

import json
import subprocess
import sys


def main() -> int:
    """Exit status: 1 if an installed package has a known vulnerability, else 0, also if the data is not available."""
    command = [sys.executable, "-m", "pip_audit", "--local", "--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print("not audited: the data of pip-audit is not available")
        return 0
    audited = [one for one in packages if "vulns" in one]
    for one in audited:
        for found in one["vulns"]:
            print(
                f"{one['name']} {one['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'no version yet'}"
            )
    print(
        f"{len(audited)} of {len(packages)} packages audited"
        if audited
        else "not audited: the data of pip-audit has none of the packages"
    )
    return int(any(one["vulns"] for one in audited))


if __name__ == "__main__":
    sys.exit(main())
