#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 180
#
# kvcache-exporter on a broker: its text by a strict parser, its numbers beside
# those of kvcachectl, its table in the documentation, and what clients do to it
# that mean no good. The tests are in metrics.py; what needs no process is in
# test_metrics_text.c.
. "$(dirname "$0")/../tap.sh"
why=
for p in kvcache-exporter kvcachectl kvcache-broker libkvcache.so; do
	[ -e "$build/$p" ] || why="no $build/$p"
done
needs python3 || why="no python3"
if [ -n "$why" ]; then
	skip "kvcache-exporter" "$why"
	tap_end
fi
KVCACHE_BUILD=$build TMP_DIR=$tmp PYTHONDONTWRITEBYTECODE=1 LC_ALL=C \
	python3 "$root/selftests/tools/metrics.py"
