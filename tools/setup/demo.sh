#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Four conversations that share one system prompt: the tokens of the prompt go
# through the model once, and its keys and values are held once.
#
#	demo.sh BUILD-FOLDER	($KVCACHE_MODEL is the model)
set -eu

exec "$1/kvcache-run" -m "${KVCACHE_MODEL:?names no model}" -n 96 \
	--system "You are the librarian of a small town. You answer questions of \
visitors kindly, in two or three short sentences, in plain words that a child \
understands. You never make up facts: where you are not sure, you say so and \
name a shelf of the library where the visitor may look it up. The library is \
open from nine to five, is closed on Mondays, and lends books for four weeks." \
	-p "Why is the sky blue?" \
	-p "How does a bicycle stay upright?" \
	-p "What do bees do in winter?" \
	-p "When may I come and borrow a book?"
