#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 300
#
# Debian's Prometheus scrapes kvcache-exporter on loopback: what it stores is what
# was told, and rules, dashboard and text are to its own tools' liking. Its package
# is unpacked, not installed, and kept in $XDG_CACHE_HOME/kvcache/prometheus, by
# default below ~/.cache. The tests are in prometheus.py; states that alerts are
# about are made in alert_states.py.
. "$(dirname "$0")/../tap.sh"

# Fetches the package once, and unpacks it. Prints why it cannot.
unpacked()
{
	cache=${XDG_CACHE_HOME:-${HOME:-}/.cache}/kvcache/prometheus
	mkdir -p "$cache" || return
	deb=$(find "$cache" -name 'prometheus_*.deb' | head -n 1)
	if [ -z "$deb" ]; then
		needs apt-get || { echo "no prometheus, and no apt-get"; return 1; }
		(cd "$tmp" && apt-get -q -q -o APT::Sandbox::User=root \
			download prometheus >"$tmp/said" 2>&1) ||
			{ echo "apt-get cannot fetch prometheus: apt-get update"; return 1; }
		mv "$tmp"/prometheus_*.deb "$cache" || return
		deb=$(find "$cache" -name 'prometheus_*.deb' | head -n 1)
	fi
	dpkg -x "$deb" "$tmp/prometheus"
}

bin=
why=
for p in kvcache-exporter kvcachectl kvcache-broker libkvcache.so; do
	[ -e "$build/$p" ] || why="no $build/$p"
done
needs python3 || why="no python3"
if [ -z "$why" ] && needs prometheus && needs promtool; then
	bin=$(dirname "$(command -v prometheus)")
elif [ -z "$why" ]; then
	why=$(unpacked) && bin=$tmp/prometheus/usr/bin
fi
if [ -z "$bin" ]; then
	skip "Prometheus" "$why"
	tap_end
fi
KVCACHE_BUILD=$build TMP_DIR=$tmp PYTHONDONTWRITEBYTECODE=1 LC_ALL=C \
	PYTHONPATH=$root/selftests/tools \
	python3 "$root/selftests/packages/prometheus.py" "$bin"
