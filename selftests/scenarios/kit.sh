# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# kit.sh - a pool of a real backend for kvcache-run: $KVCACHE_TEST_DEVICE is a
# device or a broker's socket that nobody else uses; where it is not set, a
# broker is started, and ended by its number.
#
#	. "$(dirname "$0")/kit.sh"
#	place 256M 1M			# $where, a pool, and what uses it:
#	ctl tenant create red
#	run -p Hello			# kvcache-run there, the model chosen
#	begin one --tenant red		# one that stays, and answers lines
#	ask one '{"prompt":"Hello"}'	# ... which are then in $tmp/one.answer
#	stop one			# "one" or "two"; not within check
#	place_end			# instead of tap_end
#
# The model is $KVCACHE_MODEL, or where that is not set a small one.

. "$(dirname "$0")/../broker/broker.sh"

model=${KVCACHE_MODEL:-}
real=$model
[ -n "$model" ] || model=$root/selftests/data/refs/tiny-mha-f16.gguf
where=${KVCACHE_TEST_DEVICE:-}
ids=''
# Products that do not depend on how many rows there are: what was found and what
# is computed anew lead to the same text.
weights=f32
# Bytes of a prompt for a token of it, roughly.
[ -n "$real" ] && bytes=4 || bytes=1

ctl()
{
	"$build/kvcachectl" -d "$where" "$@"
}

# Fewer threads than processes: they are to wait for pages, not for a CPU.
run()
{
	KVCACHE=$where "$build/kvcache-run" -m "$model" --weights "$weights" \
		--threads 1 "$@"
}

# Alone, in a process of its own, with pages of the same size.
solo()
{
	KVCACHE=local:bytes=$pool_size,page=$pool_page \
		"$build/kvcache-run" -m "$model" --weights "$weights" \
		--threads 1 "$@"
}

# until COMMAND...: it succeeds within a minute.
until_true()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || return
		sleep 0.1
	done
}

# place SIZE PAGE: a pool of so many bytes, in pages of so many.
place()
{
	pool_size=$1 pool_page=$2
	trap 'leave; rm -rf "$tmp"' EXIT
	if [ -z "$where" ]; then
		broker_start >"$tmp/made" 2>&1 || {
			sed 's/^/# /' "$tmp/made"
			exit 1
		}
		where=$socket
	fi
	ctl pool create scenario --size "$1" --page "$2" >"$tmp/made" 2>&1 || {
		sed 's/^/# /' "$tmp/made"
		exit 1
	}
}

# little_place OPTION...: 20 pages, in which eight conversations of $words leave
# no room for others, and $options for them.
little_place()
{
	words='keys and values live in pages, and every page has one owner at a time.'
	options="--ignore-end $*"
	if [ -n "$real" ]; then
		place 20M 1M
		words="$words $words $words"
	else
		place 1280K 64K
		options="$options --kv f32"
	fi
	check "a tenant is made" ctl tenant create red
}

# Whoever is there goes, and what was made.
leave()
{
	for id in $ids; do
		stop "$id"
	done
	[ -n "$where" ] || return 0
	if [ -n "$broker_pid" ]; then
		where=
		broker_stop
		return
	fi
	for t in $(ctl tenant ls 2>/dev/null | awk 'NR > 1 { print $1 }'); do
		ctl tenant rm "$t"
	done
	until_true ctl pool rm scenario
	where=
} >/dev/null 2>&1

# Nobody holds anything, the books are right, and the broker ends as it should.
place_end()
{
	for id in $ids; do
		stop "$id"
	done
	if [ -n "$broker_pid" ]; then
		check "the broker's books are right" broker_is_clean
	else
		check "the module's books are right" grep -x ok \
			/sys/kernel/debug/kvcache/verify
	fi
	leave
	check "nothing is left" test $? -eq 0
	tap_end
}

# What only a real model shows.
needs_model()
{
	[ -n "$real" ] || skip "$1" "no model: \$KVCACHE_MODEL"
	[ -n "$real" ]
}

# ---- what stays and answers ------------------------------------------------

# begin ID OPTION...
begin()
{
	id=$1
	shift
	mkfifo "$tmp/$id.in" && : >"$tmp/$id.out" || return
	# The process is the program itself, and has nobody's descriptors.
	(
		exec 8>&- 9>&-
		KVCACHE=$where exec "$build/kvcache-run" -m "$model" \
			--weights "$weights" --threads 1 --requests - \
			--jsonl="$tmp/$id.out" -q "$@" \
			<"$tmp/$id.in" >"$tmp/$id.log" 2>&1
	) &
	eval "pid_$id=$!"
	ids="$ids $id"
	# It reads to the end, which comes when this is closed.
	case $id in
	one)	exec 8>"$tmp/$id.in" ;;
	two)	exec 9>"$tmp/$id.in" ;;
	esac
}

pid_of()
{
	eval "echo \"\$pid_$1\""
}

# More lines than $2 in what $1 said; or it ended.
answered()
{
	[ "$(wc -l <"$tmp/$1.out")" -gt "$2" ]
}

# ask ID JSON...: the answers, one a line.
ask()
{
	id=$1
	shift
	before=$(wc -l <"$tmp/$id.out")
	for line; do
		case $id in
		one)	echo "$line" >&8 ;;
		two)	echo "$line" >&9 ;;
		esac
	done
	tries=0
	until answered "$id" $((before + $# - 1)); do
		tries=$((tries + 1))
		if ! kill -0 "$(pid_of "$id")" 2>/dev/null ||
				[ "$tries" -gt 3000 ]; then
			cat "$tmp/$id.log"
			return 1
		fi
		sleep 0.1
	done
	tail -n +$((before + 1)) "$tmp/$id.out" >"$tmp/$id.answer"
}

# It ends by itself, having nothing more to read: how, is in $stopped.
stop()
{
	case $1 in
	one)	exec 8>&- ;;
	two)	exec 9>&- ;;
	esac
	wait "$(pid_of "$1")"
	# shellcheck disable=SC2034 # for the tests
	stopped=$?
	rm -f "$tmp/$1.in"
	ids=$(echo " $ids " | sed "s/ $1 / /")
}

# With signal 9, at once.
murder()
{
	kill -s KILL "$(pid_of "$1")"
	stop "$1"
}

# ---- what they say ---------------------------------------------------------

# value NAME FILE: a number of a conversation, without its fraction.
value()
{
	sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$2" | head -n 1
}

# What was generated.
tokens()
{
	grep -o '"ids":\[[^]]*\]' "$1"
}

# Pages of the pool, by state.
pages()
{
	ctl pool ls --json | grep -o "\"$1_pages\":[0-9]*" | head -n 1 | cut -d: -f2
}

# Text of about so many tokens, as a JSON string without its quotes.
text()
{
	head -c $(($1 * bytes)) "$root/selftests/data/refs/prompt-long.txt" |
		tr -c '[:alnum:] .,\n' ' ' | tr '\n' ' '
}
