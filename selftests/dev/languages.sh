#!/bin/sh
# SPDX-License-Identifier: MIT
#
# languages.sh FILE: the programs of Documentation/userspace-api/examples/ in a
# tar file, with all that they need in a machine that has nothing else.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
out=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cp "$tree"/Documentation/userspace-api/examples/* "$dir"
# GO111MODULE, GOFLAGS: no module, no symbols, nothing fetched.
CGO_ENABLED=0 GO111MODULE=off GOFLAGS=-ldflags=-s GOCACHE="$dir/cache" \
	go build -o "$dir/page-go" "$dir/page.go"
chmod -R u+w "$dir/cache" && rm -rf "$dir/cache"

# Debian's own interpreters.
cp -L /usr/bin/python3 "$dir/python3"
cp -L /usr/bin/perl "$dir/perl.bin"
libs()
{
	ldd "$1" | awk '$2 == "=>" { print $3 } $1 ~ "^/" { print $1 }'
}
version=$(basename "$(readlink -f /usr/bin/python3)")
lib=usr/lib/$version
mkdir -p "$dir/$lib/lib-dynload" "$dir/modules" "$dir/lib"
cp -r "/$lib/encodings" "/$lib/struct.py" "$dir/$lib/"
for module in _struct mmap fcntl; do
	cp "/$lib/lib-dynload/$module".*.so "$dir/$lib/lib-dynload/" 2>/dev/null ||
		:	# built in
done
for module in strict.pm warnings.pm; do
	find -L /usr/lib/*/perl-base -name $module -exec cp {} "$dir/modules/" \;
done
for file in $(libs "$dir/python3") $(libs "$dir/perl.bin"); do
	cp -L "$file" "$dir/lib/"
done
# Started by the loader that comes along.
loader=$(basename "$(libs /usr/bin/perl | grep '/ld-')")
mv "$dir/python3" "$dir/python3.bin"
for program in python3 perl; do
	{
		echo '#!/bin/sh'
		echo 'here=$(dirname "$0")'
		echo "exec \$here/lib/$loader --library-path \$here/lib \$here/$program.bin \"\$@\""
	} >"$dir/$program"
	chmod +x "$dir/$program"
done
tar -c -C "$dir" -f "$out" .
