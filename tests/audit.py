"""Known faults of what is installed, by pip-audit, wherever its data can be had; run by ``make audit`` and ``make check``."""

from __future__ import annotations

import json
import subprocess
import sys


def main() -> int:
    """1 if anything installed has a known fault; 0 if nothing has, or nobody can say."""
    command = [sys.executable, "-m", "pip_audit", "--local", "--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print("not audited: the data of pip-audit cannot be had here")
        return 0
    audited = [one for one in found if "vulns" in one]
    for one in audited:
        for fault in one["vulns"]:
            print(
                f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version yet'}"
            )
    print(
        f"{len(audited)} of {len(found)} packages audited" if audited else "not audited: no package is known to pip-audit's data"
    )
    return int(any(one["vulns"] for one in audited))


if __name__ == "__main__":
    sys.exit(main())
