#!/bin/sh
# Say in one line on stderr, with exit code 2, when there is no Java 17: JAVA_HOME first, then PATH.
# Only shell built-ins are used, so that the answer does not depend on what else PATH holds.
set -u

wanted=17

fail() {
    echo "error: Java $wanted is needed, but $1; install it and put it on PATH or set JAVA_HOME" >&2
    exit 2
}

if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    [ -x "$java" ] || fail "JAVA_HOME ($JAVA_HOME) has no bin/java"
else
    java=$(command -v java) || fail "there is no java on PATH"
fi

answer=$("$java" -version 2>&1) || fail "$java does not run"
case $answer in
    *'version "'*) ;;
    *) fail "$java does not tell its version" ;;
esac
version=${answer#*version \"}
version=${version%%\"*}
case $version in
    "$wanted" | "$wanted".* | "$wanted"+* | "$wanted"-*) ;;
    *) fail "$java is version $version" ;;
esac
