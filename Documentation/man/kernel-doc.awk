# SPDX-License-Identifier: MIT
#
# Manual pages, as scdoc takes them, from the kernel-doc comments of headers.
# Each part of a header, which begins with a comment like
#
#	/* ---- context --- */
#
# becomes a page dir/PREFIXcontext.SECTION; a header without such parts is one
# page, GROUP. A comment that begins with "DOC: some title" becomes
# dir/some-title.doc, for pages that are written by hand. What other names the
# pages have goes to standard output, with the page.
#
#	awk -f kernel-doc.awk -v dir=DIR -v section=3 -v prefix=kvc_ \
#		-v header='kvcache/kvcache.h' -v see='*libkvcache*(3)' FILE...

BEGIN {
	if (group)
		begin_page(group, title)
}

# ---- text to scdoc ----

function plain(t)
{
	gsub(/\\/, "\\\\", t)
	gsub(/[*_`]/, "\\\\&", t)
	return t
}

# Members and arguments, functions, literals and errors stand out.
function marked(t,    out, word, name)
{
	out = ""
	while (match(t, /``[^`]*``|@[A-Za-z_][A-Za-z0-9_]*|[a-z][a-z0-9_]*\(\)|-?E[A-Z][A-Z0-9][A-Z0-9]+/)) {
		word = substr(t, RSTART, RLENGTH)
		out = out plain(substr(t, 1, RSTART - 1))
		# An error is a word of its own: not the end of KVC_MAX.
		if (word ~ /^-?E/ && (substr(t, 1, RSTART - 1) ~ /[A-Za-z0-9_]$/ ||
		    substr(t, RSTART + RLENGTH, 1) ~ /[a-z_]/))
			out = out plain(word)
		else if (word ~ /^``/)
			out = out "*" plain(substr(word, 3, RLENGTH - 4)) "*"
		else if (word ~ /^@/)
			out = out "_" plain(substr(word, 2)) "_"
		else if (word ~ /\(\)$/) {
			name = substr(word, 1, RLENGTH - 2)
			out = out "*" plain(name) "*(" \
				(name ~ /^kvc_/ ? section : "") ")"
		} else
			out = out "*" plain(word) "*"
		t = substr(t, RSTART + RLENGTH)
	}
	return out plain(t)
}

# What would begin a list, a table, a heading or a comment is text here.
function paragraph(indent, t)
{
	t = marked(t)
	if (t ~ /^[-.#;|\[\]]/)
		t = "\\" t
	return indent t "\n\n"
}

function literal(t)
{
	gsub(/\\/, "\\\\", t)
	return "```\n" t "```\n\n"
}

# Lines from..to of a comment as paragraphs, lists and lists of definitions.
function prose(from, to,    i, line, text, out, rows, items)
{
	out = text = ""
	for (i = from; i <= to; i++) {
		line = said[i]
		if (line ~ /^====/) {
			rows = !rows
			line = ""
		}
		if (rows && line ~ /^[^ ]/ || !rows && line ~ /^- / ||
		    line == "") {
			out = out flush_text(text, items)
			text = ""
			items = !rows && line ~ /^- /
		}
		if (rows && match(line, /^[^ ]+  +/)) {
			out = out "*" substr(line, 1, index(line, " ") - 1) "*\n"
			text = "\t" substr(line, RLENGTH + 1)
			continue
		}
		sub(/^ +/, "", line)
		text = text == "" ? line : text " " line
	}
	return out flush_text(text, items)
}
function flush_text(text, items,    t)
{
	if (text == "")
		return ""
	if (items)
		return "- " marked(substr(text, 3)) "\n\n"
	if (text ~ /^\t/)
		return paragraph("\t", substr(text, 2))
	return paragraph("", text)
}

# ---- pages ----

function begin_page(name, about)
{
	end_page()
	page = name
	brief = about
	names = plain(name)
	described = synopsis = constants = functions = structs = returns = ""
}

function end_page(    file)
{
	if (!page || !described)
		return
	file = dir "/" page "." section
	printf "%s(%s) \"kvcache @version@\" \"%s\"\n\n", page, section, \
		section == 3 ? "Library Functions" : "Kernel Interfaces" >file
	printf "# NAME\n\n%s - %s\n\n", names, brief >file
	printf "# SYNOPSIS\n\n" >file
	printf "%s", literal("#include <" header ">\n" \
		(synopsis == "" ? "" : "\n" synopsis)) >file
	if (functions != "")
		printf "# DESCRIPTION\n\n%s", functions >file
	if (structs != "")
		printf "# %s\n\n%s", functions == "" ? "DESCRIPTION" : \
			"STRUCTURES", structs >file
	if (constants != "")
		printf "# CONSTANTS\n\n%s", literal(constants) >file
	if (returns != "")
		printf "# %s\n\n%s", functions == "" ? "ERRORS" : \
			"RETURN VALUE", returns >file
	printf "# SEE ALSO\n\n%s\n", see >file
	close(file)
}

function alias(name)
{
	if (name == page)
		return
	print name, page "." section
	names = names ", " plain(name)
}

# The comment said[1..n] is of the declaration in code.
function describe(    i, first, name, about, args, last, text, at, word)
{
	about = said[1]
	for (i = 2; i <= n && said[i] != "" && said[i] !~ /^@/; i++) {
		sub(/^ +/, " ", said[i])
		about = about said[i]
	}
	name = about
	sub(/ - .*/, "", name)
	sub(/^.* - /, "", about)
	is_struct = name ~ /^(struct|enum) /
	sub(/^(struct|enum) /, "", name)
	sub(/\(\)$/, "", name)
	args = ""
	for (; i <= n && said[i] ~ /^@/; ) {
		match(said[i], /^@[A-Za-z_0-9]+: */)
		word = substr(said[i], 2, index(said[i], ":") - 2)
		text = substr(said[i], RLENGTH + 1)
		for (i++; i <= n && said[i] != "" && said[i] !~ /^@/; i++) {
			sub(/^ +/, "", said[i])
			text = text " " said[i]
		}
		args = args "*" plain(word) "*\n" paragraph("\t", text)
	}
	# What is returned has a section of its own.
	at = is_struct ? "Errors: " : "Return: "
	last = ""
	for (first = i; i <= n; i++) {
		if (last == "" && match(said[i], at)) {
			last = substr(said[i], RSTART + RLENGTH)
			said[i] = substr(said[i], 1, RSTART - 1)
			sub(/ +$/, "", said[i])
		} else if (last != "" && said[i] == "")
			break
		else if (last != "") {
			last = last " " said[i]
			said[i] = ""
		}
	}
	text = prose(first, n)
	text = "## " name (is_struct ? "" : "()") "\n\n" \
		paragraph("", toupper(substr(about, 1, 1)) substr(about, 2) ".") \
		(is_struct ? literal(code) : "") text args
	alias(name)
	described = 1
	sub(/^[^(]*/, "", about)
	while (is_struct && match(about, /KVCACHE_[A-Z_]+/)) {
		word = substr(about, RSTART, RLENGTH)
		about = substr(about, RSTART + RLENGTH)
		# man(1) does not tell KVCACHE_FREE from kvcache_free.
		if (tolower(word) != name)
			alias(word)
	}
	if (last != "")
		returns = returns "*" plain(name) "*" (is_struct ? "" : "()") \
			"\n" paragraph("\t", last)
	if (is_struct)
		structs = structs text
	else {
		functions = functions text
		synopsis = synopsis code
	}
}

function title_of(line,    t)
{
	t = line
	gsub(/^\/\* -+ | -+ \*\/$/, "", t)
	return t
}

# ---- the header ----

/^\/\* ---- .* -+ \*\/$/ {
	if (!group)
		begin_page(prefix title_of($0), about_all title_of($0))
	next
}
/^\/\*\*$/ {
	n = 0
	in_comment = 1
	next
}
in_comment && /\*\/$/ {
	in_comment = 0
	if (sub(/^DOC: /, "", said[1])) {
		gsub(/ /, "-", said[1])
		printf "%s", prose(2, n) >(dir "/" said[1] ".doc")
		close(dir "/" said[1] ".doc")
	} else {
		code = ""
		in_code = 1
	}
	next
}
in_comment {
	sub(/^ \*/, "")
	sub(/^ /, "")
	said[++n] = $0
	next
}
in_code {
	code = code $0 "\n"
	if (/^}?;$|^[^\t{].*\);$|^\t.*\);$/ && (code !~ /{/ || /^};$/)) {
		in_code = 0
		describe()
	}
	next
}
/^#define KV/ && !/_H$/ || in_enum || /^enum / {
	constants = constants $0 "\n"
	in_enum = /^enum / || in_enum && !/^};$/
}
END {
	end_page()
}
