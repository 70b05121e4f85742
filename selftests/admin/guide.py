# SPDX-License-Identifier: MIT
"""Run the commands of a page as they stand there, in one shell, and compare
what they print with what the page shows.

    guide.py PAGE SECTION COUNT

A command is a line of a literal block that begins with "$ "; what it prints
stands below it. There, "..." stands for anything in a line, and on a line of
its own for any lines, or none; blanks do not count. A command that ends in "&"
is done when it has printed what is shown. SECTION must have COUNT commands.
"""
import os
import re
import selectors
import subprocess
import sys
import time

LIMIT = 120  # seconds that one command may take


def commands(page):
    """(section, command, lines shown) of each, in their order."""
    out = []
    section = None
    before = ""
    with open(page) as f:
        for line in f.read().split("\n"):
            if re.fullmatch(r"=+", line) and before:
                section = before
            if line.startswith("\t$ "):
                out.append((section, line[3:], []))
            elif line.startswith("\t") and out and out[-1][0] == section:
                if before.startswith("\t"):
                    out[-1][2].append(line[1:])
            before = line
    return out


def pattern(shown):
    """What the output has to match as a whole."""
    want = ""
    for line in shown:
        if line.strip() == "...":
            want += r"(?:.*\n)*?"
            continue
        words = ["".join(".*" if part == "..." else re.escape(part)
                         for part in re.split(r"(\.\.\.)", word))
                 for word in line.split()]
        want += " ".join(words) + r"\n"
    return re.compile(want)


def squeeze(text):
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return "".join(line + "\n" for line in lines if line)


class Shell:
    """A shell that is given one command after the other."""

    def __init__(self):
        self.p = subprocess.Popen(["sh"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        self.sel = selectors.DefaultSelector()
        self.sel.register(self.p.stdout, selectors.EVENT_READ)
        self.count = 0

    def say(self, text):
        self.p.stdin.write(text.encode())
        self.p.stdin.flush()

    def run(self, command, want=None):
        """What it printed, and its exit status; with want: until that came."""
        self.count += 1
        mark = "@%d-%d@" % (os.getpid(), self.count)
        self.say("%s\n" % command)
        if not want:
            self.say("printf '%s%%d\\n' $?\n" % mark)
        text = ""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if self.sel.select(0.1):
                more = os.read(self.p.stdout.fileno(), 65536)
                if not more:
                    raise SystemExit("the shell ended: %s" % text)
                text += more.decode(errors="replace")
            if (want and text.endswith("\n") and
                    want.fullmatch(squeeze(text))):
                return text, 0
            at = text.find(mark)
            if at >= 0 and text.endswith("\n"):
                return text[:at], int(text[at + len(mark):])
        raise SystemExit("%s: nothing after %d s but: %s"
                         % (command, LIMIT, text))


def main():
    page, section, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    steps = commands(page)
    found = sum(1 for s in steps if s[0] == section)
    if found != count:
        raise SystemExit("%s: %d commands, not %d" % (section, found, count))
    sh = Shell()
    broker = None
    done = False
    try:
        for _, command, shown in steps:
            want = pattern(shown)
            waits = command.endswith("&")
            text, status = sh.run(command, want if waits else None)
            print("$ " + command, flush=True)
            print(text, end="", flush=True)
            if status:
                raise SystemExit("exit status %d" % status)
            if not want.fullmatch(squeeze(text)):
                raise SystemExit("the page shows:\n" + "\n".join(shown))
            if waits:
                broker = sh.run("echo $!")[0].strip()
        done = True
    finally:
        if not done:
            sh.say("fusermount3 -q -u \"$VIEW\"; rmdir \"$VIEW\"\n")
            if broker:
                sh.say("kill %s\n" % broker)
        sh.say("wait\nexit\n")
        sh.p.communicate(timeout=LIMIT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
