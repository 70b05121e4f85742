#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Tiers under kvcache-run: conversations that come back from files, a prefix that
# two hosts share through a server, and what goes wrong. Two network namespaces
# are the hosts.
. "$(dirname "$0")/../tap.sh"
here=$root/selftests/levers
model=${KVCACHE_MODEL:-}
server='' relay='' hosts=''
secret=cUr4Cr8yvSJ5
# What was read and what is computed lead to the same text.
set -- --weights f32 --threads 2 --page-size 512K -q --ignore-end

leave()
{
	[ -z "$relay" ] || kill "$relay" 2>/dev/null
	[ -z "$server" ] || kill "$server" 2>/dev/null
	for ns in $hosts; do
		ip netns delete "$ns"
	done
	rm -rf "$tmp"
}
trap leave EXIT

# The middle one of what $1 says of the conversations of turn $2 in file $3.
median()
{
	python3 -c '
import json, sys
v = sorted(c[sys.argv[1]] for c in json.load(open(sys.argv[3]))["conversations"]
           if c["turn"] == int(sys.argv[2]))
print(v[len(v) // 2])' "$1" "$2" "$3"
}
# What a tier, the first, counted.
counted()
{
	python3 -c '
import json, sys
print(json.load(open(sys.argv[2]))["tiers"][0][sys.argv[1]])' "$1" "$2"
}
# The same tokens in two files of results.
same()
{
	python3 -c '
import json, sys
a, b = (sorted((c["id"], c["turn"], c["ids"])
               for c in json.load(open(f))["conversations"])
        for f in sys.argv[1:])
if not a or a != b:
    sys.exit("%s\n%s" % (a, b))' "$1" "$2"
}

# ---- 16 conversations in a pool for 4 ------------------------------------

turns()
{
	out=$1
	shift
	timeout 600 "$here/turns.py" "$out" "$build/kvcache-run" -m "$model" \
		--pool 80M "$@" >"$out.lines"
}
with_files()
{
	turns "$tmp/on" "$@" --tier "file:$tmp/files"
}
returns_fast()
{
	first=$(median first_token_ms 1 "$tmp/on")
	again=$(median first_token_ms 2 "$tmp/on")
	echo "first token: $first ms computed, $again ms brought back"
	[ "$(median reused_tokens 2 "$tmp/on")" -ge 600 ] &&
		[ "$(echo "$again <= 0.2 * $first" | bc)" = 1 ]
}
forgets()
{
	[ "$(median reused_tokens 2 "$tmp/off")" -eq 0 ]
}
if [ -z "$model" ]; then
	skip "16 conversations in a pool for 4" "needs the model"
else
	check "16 conversations in a pool for 4, over files" with_files "$@"
	check "a first token in 0.2 of what computing takes" returns_fast
	check "the same without a tier" turns "$tmp/off" "$@"
	check "nothing of them is left there" forgets
	check "the same text" same "$tmp/on" "$tmp/off"
fi

# ---- one prompt, several processes ---------------------------------------

[ -n "$model" ] || model=$root/selftests/data/refs/tiny-mha-f16.gguf
# A text that begins anew, and so is sure of how it goes on: what is computed by
# other steps may be another text where two tokens are as likely.
licence=/usr/share/common-licenses/GPL-3
{
	head -c 1600 $licence
	head -c 820 $licence
} >"$tmp/prompt"
[ -n "${KVCACHE_MODEL:-}" ] || {
	head -c 300 "$tmp/prompt" >"$tmp/short"
	mv "$tmp/short" "$tmp/prompt"
	set -- --weights f32 --threads 2 --page-size 4K -q --ignore-end
}
# prompt OUT ARGUMENT...: where $on says.
prompt()
{
	out=$1
	shift
	# shellcheck disable=SC2086 # a command and its arguments
	timeout 120 ${on:-} "$build/kvcache-run" -m "$model" --raw \
		-f "$tmp/prompt" -n 6 --pool 64M --json="$out" "$@"
}
check "alone" prompt "$tmp/alone" "$@"
check "it is stored in files" \
	prompt "$tmp/one" "$@" --tier "file:$tmp/shared,policy=through"
found()
{
	[ "$(counted used "$1")" -gt 0 ] && same "$tmp/alone" "$1"
}
another()
{
	prompt "$tmp/two" "$@" --tier "file:$tmp/shared" && found "$tmp/two"
}
check "another process finds it" another "$@"
# Each file is damaged: in its head, in its middle, or cut off.
damage()
{
	python3 -c '
import os, sys
n = 0
for name in sorted(os.listdir(sys.argv[1])):
    if len(name) != 64:
        continue
    path = os.path.join(sys.argv[1], name)
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        if n % 3 == 2:
            f.truncate(size // 2)
        else:
            f.seek(40 if n % 3 else size // 2)
            b = f.read(1)
            f.seek(-1, 1)
            f.write(bytes([b[0] ^ 4]))
    n += 1
sys.exit(not n)' "$tmp/shared"
}
damaged()
{
	damage && prompt "$tmp/bad" "$@" --tier "file:$tmp/shared" &&
		[ "$(counted bad "$tmp/bad")" -gt 0 ] &&
		[ "$(counted used "$tmp/bad")" -eq 0 ] &&
		same "$tmp/alone" "$tmp/bad"
}
check "damaged files are computed anew" damaged "$@"
says()
{
	want=$1
	shift
	! "$@" 2>"$tmp/said" && grep -F -e "$want" "$tmp/said"
}
chmod 0777 "$tmp/shared"
check "a folder that others can write to is refused" \
	says "make its mode 0700" prompt "$tmp/none" "$@" \
	--tier "file:$tmp/shared"
check "a tier that is none" says "give file:FOLDER" \
	prompt "$tmp/none" "$@" --tier ftp:there
check "a policy that is none" says "back, through or selective" \
	prompt "$tmp/none" "$@" --tier "file:$tmp/shared,policy=never"
echo "$secret" >"$tmp/open"
chmod 0644 "$tmp/open"
check "a password that all can read" says "make its mode 0600" \
	prompt "$tmp/none" "$@" --tier "redis:127.0.0.1:9,password-file=$tmp/open"
check "a server that is not there" prompt "$tmp/gone" "$@" \
	--tier redis:127.0.0.1:9
gone()
{
	[ "$(counted gone "$tmp/gone")" -gt 0 ] && same "$tmp/alone" "$tmp/gone"
}
check "is none, and the text is right" gone

# ---- two hosts and a server ----------------------------------------------

# Two namespaces with a cable between them.
cable()
{
	for ns in "kv$$a" "kv$$b"; do
		ip netns add "$ns" || return
		hosts="$hosts $ns"
		ip -n "$ns" link set lo up || return
	done
	ip link add "kv$$a" netns "kv$$a" type veth \
		peer name "kv$$b" netns "kv$$b" &&
		ip -n "kv$$a" addr add 10.77.0.1/24 dev "kv$$a" &&
		ip -n "kv$$b" addr add 10.77.0.2/24 dev "kv$$b" &&
		ip -n "kv$$a" link set "kv$$a" up &&
		ip -n "kv$$b" link set "kv$$b" up
}
serve()
{
	ip netns exec "kv$$a" redis-server --port 6379 --bind 0.0.0.0 \
		--requirepass "$secret" --save '' --dir "$tmp" \
		>"$tmp/server.log" 2>&1 &
	server=$!
	tries=0
	until ip netns exec "kv$$b" redis-cli -h 10.77.0.1 ping \
		2>/dev/null | grep -q .; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || return
		sleep 0.1
	done
}
# host A|B OUT PORT ARGUMENT...
host()
{
	on="ip netns exec kv$$$1" out=$2 port=$3
	shift 3
	prompt "$out" "$@" --tier \
		"redis:10.77.0.1:$port,namespace=t,policy=through,password-file=$tmp/pass,timeout=2s"
}
second()
{
	host b "$tmp/b" 6379 "$@" && found "$tmp/b" &&
		[ "$(($(counted hits "$tmp/b") * 10))" -ge "$(($(counted puts "$tmp/a") * 9))" ]
}
# The server ends when it has given less than half of what is asked for.
killed()
{
	half=$(($(counted hit_bytes "$tmp/b") / 2))
	cat "$tmp/relay.out"
	host b "$tmp/k" 6380 "$@" && grep killed "$tmp/relay.out" &&
		same "$tmp/alone" "$tmp/k" &&
		[ "$(($(counted gone "$tmp/k") + $(counted timeouts "$tmp/k")))" -gt 0 ] &&
		[ "$(counted hit_bytes "$tmp/k")" -le "$half" ]
}
why=
for program in ip redis-server redis-cli; do
	needs $program || why="no $program"
done
[ "$(id -u)" -eq 0 ] || why="network namespaces: needs root"
[ -n "$why" ] || cable >"$tmp/cable" 2>&1 ||
	why="network namespaces: $(head -n 1 "$tmp/cable")"
if [ -n "$why" ]; then
	skip "two hosts share a prefix through a server" "$why"
	skip "a server that is killed in mid-transfer" "$why"
elif ! serve; then
	check "the server starts" cat "$tmp/server.log" /none
else
	(umask 077 && echo "$secret" >"$tmp/pass")
	check "one host stores a prefix on a server" \
		host a "$tmp/a" 6379 "$@"
	check "two hosts share a prefix through a server" second "$@"
	ip netns exec "kv$$a" env REDISCLI_AUTH="$secret" redis-cli \
		--scan --pattern 'kvcache:t:*' >"$tmp/keys"
	check "its keys are in their namespace" test -s "$tmp/keys"
	bytes=$(counted hit_bytes "$tmp/b" 2>/dev/null || echo 8)
	ip netns exec "kv$$a" "$here/relay.py" 6380 6379 \
		"$((bytes / 4))" "$server" >"$tmp/relay.out" 2>&1 &
	relay=$!
	tries=0
	until grep -q listening "$tmp/relay.out" || [ "$tries" -ge 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	check "a server that is killed in mid-transfer" killed "$@"
fi
tap_end
