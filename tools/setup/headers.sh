#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Check that headers of other libraries can be included, and name the package
# of each that cannot.
#
#	headers.sh "COMPILER" HEADER:PACKAGE...
set -u
cc=$1
shift
if ! command -v "${cc%% *}" >/dev/null; then
	echo "needs a compiler: no ${cc%% *} here: run make setup, or apt-get install gcc" >&2
	exit 1
fi
missing=
for pair in "$@"; do
	# shellcheck disable=SC2086 # $cc may carry options
	printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <%s>\n' "${pair%%:*}" |
		$cc -x c -fsyntax-only - 2>/dev/null ||
		missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit
echo "needs$missing: run make setup, or apt-get install$missing" >&2
exit 1
