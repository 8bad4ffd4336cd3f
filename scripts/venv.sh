#!/bin/sh
# Make the environment <folder> hold exactly what requirements/<name>.lock pins, hashes checked.
# usage: scripts/venv.sh <folder> <name>
#
# pip brings the few packages of bootstrap.lock; uv, one of them, brings the rest in seconds. uv
# does not read pip's settings, so they are handed over, and where uv still cannot reach the
# packages pip installs the same lock.
set -eu

folder=$1
lock=requirements/$2.lock
cd "$(dirname "$0")/.."

suitable() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c "
import sys, ensurepip, venv
sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, $2)))" >/dev/null 2>&1
}

# Releases the locks were tried on go first; a newer Python is taken only where there is no other.
find_python() {
    for newest in 13 99; do
        for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
            if suitable "$name" "$newest"; then
                echo "$name"
                return
            fi
        done
    done
    echo "error: Python 3.11 or newer (with its venv module) is needed, and none of" \
        "${PYTHON:-python3, python3.13, python3.12, python3.11} is that; set PYTHON to one" >&2
    exit 2
}

if ! "$folder/bin/python" -c "import pip" >/dev/null 2>&1; then
    python=$(find_python)
    echo "creating $folder with $("$python" --version)"
    "$python" -m venv --clear "$folder"
fi

echo "installing $lock into $folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    --requirement requirements/bootstrap.lock

by_uv() {
    (
        [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX="$PIP_INDEX_URL"
        [ -z "${PIP_EXTRA_INDEX_URL:-}" ] || export UV_INDEX="$PIP_EXTRA_INDEX_URL"
        [ -z "${PIP_FIND_LINKS:-}" ] || export UV_FIND_LINKS="$PIP_FIND_LINKS"
        [ -z "${PIP_NO_INDEX:-}" ] || export UV_NO_INDEX="$PIP_NO_INDEX"
        [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="$PIP_CERT"
        "$folder/bin/uv" pip sync --quiet --python "$folder/bin/python" --require-hashes \
            --no-build-isolation --link-mode copy "$lock"
    )
}

by_uv || {
    echo "uv could not install $lock; pip does"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
        --no-build-isolation --requirement "$lock"
}
