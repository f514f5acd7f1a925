#!/usr/bin/env bash
# Installs the named Debian packages whose programs are missing; says what to do where it may not.
set -euo pipefail

has() {
    case "$1" in
        redis-server) command -v redis-server ;;
        postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' || command -v initdb ;;
        chromium) command -v chromium || command -v chromium-browser ;;
        nodejs) command -v node ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

missing=()
for package in "$@"; do
    has "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "The tests need these programs, please install them: ${missing[*]}" >&2
    exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo)
    else
        echo "The tests need packages that this user may not install. Please run:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
fi

echo "Installing ${missing[*]} ..."
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
# A package's own service is not wanted: the tests start their servers on free ports.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod +x "$policy"
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
