#!/bin/sh
# Lint the page's scripts and style sheets with Biome, if npx can install it; run by `make check`.
# Usage: tests/lint_page.sh <npm package with its version>
if ! command -v npx >/dev/null || ! npx --yes "$1" --version >/dev/null 2>&1; then
  echo "the page's scripts and style sheets are not linted: npx cannot install $1"
  exit 0
fi
exec npx --yes "$1" lint --config-path=tests/js/lint.jsonc --error-on-warnings assets/page assets/cards tests/js
