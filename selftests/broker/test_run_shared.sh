#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Two kvcache-run on one broker: what they do on one device.
exec "$(dirname "$0")/../dev/test_run_shared.sh"
