#!/usr/bin/env bash
# Make .venv in the checkout: Python 3.11 or newer, pinned dependencies, and a JDK from PyPI where no Java 17+ is found.
#
# Runs once, again when pyproject.toml or constraints.txt change, and from scratch after an interruption. Two at a time
# are safe: the second waits for the first. Touches nothing outside the checkout, with one exception: root on a Debian
# without `venv` gets the package that has it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
self=deploy/setup.sh
done_mark=$venv/.setup-done
started=@$(date +%s.%N)

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

up_to_date() {
    [[ -e $done_mark && ! pyproject.toml -nt $done_mark && ! constraints.txt -nt $done_mark && ! $self -nt $done_mark ]]
}

# The first interpreter that starts (a pyenv shim may not), is new enough and has the modules that we build on.
find_python() {
    local candidate
    for candidate in python3.13 python3.12 python3.11 python3; do
        if "$candidate" -c 'import sys, ssl, sqlite3, ctypes; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    local python=$1 log package
    package=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
    log=$(mktemp)
    if "$python" -m venv --clear "$venv" >"$log" 2>&1; then
        :
    elif command -v virtualenv >/dev/null && virtualenv --quiet --clear --python "$python" "$venv" >>"$log" 2>&1; then
        :
    elif [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
        say "python's venv module is incomplete here: installing $package with apt-get"
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy "$package"; } >>"$log" 2>&1 &&
            "$python" -m venv --clear "$venv" >>"$log" 2>&1 || {
            cat "$log" >&2
            fail "could not make $venv; the lines above say why"
        }
    else
        cat "$log" >&2
        fail "$python cannot make a virtual environment. Run: sudo apt-get install $package — then try again"
    fi
    rm -f "$log"
}

exec 9<"$self"
if ! flock --nonblock 9; then
    say "another set-up is running here; waiting for it"
    flock 9
fi
if up_to_date; then exit 0; fi

if [[ -e $done_mark ]] && "$venv/bin/python" -c '' 2>/dev/null; then
    say "1/3 virtual environment is there; bringing it up to date"
    rm "$done_mark"
else
    python=$(find_python) || fail "no Python 3.11 or newer found (tried python3.13, python3.12, python3.11, python3)." \
        "Run: sudo apt-get install python3 python3-venv — or put a newer python3 first on PATH"
    say "1/3 virtual environment from $python ($("$python" --version 2>&1))"
    rm -rf "$venv"
    make_venv "$python"
fi

export PIP_CONSTRAINT=$PWD/constraints.txt PIP_BUILD_CONSTRAINT=$PWD/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
unset PIP_USER PYTHONHOME PYTHONPATH
say "2/3 pinned dependencies (the first time: about 600 MB, most of it Spark; a few minutes)"
"$venv/bin/python" -m pip install --quiet --use-pep517 --editable '.[spark,dev]'

if "$venv/bin/python" -m spark_jobs.java >/dev/null 2>&1; then
    say "3/3 Java 17 or newer is there"
else
    say "3/3 no Java 17 or newer found: installing a JDK from PyPI into $venv"
    "$venv/bin/python" -m pip install --quiet --editable '.[jdk]'
    "$venv/bin/python" -m spark_jobs.java >/dev/null || fail "the JDK from PyPI does not start; the lines above say why"
fi

touch --date="$started" "$done_mark" # what changed meanwhile is set up next time
say "done"
