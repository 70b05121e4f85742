# SPDX-License-Identifier: MIT
#
# Compare the members of each struct with the @names of the kernel-doc comment
# before it. Prints what is missing on either side; fails if anything is.

function complain(what)
{
	print FILENAME ":" FNR ": " what
	bad = 1
}

/^\/\*\*$/ {
	doc = ""
	delete described
	in_doc = 1
}

in_doc && /^ \* struct [a-z0-9_]+ - / { doc = $3 }

in_doc && match($0, /^ \* @[A-Za-z0-9_]+:/) {
	described[substr($0, 5, RLENGTH - 5)] = 1
}

/^ \*\/$/ { in_doc = 0 }

/^struct [a-z0-9_]+ \{$/ {
	name = $2
	structs++
	if (doc != name)
		complain("struct " name " has no kernel-doc comment")
	next
}

name && /^\};$/ {
	for (m in described)
		complain("struct " name " has no member " m)
	name = doc = ""
	delete described
}

name && match($0, /[A-Za-z0-9_]+(\[[A-Za-z0-9_]+\])*;/) {
	m = substr($0, RSTART, RLENGTH)
	sub(/[\[;].*/, "", m)
	if (!(m in described))
		complain("struct " name ": @" m " is not described")
	delete described[m]
}

END {
	if (!structs)
		complain("no struct found")
	exit bad
}
