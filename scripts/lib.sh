# Functions that the scripts share; sourced by bash, with `set -eu` already on.
# shellcheck shell=bash

# shellcheck disable=SC2034
# The checkout, whatever folder or link the script was called through.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# The tests need Debian's python3-pytest and python3-psycopg, which only Debian's own interpreter sees.
python=${PGRAB_PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3

say() {
	printf '%s\n' "$*" >&2
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

usage_error() {
	printf '%s: %s\nTry: %s --help\n' "${0##*/}" "$*" "$0" >&2
	exit 2
}

have() {
	command -v "$1" >/dev/null 2>&1
}

# need TOOL... : stops unless every tool is there, and says how to get it.
need() {
	local tool
	for tool in "$@"; do
		have "$tool" || die "$tool is not installed. Run scripts/deps first."
	done
}

# show_help : prints the comment at the top of the calling script.
show_help() {
	sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"
}

# with_dbname DSN NAME : the same connection, another database; DSN may be key=value or a URI.
with_dbname() {
	"$python" -c 'import sys
from psycopg.conninfo import make_conninfo
print(make_conninfo(sys.argv[1], dbname=sys.argv[2]))' "$1" "$2"
}
