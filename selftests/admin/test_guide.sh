#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 300
#
# The commands of Documentation/admin-guide/quickstart.rst, as they stand there,
# print what the page shows. guide.py has the rules.
. "$(dirname "$0")/../tap.sh"
page=$root/Documentation/admin-guide/quickstart.rst
run=$root/selftests/admin/guide.py
model=SmolLM2-135M-Instruct.Q4_1.gguf

why=
[ -x "$build/kvcachefs" ] || why="no kvcachefs: needs libfuse3-dev"
[ -r /dev/fuse ] && [ -w /dev/fuse ] || why="no /dev/fuse"
needs fusermount3 || why="needs fuse3"
needs python3 || why="needs python3"
[ ! -e /dev/kvcache ] || why="there is a device here, which goes first"
case ${KVCACHE_MODEL:-} in
*/$model) ;;
*) why="no $model: \$KVCACHE_MODEL" ;;
esac
if [ -n "$why" ]; then
	skip "the quick start" "$why"
	tap_end
fi

# A source tree whose build/ is what is tested.
mkdir -p "$tmp/tree" "$tmp/run" "$tmp/view"
chmod 700 "$tmp/run"
for f in "$root"/*; do
	[ "$(basename "$f")" = build ] || ln -s "$f" "$tmp/tree/"
done
ln -s "$build" "$tmp/tree/build"
# The same flags as the build has, or everything would be built again.
CC=$(sed 's/ -std=.*//' "$build/.flags")
export CC
grep -q -e ' -Werror ' "$build/.flags" && { WERROR=1; export WERROR; }

# guide PAGE
guide()
{
	(cd "$tmp/tree" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
		-u MAKEOVERRIDES -u O -u KVCACHE XDG_RUNTIME_DIR="$tmp/run" \
		TMPDIR="$tmp/view" python3 "$run" "$1" "Ten commands" 10)
}
check "ten commands, and what they print" guide "$page"

# With one command less, or another number, it is not the page.
notices()
{
	sed "$1" "$page" >"$tmp/wrong.rst"
	! cmp -s "$page" "$tmp/wrong.rst" && ! guide "$tmp/wrong.rst" &&
		! grep -q -F " $tmp/" /proc/mounts
}
check "nine commands are noticed" notices '/\$ kvcachectl tenant create blue/d'
check "another number is noticed" notices 's,commons/current:main 6291456,commons/current:main 6291457,'

check "no mount is left" sh -c "! grep -F ' $tmp/' /proc/mounts"
check "no broker is left" [ ! -S "$tmp/run/kvcache/broker" ]
tap_end
