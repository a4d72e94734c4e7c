#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Minds the private server of a Python program: sh _minder.sh DIRECTORY PROGRAM ARGUMENT…
#
# Standard input is a pipe whose other end only that program has. It never says anything: reading ends when the program ends,
# in whatever way, or lets go of its server. Then the server is stopped, and the directory removed. Standard output is the
# server's, for the line that says where it listens.

dir=$1
shift

# Handlers, not "ignore": what is ignored here would be ignored by the server, too.
trap : HUP INT TERM QUIT

# Should somebody kill this process, the server is told by the kernel.
if command -v setpriv >/dev/null 2>&1; then
	set -- setpriv --pdeathsig TERM -- "$@"
fi
"$@" 2>"$dir/log" &
server=$!
exec >/dev/null 2>&1

read -r _

trap '' HUP INT TERM QUIT
kill -TERM "$server"
(
	i=0
	while [ "$i" -lt 200 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	kill -KILL "$server"
) &
watch=$!
wait "$server"
kill -KILL "$watch"
wait "$watch"
rm -rf --one-file-system -- "$dir"
