#!/bin/sh
# Fetches the packages of Cyrus and Courier for the long runs into .servers/. Nothing is installed, nothing is started:
# tests unpack them into folders of their own. Without them the tests that need them are skipped.
set -eu

cd "$(dirname "$0")/../.."
packages="cyrus-common cyrus-imapd courier-base courier-imap courier-authlib
    libcourier-unicode4 libgamin0 libical3 libidn12 libpcre3 libpq5 libwrap0 libxapian30"
[ -e .servers/complete ] && exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "No apt-get here: the long runs go without Cyrus and Courier." >&2
    exit 0
fi
mkdir -p .servers
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "Downloading Cyrus and Courier for the long runs ..."
[ "$(id -u)" -ne 0 ] || apt-get update -qq >"$log" 2>&1 || true
# shellcheck disable=SC2086 # a list of words
if (cd .servers && apt-get download -qq $packages) >>"$log" 2>&1; then
    touch .servers/complete
else
    cat "$log" >&2
    echo "The long runs go without Cyrus and Courier." >&2
fi
