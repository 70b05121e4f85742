#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Conversations that take turns in kvcache-run, in a pool that is too small.

	turns.py [-c CONVERSATIONS] [-t TOKENS] OUT.json KVCACHE-RUN ARGUMENT...

Each conversation begins with its own TOKENS tokens, is answered, and stays; when
all were, each goes on with a few more. OUT.json gets the results of kvcache-run
(--json=OUT.json is added), and this prints what it said.
"""
import json
import subprocess
import sys

def main():
    args = sys.argv[1:]
    conversations, tokens = 16, 600
    while args[0] in ('-c', '-t'):
        if args[0] == '-c':
            conversations = int(args[1])
        else:
            tokens = int(args[1])
        args = args[2:]
    out, command = args[0], args[1:]
    run = subprocess.Popen(command + ['--requests', '-', '--jsonl',
                                      '--json=' + out],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)

    def ask(request):
        run.stdin.write(json.dumps(request) + '\n')
        run.stdin.flush()
        line = run.stdout.readline()
        if not line:
            sys.exit('kvcache-run ended')
        sys.stdout.write(line)

    # No two begin alike, so none has anything of another's.
    for c in range(conversations):
        ids = [3 + (c * 7919 + i * (c + 1) * 31) % 200 for i in range(tokens)]
        ask({'id': str(c), 'tokens': ids, 'n': 6, 'keep': True})
    for c in range(conversations):
        ask({'continue': str(c), 'tokens': [5 + c, 9, 17], 'n': 6,
             'keep': True})
    run.stdin.close()
    sys.exit(run.wait())

main()
