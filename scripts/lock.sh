#!/bin/sh
# Write requirements/*.lock from pyproject.toml: pinned, with the hashes of the public index,
# for Python 3.11 and later on every platform, and naming no host.
# Pins that still fit are kept; `make lock UPGRADE=1` takes the newest of everything.
set -eu

cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}

# A local folder of wheels may hold rebuilt files with hashes of their own.
unset PIP_FIND_LINKS UV_FIND_LINKS

compile() {
    lock=$1
    shift
    "$uv" pip compile "$@" --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet \
        ${UPGRADE:+--upgrade} --output-file "$lock"
    echo "$lock: $(grep -c '^[a-z].*==' "$lock") pins"
}

compile requirements/bootstrap.lock --group pyproject.toml:bootstrap
compile requirements/dev.lock pyproject.toml --group dev --group docs \
    --constraint requirements/bootstrap.lock
compile requirements/interop.lock pyproject.toml --group interop \
    --constraint requirements/bootstrap.lock
compile requirements/executor.lock --group pyproject.toml:executor \
    --constraint requirements/dev.lock
