#!/bin/sh
# Installs the system packages that are missing, as root or by sudo: `demo` (an ssh server to run on loopback), or
# `test` (also what the tests' Proxmox host and LXC container are made of).
set -eu
need=""
has() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }
has sshd || need="openssh-server"
python3 -c 'import ensurepip' 2>/dev/null || need="$need python3-venv"
if [ "${1:-demo}" = test ]; then
    has lxc-start || need="$need lxc"
    has mmdebstrap || need="$need mmdebstrap"
    has nft || need="$need nftables"
    has fuser || need="$need psmisc"
    has ip || need="$need iproute2"
    has ssh || need="$need openssh-client"
    has sudo || need="$need sudo"
    has gcc || need="$need gcc libc6-dev"
fi
[ -n "$need" ] || exit 0
[ "$(id -u)" = 0 ] && sudo="" || sudo="sudo"
if ! has apt-get; then
    echo "Please install: $need" >&2
    exit 1
fi
if [ -n "$sudo" ]; then
    echo "Missing on this machine, and installed by sudo now: $need" >&2
    if ! sudo -v; then
        echo "Please have this done as root: apt-get install $need" >&2
        exit 1
    fi
fi
$sudo apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $need >/dev/null
