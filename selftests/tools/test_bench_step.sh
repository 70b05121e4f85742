#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcache-bench step: its plot, and what is said before anything is measured.
. "$(dirname "$0")/../tap.sh"
model=$root/selftests/data/refs/tiny-mha-f16.gguf

# step OPTION...: its table is $tmp/table. says STATUS TEXT: one line with it.
step()
{
	timeout 120 "$build/kvcache-bench" step -m "$model" --threads 1 "$@" \
		>"$tmp/table" 2>"$tmp/err"
}
says()
{
	cat "$tmp/err"
	[ "$status" -eq "$1" ] && grep -q -F -e "$2" "$tmp/err" &&
		[ "$(wc -l <"$tmp/err")" -eq 1 ]
}
nothing_measured()
{
	[ ! -s "$tmp/table" ]
}

step --at 10,20
status=$?
check "places that overlap" says 1 "--at 10,20: take places at least 16 apart"
check "they are not measured" nothing_measured
step --at 10,30
status=$?
check "places that do not" [ "$status" -eq 0 ]
check "no complaint" [ ! -s "$tmp/err" ]

if ! needs gnuplot; then
	skip "plots" "no gnuplot"
	tap_end
fi
step --at 10,30 --plot "$tmp/nowhere/x.svg"
status=$?
check "no folder for the plot" \
	says 1 "$tmp/nowhere/x.svg: No such file or directory"
check "nothing was measured for it" nothing_measured
step --at 10,30 --plot "$tmp/it's.svg"
status=$?
check "a plot" [ "$status" -eq 0 ]
check "is an SVG" grep -q "</svg>" "$tmp/it's.svg"
check "no word of gnuplot" [ ! -s "$tmp/err" ]

# What gnuplot says goes nowhere, and what it does not do is told.
mkdir "$tmp/bin"
printf '#!/bin/sh\necho noise >&2\nexit 1\n' >"$tmp/bin/gnuplot"
chmod +x "$tmp/bin/gnuplot"
PATH=$tmp/bin:$PATH
step --at 10,30 --plot "$tmp/b.svg"
status=$?
check "gnuplot fails" says 1 "$tmp/b.svg: gnuplot could not write it"
printf '#!/bin/sh\ncat >/dev/null\n' >"$tmp/bin/gnuplot"
step --at 10,30 --plot "$tmp/c.svg"
status=$?
check "gnuplot writes nothing" says 1 "$tmp/c.svg: gnuplot could not write it"
tap_end
