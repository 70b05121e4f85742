#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcachetop on the module: its frames have the numbers of kvcachectl. And what
# kvcachectl doctor and map say of a module that is well.
. "$(dirname "$0")/../tap.sh"
top=$build/kvcachetop
if [ ! -c /dev/kvcache ] || [ ! -x "$build/kvcachectl" ]; then
	skip "kvcachetop and doctor on the module" \
		"no $build/kvcachectl, or no device"
	tap_end
fi
export KVCACHE=/dev/kvcache KVATTN_ISA=scalar
. "$root/selftests/tools/ctl_kit.sh"

made()
{
	"$ctl" pool create main --size 8M --page 64K &&
		"$ctl" tenant create a --min 1M --low 2M --max 3M &&
		"$ctl" tenant create b &&
		"$run" -m "$refs/tiny-mha-f16.gguf" --tenant a -q -n 80 -p x
}
# fields NAME: current, min, low, max and cached pages of a tenant.
fields()
{
	"$ctl" tenant ls --json |
		sed "s/.*\"name\":\"$1\"//; s/}.*//" | tr ',' '\n' |
		sed -n 's/^"\(current\|min\|low\|max\|cached\)_pages":/\1 /p' |
		sed 's/null/max/' | sort
}
# The row of a frame that is 120 wide, which has all columns but two.
shown()
{
	"$top" -b -n 1 --pages --width 120 >"$tmp/frame" &&
		sed -n "s/^$1  *//p" "$tmp/frame" |
		awk '{ print "current " $1; print "cached " $2; print "min " $3
		       print "low " $4; print "max " $5 }' | sort
}
same()
{
	for t in a b; do
		fields $t >"$tmp/want" && shown $t >"$tmp/got" &&
			[ "$(wc -l <"$tmp/want")" -eq 5 ] &&
			diff "$tmp/want" "$tmp/got" || return
	done
	cat "$tmp/frame"
	grep -q '^kvcachetop  device ' "$tmp/frame" || return
	has pool ls = '"name":"main"' || return
	grep -q "^  private $(value private_pages)  shared $(value shared_pages)  cached $(value cached_pages)  retiring $(value retiring_pages)  free $(value free_pages)  wait 0" \
		"$tmp/frame"
}
mapped()
{
	has pool ls = '"name":"main"' && cached=$(value cached_pages) &&
		[ "$cached" -gt 0 ] &&
		has map --by state = "\"name\":\"cached\",\"pages\":$cached"
}
# As far as the module is concerned.
well()
{
	"$ctl" doctor -d /dev/kvcache
	"$ctl" doctor -d /dev/kvcache --json >"$tmp/json"
	grep -q '"check":"module","status":"ok"' "$tmp/json" &&
		grep -q '"check":"node","status":"ok","cause":"ok","text":"/dev/kvcache can be opened"' \
			"$tmp/json"
}
no_node()
{
	mv /dev/kvcache /dev/aside
	env -u KVCACHE "$ctl" doctor --json >"$tmp/json"
	got=$?
	mv /dev/aside /dev/kvcache
	cat "$tmp/json"
	[ $got -eq 1 ] && grep -q '"cause":"node-absent"' "$tmp/json"
}
removed()
{
	"$ctl" delete a && "$ctl" delete b && "$ctl" pool rm main
}

check "a pool and two tenants" made
if [ -x "$top" ]; then
	check "kvcachetop says what kvcachectl says" same
else
	skip "kvcachetop says what kvcachectl says" "no $top"
fi
check "a map of the pool" mapped
check "doctor: the module is well" well
# Of a machine that is thrown away: nodes can be moved.
if [ -e /etc/plan ]; then
	check "doctor: the node is gone" no_node
else
	skip "doctor: the node is gone" "no machine of the tests' own"
fi
check "nothing is left of it" removed
tap_end
