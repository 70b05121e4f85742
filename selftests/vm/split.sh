#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Turn what a virtual machine said into programs that say it again, for
# run-tests.sh to count: one for each test, one for the machine itself.
#
#	split.sh FOLDER TEST...
#
# FOLDER/serial is what init wrote, FOLDER/console what the kernel wrote,
# FOLDER/status QEMU's exit status. The programs come into
# FOLDER/selftests/vm/NAME, where NAME is the folder's.
set -u
from=$(cd "$1" && pwd) || exit 2
shift
to=$from/selftests/vm/${from##*/}
mkdir -p "$to" || exit 2

# Everything between "@@ begin NAME" and "@@ end STATUS" is a file of that
# name, with a / as a dot.
mkdir -p "$from/said"
touch "$from/serial" "$from/console" "$from/said/dmesg" "$from/said/kmemleak"
tr -d '\r' <"$from/serial" | awk -v to="$from/said" '
	/^@@ begin / {
		name = $3
		gsub("/", ".", name)
		file = to "/" name
		printf "" >file
		next
	}
	/^@@ end / && file {
		print $3 >(file ".status")
		close(file)
		file = ""
		next
	}
	file { print >file }
	!file { print >(to "/machine") }'
touch "$from/said/machine"

for t; do
	name=$(echo "$t" | tr / .)
	said=$from/said/$name
	touch "$said"
	status=$(cat "$said.status" 2>/dev/null)
	case $status in
	'')	echo "# the machine went down, or never came here" >>"$said" ;;
	137)	echo "# killed: it took too long, or memory ran out" >>"$said" ;;
	esac
	printf '#!/bin/sh\ncat "%s"\nexit %d\n' "$said" \
		"$(case $status in 0 | 4) echo "$status" ;; *) echo 1 ;; esac)" \
		>"$to/$name"
	chmod +x "$to/$name"
done

# ---- the machine ----------------------------------------------------------

# What no kernel says in health, and what of that it says all the same.
splats='WARNING|BUG|Oops|[Pp]anic|PANIC|general protection|unable to handle|KASAN|KCSAN
UBSAN|KFENCE|lockdep|suspicious RCU|possible (circular|recursive|irq)|bad unlock
inconsistent lock|held (when|lock)|sleeping function|scheduling while atomic
blocked for more than|soft lockup|hard LOCKUP|self-detected stall|rcu.*stalls?
refcount|[Ll]eak|Call Trace|Bad page|bad page|list_(add|del) corruption
stack-protector|usercopy: Kernel|double free|unreferenced object|Out of memory'
healthy='[Cc]ommand line:|RCU lockdep checking is enabled|Lock dependency validator
Kernel memory leak detector initialized|KernelAddressSanitizer initialized
kfence: initialized|kcsan: (non-)?strict mode configured|RCU CPU stall warnings timeout set|kmemleak: Cannot allocate a scan area
Huh VM_FAULT_OOM|^$'
splats=$(printf %s "$splats" | tr '\n' '|')
healthy=$(printf %s "$healthy" | tr '\n' '|')

# UML of 6.1 walks the areas of a new process without their lock, which nobody
# else can know of yet, and lockdep says so.
known()
{
	awk '
		/suspicious RCU usage/ { inside = 1 }
		!inside { print; next }
		{ text = text $0 "\n"; n++ }
		/ fork_handler\+/ && text ~ / force_flush_all\+/ { text = ""; n = 100 }
		n >= 100 { printf "%s", text; text = ""; inside = n = 0 }
		END { printf "%s", text }'
}

result()
{
	n=$((n + 1))
	echo "$1 $n $2"
}
# says NAME PATTERN: a line of the machine itself.
says()
{
	if grep -q -E "^@@ $2" "$from/said/machine"; then
		result ok "$1"
	else
		grep -a -v '^@@ [a-z]* 0$' "$from/said/machine" | sed 's/^/# /'
		result "not ok" "$1"
	fi
}
n=0
{
	echo "TAP version 13"
	says "boots" "up "
	if grep -q '^@@ load' "$from/said/machine"; then
		says "the module loads" "load 0"
		says "the module unloads, loads and unloads again" "unload 0"
	fi
	# The console has what came before the end of a machine, the log what
	# is not for the console; they share most.
	cat "$from/console" "$from/said/dmesg" "$from/said/kmemleak" |
		tr -d '\r' | known | awk '!seen[$0]++' |
		grep -a -v -E -e "$healthy" >"$from/kernel.log"
	# run-tests.sh shows the last 40 lines: no registers, no guesses of
	# callers.
	noise='\] *(\? |(R..|CPU|[CD]R[0-9]|[C-G]S|PKRU|Code|Hardware name|Tainted):)'
	grep -a -E -A 80 -e "$splats" "$from/kernel.log" |
		grep -a -v -E -e "$noise" | head -n 24 |
		sed 's/^/# /' >"$from/splats"
	cat "$from/splats"
	if [ -s "$from/splats" ]; then
		result "not ok" "nothing is wrong in the kernel's log"
	else
		result ok "nothing is wrong in the kernel's log"
	fi
	if grep -q '^@@ down' "$from/said/machine" &&
	   [ "$(cat "$from/status")" -eq 0 ]; then
		result ok "shuts down in time"
	else
		echo "# QEMU ended with status $(cat "$from/status")"
		sed 's/^/# /' "$from/qemu" 2>/dev/null
		tail -n 40 "$from/console" | tr -d '\r' | sed 's/^/# /'
		result "not ok" "shuts down in time"
	fi
	echo "1..$n"
} >"$from/said/vm"
printf '#!/bin/sh\ncat "%s"\nexit %d\n' "$from/said/vm" \
	"$(grep -c '^not ok' "$from/said/vm" | sed 's/[1-9].*/1/')" >"$to/machine"
chmod +x "$to/machine"
