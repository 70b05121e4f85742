# SPDX-License-Identifier: MIT
#
# Write the C programs of a Markdown file, each fenced block that begins with
# ```c, to DIR/1.c, DIR/2.c, ... (-v dir=DIR). Prints their number.

/^```c$/ {
	file = dir "/" ++n ".c"
	next
}

/^```/ { file = "" }

file { print >file }

END { print n + 0 }
