#!/bin/sh
# Installs the tools that the benchmark compares with, where that takes no more than asking. It runs without them, too.
set -eu

command -v mbsync >/dev/null && command -v mu >/dev/null && command -v notmuch >/dev/null && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "The benchmark compares with isync, maildir-utils (mu) and notmuch when they are installed; some are not." >&2
    exit 0
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "Installing isync, maildir-utils and notmuch to compare with ..."
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends isync maildir-utils notmuch; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "They could not be installed: the benchmark runs without those that are missing." >&2
fi
