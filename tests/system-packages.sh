#!/bin/sh
# The one system package that the demo and the tests need: an ssh server to run on loopback.
set -eu
need=""
[ -x /usr/sbin/sshd ] || command -v sshd >/dev/null 2>&1 || need="openssh-server"
python3 -c 'import ensurepip' 2>/dev/null || need="$need python3-venv"
[ -n "$need" ] || exit 0
[ "$(id -u)" = 0 ] && sudo="" || sudo="sudo"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "Please install: $need" >&2
    exit 1
fi
$sudo apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $need >/dev/null
