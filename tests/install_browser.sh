#!/bin/sh
# Find a Chromium for the browser tests, or install one: the system's package, else Playwright's own.
set -u
python=$1
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if command -v apt-get >/dev/null 2>&1; then
  as_root=""
  [ "$(id -u)" = 0 ] || as_root="sudo -n"
  export DEBIAN_FRONTEND=noninteractive
  if $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; then exit 0; fi
fi
"$python" -m playwright install chromium
