#!/bin/sh
# Installs Dovecot for the tests when it is missing. Nothing is started: tests run servers of their own.
set -eu

PATH=$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin
command -v dovecot >/dev/null && [ -x "$(doveconf -hd libexec_dir)/imap" ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "The tests need Dovecot's IMAP server. Install it and run this again:" >&2
    echo "  Debian, Ubuntu   sudo apt-get install --no-install-recommends dovecot-imapd" >&2
    echo "  Fedora           sudo dnf install dovecot" >&2
    echo "  Alpine           doas apk add dovecot" >&2
    echo "  macOS            brew install dovecot" >&2
    exit 1
fi

# invoke-rc.d asks this file before it starts a service: 101 means no. An existing policy stays as it is.
policy=/usr/sbin/policy-rc.d
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ ! -e "$policy" ]; then
    trap 'rm -f "$log" "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
echo "Installing Dovecot for the tests ..."
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends dovecot-imapd; } >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
# Nor does it start with the next boot.
if command -v systemctl >/dev/null; then
    systemctl --quiet disable dovecot.service >/dev/null 2>&1 || true
fi
