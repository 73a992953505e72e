#!/bin/sh
# Find a Chromium for the browser tests, or install one: the system's package, else Playwright's own.
# The headless shell comes first: without the browser's own interface it needs half the processor time.
set -u
python=$1
found() { for name in "$@"; do command -v "$name" >/dev/null 2>&1 && return 0; done; return 1; }
if found chromium-headless-shell; then exit 0; fi
if command -v apt-get >/dev/null 2>&1; then
  as_root=""
  [ "$(id -u)" = 0 ] || as_root="sudo -n"
  export DEBIAN_FRONTEND=noninteractive
  $as_root apt-get update -qq
  for package in chromium-headless-shell chromium; do
    if $as_root apt-get install -y -qq --no-install-recommends "$package" fonts-dejavu-core >/dev/null; then exit 0; fi
  done
fi
if found chromium chromium-browser google-chrome; then exit 0; fi
"$python" -m playwright install chromium
