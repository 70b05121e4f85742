#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Every measurement that Documentation/ quotes, as text and as plots.
#
#	all.sh [-o DIR] [NAME...]
#
# Names: machine attn ledger products step document reuse waste replay verify
# llama; by default all but the last two, of which one takes long and the other
# builds llama.cpp first. $O is where the programs are. A table goes to
# DIR/NAME.txt, with the command above it.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
O=${O:-build}
dir=$O/bench
if [ "${1:-}" = -o ]; then
	dir=$2
	shift 2
fi
[ $# -gt 0 ] ||
	set -- machine attn ledger products step document reuse waste replay
cd "$top"
mkdir -p "$dir"
model=$(tools/setup/model.sh)
export KVCACHE_MODEL="$model" KVCACHE_BUILD="$O"
status=0

# table NAME COMMAND...: as it would be typed, then what it says.
table()
{
	name=$1
	shift
	echo "== $name" >&2
	{
		printf '$ %s\n' "$*" | sed "s,$model,MODEL,; s,$O/,,; s,$dir/,,"
		"$@" || echo "status $?"
	} >"$dir/$name.txt"
	cat "$dir/$name.txt"
	! grep -q '^status ' "$dir/$name.txt" || status=1
}

# keep PLOT NAME: as it is kept in Documentation/plots/, with a licence.
keep()
{
	sed 's/[[:space:]]*$//; /^$/d; 1a <!-- SPDX-License-Identifier: MIT -->' \
		"$1" >"$dir/$2.svg"
}

# replay NAME OPTION...: on the Mooncake trace of that name, at all sizes.
replay()
{
	trace=$1
	label=$2
	shift 2
	table "replay-$label" "$O/kvcache-replay" --compare --check \
		--pages 2000,5000,10000,20000,50000 \
		--plot "$dir/replay-$label" "$@" \
		"selftests/data/traces/mooncake_$trace.jsonl"
	keep "$dir/replay-$label/hits.svg" "replay-$label-hits"
}

bench=$O/kvcache-bench
for name in "$@"; do
	case $name in
	machine)
		{
			lscpu | grep -E '^(Model name|CPU\(s\)|L[23] cache)'
			uname -sr
			git rev-parse --short HEAD
			uptime
		} | tee "$dir/machine.txt" ;;
	attn|ledger|waste)
		table "$name" "$bench" "$name" --check ;;
	products)
		table products "$bench" products ;;
	step)
		table step "$bench" step -m "$model" --plot "$dir/step.svg" \
			--check ;;
	document)
		table document selftests/bench/document.py \
			--plot "$dir/document.svg" --check ;;
	reuse)
		table reuse selftests/bench/reuse.py --check ;;
	replay)
		for trace in conversation synthetic; do
			replay $trace $trace
			replay $trace $trace-skew --skew 1
			replay $trace $trace-commons --by request --commons
			# One tenant: what its rules of time cost.
			set -- --tenants 1 --min 0
			replay $trace $trace-one "$@"
			replay $trace $trace-late "$@" --decode 1e9
			replay $trace $trace-held "$@" --prefill 1e9
			replay $trace $trace-instant "$@" --prefill 1e9 \
				--decode 1e9
		done
		keep "$dir/replay-conversation/occupancy-5000.svg" \
			replay-conversation-occupancy
		table replay-azure "$O/kvcache-replay" --compare --check \
			--pages 100,150,200,300,500 \
			--plot "$dir/replay-azure" \
			selftests/data/traces/azure_2023_code.csv \
			selftests/data/traces/azure_2023_conv.csv
		keep "$dir/replay-azure/occupancy-150.svg" replay-azure-occupancy
		keep "$dir/replay-azure/shares-150.svg" replay-azure-shares ;;
	verify)
		table calibrate selftests/bench/verify_bound.py calibrate
		table validate selftests/bench/verify_bound.py validate ;;
	llama)
		table llama selftests/bench/compare-llama.sh --check ;;
	*)
		echo "all.sh: no measurement is called $name" >&2
		exit 2 ;;
	esac
done
exit $status
