#!/usr/bin/env bash
# Prints the manual page of a program, in Markdown for go-md2man, from its help text.
# Usage: hack/manpage.sh PROGRAM SECTION ONE-LINE [SUBCOMMAND...]
set -euo pipefail
program=$1 section=$2 what=$3
shift 3
name=$(basename "$program")
full=$(IFS=-; echo "$name${*:+-}$*")

printf '%% %s %s\n\n# NAME\n\n%s - %s\n\n' "$full" "$section" "$full" "$what"
"$program" "$@" --help | awk '
	# escape keeps what Markdown or roff would act upon.
	function escape(text) { gsub(/[\\*_`<>\[\]#]/, "\\\\&", text); return text }
	BEGIN { print "# DESCRIPTION\n" }
	/^[A-Z][A-Za-z ]*:$/ { title = toupper(substr($0, 1, length($0) - 1)); if (title ~ /FLAGS$/) sub(/FLAGS/, "OPTIONS", title); print "\n# " title "\n"; next }
	title ~ /OPTIONS$/ && match($0, /^ +-[^ ]*( -[^ ]+)*( [^ ]+)?   +/) {
		flag = substr($0, 1, RLENGTH); text = substr($0, RLENGTH + 1); gsub(/^ +| +$/, "", flag)
		print "**" escape(flag) "**\n: " escape(text) "\n"; next
	}
	title ~ /COMMANDS$/ && NF > 1 { command = $1; sub(/^ *[^ ]+ +/, ""); print "**" escape(command) "**\n: " escape($0) "\n"; next }
	title == "" { print escape($0); next }
	/^$/ { print; next }
	{ print "    " $0 }
'
printf '\n# SEE ALSO\n\npodconfigd(8), podexecd(8), podctl(1); the documents in /usr/share/doc/podstream\n'
