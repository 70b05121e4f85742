# SPDX-License-Identifier: MIT
#
# OpenMetrics 1.0.0 and the text 0.0.4 of Prometheus, read by their grammars and
# no more generously: what a reader might let pass is an error here.
#
#   openmetrics.py FILE         is it OpenMetrics? says why not
#   openmetrics.py --text FILE  the older text
import re
import sys

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
NUMBER = re.compile(r"(?:[+-]?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)|"
                    r"[+-]Inf|NaN)\Z")
TYPES = {"gauge": ("",), "counter": ("_total",),
         "histogram": ("_bucket", "_count", "_sum")}
SUFFIXES = ("_total", "_created", "_bucket", "_count", "_sum", "_info")


class Bad(Exception):
    pass


class Family:
    """name without a counter's suffix, samples: {(suffix, labels): text}"""

    def __init__(self, name):
        self.name = name
        self.type = self.help = self.unit = None
        self.samples = {}


def need(what, *why):
    if not what:
        raise Bad(" ".join(str(w) for w in why))


def labels_of(text, line):
    """The labels between braces, as a tuple, and what follows the brace."""
    found, at = [], 1
    while True:
        m = re.compile(r'([^=,{}"]+)="').match(text, at)
        need(m, "no label:", line)
        need(LABEL.match(m[1]), "label", m[1])
        value, at = "", m.end()
        while text[at:at + 1] != '"':
            c = text[at:at + 1]
            need(c and c != "\n", "a value without an end:", line)
            if c == "\\":
                at += 1
                c = {"\\": "\\", '"': '"', "n": "\n"}.get(text[at:at + 1])
                need(c, "what is escaped:", line)
            value += c
            at += 1
        found.append((m[1], value))
        at += 1
        if text[at:at + 1] == ",":
            at += 1
            continue
        need(text[at:at + 1] == "}", "no brace:", line)
        break
    need(len(dict(found)) == len(found), "a label twice:", line)
    return tuple(sorted(found)), text[at + 1:]


def sample(line):
    m = re.match(r"[^ {]+", line)
    need(m and NAME.match(m[0]), "no name:", line)
    rest, labels = line[m.end():], ()
    if rest[:1] == "{":
        labels, rest = labels_of(rest, line)
    need(rest[:1] == " " and NUMBER.match(rest[1:]), "no number:", line)
    return m[0], labels, rest[1:]


def read_lines(text, older):
    """Families in their order; each has one place."""
    families, f, blank = {}, None, None
    for line in text.split("\n")[:-1]:
        if line == "# EOF" and not older:
            blank = line
            continue
        need(blank is None, "behind the end:", line)
        need(line and line == line.strip(), "spaces:", repr(line))
        m = re.match(r"# (HELP|TYPE|UNIT) ([^ ]+) (.*)\Z", line)
        if m:
            name = m[2]
            if older and name.endswith("_total"):
                name = name[:-6]
            if f is None or f.name != name:
                need(name not in families, "a family twice:", name)
                need(NAME.match(name), "name", name)
                f = families[name] = Family(name)
            need(not f.samples, "behind its samples:", line)
            key = m[1].lower()
            need(getattr(f, key) is None, "twice:", line)
            setattr(f, key, m[3])
            need(not (older and key == "unit"), "no such line:", line)
            continue
        need(not line.startswith("#"), "a comment:", line)
        name, labels, value = sample(line)
        need(f and f.type in TYPES, "no type before", line)
        need(name.startswith(f.name), "of another family:", line)
        suffix = name[len(f.name):]
        need(suffix in TYPES[f.type], "suffix", suffix, "of", f.type, line)
        need((suffix, labels) not in f.samples, "twice:", line)
        f.samples[suffix, labels] = value
    need(older or blank, "no # EOF")
    return families


def groups_contiguous(f):
    """Samples of one metric (but for le) are one behind the other."""
    seen, last = set(), None
    for suffix, labels in f.samples:
        key = tuple(x for x in labels if x[0] != "le")
        if key != last:
            need(key not in seen, f.name, "is torn apart at", labels)
            seen.add(key)
            last = key


def check_histogram(f):
    metrics = {}
    for (suffix, labels), value in f.samples.items():
        key = tuple(x for x in labels if x[0] != "le")
        m = metrics.setdefault(key, {"b": []})
        if suffix == "_bucket":
            need("le" in dict(labels), "a bucket without le:", labels)
            m["b"].append((float(dict(labels)["le"]), int(value)))
        else:
            m[suffix] = float(value)
    for key, m in metrics.items():
        bounds = [b for b, _ in m["b"]]
        counts = [c for _, c in m["b"]]
        need(bounds == sorted(set(bounds)), "bounds of", f.name, key, bounds)
        need(counts == sorted(counts), "not cumulative:", f.name, key, counts)
        need(bounds and bounds[-1] == float("inf"), "no +Inf:", f.name, key)
        need(m.get("_count") == counts[-1], "+Inf is not the count:", f.name)
        need("_sum" in m and m["_sum"] >= 0, "no sum:", f.name, key)


def check_family(f, older):
    need(f.type in TYPES, f.name, "has no type, or", f.type)
    need(f.help and f.help[-1] == ".", f.name, "has no help")
    need("\\" not in f.help, f.name, "escapes in its help")
    need(not any(f.name.endswith(s) for s in SUFFIXES), f.name, "has a suffix")
    ends = f.name.split("_")[-1]
    if not older:
        need(f.unit in (None, ends), f.name, "has unit", f.unit)
        need((ends in ("bytes", "seconds")) == (f.unit is not None), f.name,
             "has no unit")
    names = {tuple(k for k, _ in labels) for _, labels in f.samples}
    need(f.type == "histogram" or len(names) <= 1, f.name, "labels", names)
    for (suffix, labels), value in f.samples.items():
        if f.type != "gauge":
            need(value not in ("NaN", "+Inf", "-Inf") and float(value) >= 0,
                 f.name, "counts", value)
    groups_contiguous(f)
    if f.type == "histogram":
        check_histogram(f)


def parse(text, older=False):
    """{name: Family} of bytes or text; Bad says what is wrong."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    need(text.endswith("\n"), "no end of line at the end")
    need("\r" not in text and "\0" not in text, "control characters")
    families = read_lines(text, older)
    for f in families.values():
        check_family(f, older)
    return families


def values(families):
    """{(name, labels): number} of all samples, as a reader stores them."""
    return {(f.name + suffix, labels): float(v) for f in families.values()
            for (suffix, labels), v in f.samples.items()}


if __name__ == "__main__":
    args = [a for a in sys.argv[1:] if a != "--text"]
    try:
        parse(open(args[0], "rb").read(), len(args) < len(sys.argv) - 1)
    except (Bad, UnicodeDecodeError) as e:
        sys.exit(f"{args[0]}: {e}")
