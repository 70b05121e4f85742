#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes pretokenizer.jsonl: how each pre-tokenizer cuts the texts of
tokenizer_texts.py. Needs the Tokenizers library; the expressions are those of
the models' own tokenizer.json, those of "default" the GGUF format's."""
import json
import os

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split
from tokenizer_texts import PLAIN, SPECIAL

EXTRA = [
    "I'Ll HE'D 'Re 'ſ it'S", "12345 1234567 12 1 ½½½½", "a1b22c333d4444",
    "\n\n  \n x", "   \r\n\r\n  y", "x  \n\n\n", "\u3000\u3000字 \u2009 z",
    "!?\n\n...\r\n", " \t\t tabs\t\n", "$100+5=<105>^~|`", "...123...", "¿Qué? ¡Sí!",
    "'LLama HE'Sx 'ſx 'REx", "'s's't 'll'll", "_a_1_ -b- .c.", "\u180e\u180e \u180ea", "\u0085\u0085 x",
]


def split(*patterns):
    return Sequence([Split(Regex(p), 'isolated') for p in patterns])


GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+"
        r"|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KINDS = {
    'smollm': Sequence([Digits(individual_digits=True), split(GPT2)]),
    'gpt-2': split(GPT2),
    'default': split(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+",
                     r"[0-9][0-9][0-9]"),
    'llama-bpe': split(LLAMA3 % r"\p{N}{1,3}"),
    'qwen2': split(LLAMA3 % r"\p{N}"),
}


def lengths(kind, text):
    """Bytes of each piece."""
    return [len(text[a:b].encode())
            for _, (a, b) in KINDS[kind].pre_tokenize_str(text)]


if __name__ == '__main__':
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, 'pretokenizer.jsonl'), 'w') as f:
        for text in PLAIN + SPECIAL + EXTRA:
            f.write(json.dumps({
                'text': text, **{k: lengths(k, text) for k in KINDS}}) + '\n')
