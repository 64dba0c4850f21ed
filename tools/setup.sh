#!/usr/bin/env bash
# Makes .venv ready: an interpreter, the locked packages, the project itself.  Called by `make setup`; safe to repeat.
#
# A second run does nothing when the lock file, pyproject.toml and this script are as they were, so that it takes
# well under a second.  What only root may install (the venv module, bubblewrap, a font) is installed through apt when we are
# root and apt is there; otherwise it is named.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV="${VENV:-.venv}"
LOCK=requirements/dev.txt
STAMP="$VENV/.setup-stamp"

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

apt_install() {
    # Quietly no: the caller says what it means when a package stays away.
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $* with apt-get"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null 2>&1 || return 1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1
}

python_new_enough() {
    "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python_has_venv() {
    "$1" -c 'import venv, ensurepip' >/dev/null 2>&1
}

python_find() {
    # The system's interpreter comes first: jobs run as unprivileged users, who can read it.  An interpreter in
    # somebody's home folder works too, but isolated jobs cannot use it.
    local candidate fallback=""
    for candidate in ${PYTHON:-} /usr/bin/python3 /usr/local/bin/python3 python3.13 python3.12 python3.11 python3 python3.14; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        python_new_enough "$candidate" || continue
        if python_has_venv "$candidate"; then
            printf '%s\n' "$candidate"
            return 0
        fi
        fallback="${fallback:-$candidate}"
    done
    [ -n "$fallback" ] || return 1
    printf '%s\n' "$fallback"
}

venv_create() {
    local python
    python="$(python_find)" || fail "Python 3.11 or newer is needed and none was found.
setup: On Debian 12 or Ubuntu 24.04: apt-get install python3 python3-venv.  Elsewhere set PYTHON=/path/to/python3."
    if ! python_has_venv "$python"; then
        apt_install python3-venv || true
        python_has_venv "$python" || fail "$python has no venv module.  Install it: apt-get install python3-venv"
    fi
    say "creating $VENV with $("$python" --version) ($python)"
    "$python" -m venv --clear "$VENV"
}

venv_usable() {
    # A moved checkout leaves scripts that point elsewhere; a removed interpreter leaves a dangling link.
    [ -x "$VENV/bin/python" ] && python_new_enough "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1 &&
        { [ ! -e "$VENV/bin/pip" ] || head -n 1 "$VENV/bin/pip" | grep -qF "$(pwd)/"; }
}

fingerprint() {
    { cat "$LOCK" pyproject.toml tools/setup.sh; pwd; } | sha256sum | cut -d ' ' -f 1
}

packages_install() {
    # --no-deps: the lock is complete, so there is nothing to resolve and nothing unlocked can come in.
    say "installing the locked packages"
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip install -q --require-hashes --no-deps -r "$LOCK"
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip install -q --no-deps --no-build-isolation --no-index -e .
    # Where PYTHONDONTWRITEBYTECODE is set every start would compile every module again, several times slower.
    "$VENV/bin/python" -m compileall -q "$VENV"/lib/python3*/site-packages >/dev/null 2>&1 || true
}

bubblewrap_ensure() {
    command -v bwrap >/dev/null 2>&1 && return 0
    apt_install bubblewrap && return 0
    say "bubblewrap is missing, so jobs on this machine run without isolation; install it: apt-get install bubblewrap"
}

fonts_ensure() {
    # PDF invoices with Chinese names on them; asked of fontconfig, which Debian's font packages come with.
    ls /usr/share/fonts/opentype/noto/NotoSansCJK-*.ttc >/dev/null 2>&1 && return 0
    command -v fc-list >/dev/null 2>&1 && [ -n "$(fc-list :lang=zh 2>/dev/null)" ] && return 0
    apt_install fonts-noto-cjk && return 0
    say "a font for Chinese is missing, so PDF reports with Chinese text are refused; install it: apt-get install fonts-noto-cjk"
}

main() {
    local wanted
    wanted="$(fingerprint)"
    if [ -x "$VENV/bin/millpond" ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$wanted" ] && "$VENV/bin/python" -c '' 2>/dev/null; then
        return 0
    fi
    bubblewrap_ensure
    fonts_ensure
    venv_usable || venv_create
    packages_install
    [ -x "$VENV/bin/millpond" ] || fail "$VENV/bin/millpond did not appear; remove $VENV and try again"
    printf '%s\n' "$wanted" >"$STAMP"
    say "ready: $VENV/bin/millpond"
}

main "$@"
