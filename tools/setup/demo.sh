#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Four conversations that share one system prompt: the tokens of the prompt go
# through the model once, and three conversations reuse its keys and values.
#
#	demo.sh BUILD-FOLDER	($KVCACHE_MODEL is the model)
set -eu

exec "$1/kvcache-run" -m "${KVCACHE_MODEL:?names no model}" -n 96 \
	--system "You are a helpful assistant in a science museum. Visitors ask \
you questions about nature, machines and space. Answer each question in one or \
two short sentences, in plain words that everybody understands. Be friendly \
and correct. Do not use lists, and do not repeat yourself. When you have \
answered the question, stop." \
	-p "Why is the sky blue?" \
	-p "What is gravity?" \
	-p "What do plants need to grow?" \
	-p "How do birds fly?"
