# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2154
#
# views.sh - what each view shows, as lines that can be compared. A test sources
# it after scenarios/kit.sh, with $mnt where kvcachefs is mounted.
#
#	view_ctl >$tmp/ctl		# kvcachectl --json: knows all lines
#	view_top, view_fs, view_metrics, view_exporter, view_sysfs
#	agrees fs			# it says what $tmp/ctl says, to the last line
#
# A line is "pool NAME WHAT VALUE", "tenant NAME POOL WHAT VALUE" or
# "client ID WHAT VALUE", in bytes but for the pages of clients.

sysfs=/sys/class/kvcache/kvcache
top=$build/kvcachetop

# ---- kvcachectl ------------------------------------------------------------

# Objects of JSON, one a line; a client's waiting pages become bytes by its pool.
view_ctl()
{
	{
		ctl pool ls --json && ctl tenant ls --json && ctl ps --json
	} >"$tmp/json" || return
	tr '{' '\n' <"$tmp/json" | awk '
	function of(name, v)
	{
		if (!match($0, "\"" name "\":(\"[^\"]*\"|[^],}]*)"))
			return ""
		v = substr($0, RSTART + length(name) + 3,
			   RLENGTH - length(name) - 3)
		gsub(/"/, "", v)
		return v == "null" ? "max" : v
	}
	function bytes(name, v)
	{
		v = of(name)
		return v == "max" ? v : sprintf("%.0f", v * page)
	}
	/"free_pages":/ {
		page = of("page_bytes")
		pages[of("name")] = page
		at = "pool " of("name")
		print at, "page_size", page
		print at, "size", bytes("pages")
		n = split("free private shared cached retiring", state, " ")
		for (i = 1; i <= n; i++)
			print at, state[i], bytes(state[i] "_pages")
		print at, "waiters", of("waiters")
		print at, "draining", of("draining") == "true" ? 1 : 0
	}
	/"current_pages":/ {
		page = of("page_bytes")
		at = "tenant " of("name") " " of("pool")
		n = split("current peak min low max cached", state, " ")
		for (i = 1; i <= n; i++)
			print at, state[i], bytes(state[i] "_pages")
		print at, "events", "max=" of("limit_hits") " reclaim=" \
			of("reclaimed_pages") " revoke=" of("revoked_pages")
		print at, "owner", of("uid") ":" of("gid") " " of("mode")
		ttl = of("ttl_ns")
		print at, "ttl", ttl == "max" ? "never" : ttl
		print at, "grants", of("grants")
		print at, "clients", of("clients")
		print at, "waiters", of("waiters")
	}
	/"waiting_pages":/ {
		page = pages[of("pool")]
		at = "client " of("id")
		print at, "pid", of("pid")
		print at, "comm", of("comm")
		print at, "tenant", of("tenant")
		print at, "private", of("private_pages")
		print at, "shared", of("shared_pages")
		print at, "waiting", bytes("waiting_pages")
	}' | sort
}

# ---- kvcachetop ------------------------------------------------------------

# A frame that counts pages, of the one pool that there is.
view_top()
{
	"$top" -b -n 1 --pages --width 200 --device "$where" >"$tmp/frame" ||
		return
	page=$(sed -n 's/^pool [^ ]* page_size //p' "$tmp/ctl") &&
		top_lines "$tmp/frame" "$page" "$pool_name"
}
# top_lines FRAME PAGE POOL
top_lines()
{
	awk -v page="$2" -v pool="$3" '
	function bytes(v)
	{
		return v == "max" ? v : sprintf("%.0f", v * page)
	}
	$1 == "TENANT" || $1 == "CLIENT" {
		table = $1
		for (i = 1; i <= NF; i++)
			name[i] = $i
		fields = NF
		next
	}
	!NF { table = "" }
	$1 == pool && $2 ~ /^\[/ { print "pool", pool, "size", bytes($3) }
	/^  private [0-9]/ {
		for (i = 1; i < 10; i += 2)
			print "pool", pool, $i, bytes($(i + 1))
		print "pool", pool, "waiters", $12
	}
	table { delete is; for (i = 1; i <= fields; i++) is[name[i]] = $i }
	table == "TENANT" {
		at = "tenant " is["TENANT"] " " pool
		print at, "current", bytes(is["USED"])
		print at, "cached", bytes(is["CACHED"])
		print at, "min", bytes(is["MIN"])
		print at, "low", bytes(is["LOW"])
		print at, "max", bytes(is["MAX"])
		print at, "clients", is["CLNT"]
		print at, "waiters", is["WAIT"]
	}
	table == "CLIENT" {
		at = "client " is["CLIENT"]
		print at, "pid", is["PID"]
		print at, "comm", is["COMMAND"]
		print at, "tenant", is["TENANT"]
		print at, "private", is["PRIVATE"]
		print at, "shared", is["SHARED"]
		print at, "waiting", is["WAITS"] == "-" ? 0 : bytes(is["WAITS"])
	}' "$1" | sort
}

# ---- files -----------------------------------------------------------------

# What is in all files of a folder: "FOLDER FILE LINE".
contents()
{
	(cd "$1" && find . -type f | sed 's,^\./,,' | xargs grep -H '') |
		sed 's,^\([^/:]*\)/\([^:]*\):,\1 \2 ,'
}
# in_files FOLDER: of pools and tenants.
in_files()
{
	# Counters of sysfs are in one file, of a line each.
	contents "$1/pools" | awk '
	$2 != "stat" { print "pool", $1, $2, $3 }' &&
		contents "$1/tenants" | awk '
	$2 == "ttl" || $2 == "owner" {
		once[$1 " " $2] = $0
		next
	}
	$2 == "pages" || $2 == "grants" { next }
	{
		tenant = $1; what = $2; pool = $3
		sub(/^[^ ]* [^ ]* [^ ]* /, "")
		print "tenant", tenant, pool, what, $0
		at[tenant] = "tenant " tenant " " pool
	}
	END {
		for (k in once) {
			$0 = once[k]
			tenant = $1; what = $2
			sub(/^[^ ]* [^ ]* /, "")
			if (what == "ttl" && sub(/ms$/, ""))
				$0 = sprintf("%.0f", $0 * 1000000)
			else if (what == "ttl" && sub(/s$/, ""))
				$0 = sprintf("%.0f", $0 * 1000000000)
			print at[tenant], what, $0
		}
	}'
}
# A line a grant, or none.
grants_in_files()
{
	for t in "$mnt"/tenants/*; do
		echo "tenant ${t##*/} $pool_name grants $(wc -l <"$t/grants")"
	done
}
view_fs()
{
	{
		in_files "$mnt" && grants_in_files && contents "$mnt/clients" | awk '
		$2 == "pages" {
			sub("private=", "", $4)
			sub("shared=", "", $5)
			print "client", $1, "private", $4
			print "client", $1, "shared", $5
			next
		}
		{ print "client", $1, $2, $NF }'
	} | sort
}
view_sysfs()
{
	in_files "$sysfs" | sort
}

# ---- metrics ---------------------------------------------------------------

# metrics_lines: of OpenMetrics, of the one pool that there is.
metrics_lines()
{
	awk -v only="$pool_name" '
	function label(name, v)
	{
		if (!match($1, name "=\"[^\"]*\""))
			return ""
		v = substr($1, RSTART, RLENGTH)
		gsub(/^[^"]*"|"$/, "", v)
		return v
	}
	/^kvcache_pool_/ {
		what = $1
		sub(/^kvcache_pool_/, "", what)
		sub(/[{].*/, "", what)
		at = "pool " label("pool")
		if (what == "state_bytes")
			print at, label("state"), $2
		else if (what == "page_size_bytes" || what == "size_bytes" ||
			 what == "waiters" || what == "draining") {
			sub(/_bytes$/, "", what)
			print at, what, $2
		}
	}
	/^kvcache_tenant_/ {
		what = $1
		sub(/^kvcache_tenant_/, "", what)
		sub(/[{].*/, "", what)
		at = "tenant " label("tenant") " " only
		seen[at] = 1
		if (what == "ttl_seconds")
			print at, "ttl", $2 == "+Inf" ? "never" : $2 * 1000000000
		else if (what == "limit_hits_total")
			hits[at] = $2
		else if (what == "reclaimed_pages_total")
			taken[at] = $2
		else if (what == "revoked_pages_total")
			revoked[at] = $2
		else if (what !~ /_total$/) {
			sub(/_bytes$/, "", what)
			print at, what, $2 == "+Inf" ? "max" : $2
		}
	}
	END {
		for (at in seen)
			print at, "events", "max=" hits[at] " reclaim=" \
				taken[at] " revoke=" revoked[at]
	}' "$1" | sort
}
view_metrics()
{
	cat "$mnt/metrics" >"$tmp/metrics" && metrics_lines "$tmp/metrics"
}
view_exporter()
{
	"$build/kvcache-exporter" --device "$where" --once \
		--format openmetrics >"$tmp/metrics" &&
		metrics_lines "$tmp/metrics"
}

# ---- compared --------------------------------------------------------------

# What is not in a view, as a pattern.
missing()
{
	case $1 in
	ctl)	echo '^$' ;;
	top)	echo '^pool [^ ]* (page_size|draining) |^tenant [^ ]* [^ ]* (peak|events|owner|ttl|grants) ' ;;
	fs)	echo '^tenant [^ ]* [^ ]* (cached|clients|waiters) ' ;;
	metrics | exporter)
		echo '^client |^tenant [^ ]* [^ ]* owner ' ;;
	sysfs)	echo '^client |^tenant [^ ]* [^ ]* (cached|clients|waiters|owner|ttl|grants) ' ;;
	esac
}
# agrees VIEW: with $tmp/ctl, line for line.
agrees()
{
	"view_$1" >"$tmp/view" || { echo "no $1"; return 1; }
	grep -v -E "$(missing "$1")" "$tmp/ctl" >"$tmp/expected"
	diff "$tmp/expected" "$tmp/view" ||
		{ echo "kvcachectl (<) and $1 (>)"; return 1; }
}
# shows LINE: in every view that has such lines.
shows()
{
	for v in $views; do
		echo "$1" | grep -q -E "$(missing $v)" && continue
		"view_$v" >"$tmp/view" && grep -q -x -F -e "$1" "$tmp/view" ||
			{ echo "$v: no $1"; cat "$tmp/view"; return 1; }
	done
}
# lacks WORDS: no line of any view begins with them.
lacks()
{
	for v in $views; do
		"view_$v" >"$tmp/view" && ! grep "^$1 " "$tmp/view" ||
			{ echo "that is $v"; return 1; }
	done
}
