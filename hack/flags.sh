#!/usr/bin/env bash
# Writes docs/flags.md from the flag sets of the programs. Usage: hack/flags.sh [check]; check only compares.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$bin/" ./cmd/podconfigd ./cmd/podexecd ./cmd/kubelet ./cmd/podctl

# flags turns the part "Flags:" of a help text into a list.
flags() {
	awk '
		/^[A-Z].*:$/ { on = $0 == "Flags:" }
		on && match($0, /^ +-[^ ]*( -[^ ]+)*( [^ ]+)?   +/) {
			name = substr($0, 1, RLENGTH); text = substr($0, RLENGTH + 1)
			gsub(/^ +| +$/, "", name)
			if (name !~ /--help/) print "- `" name "`: " text
		}
	'
}

# commands prints the names of the commands below the given ones.
commands() {
	"$bin/podctl" "$@" --help | awk '
		/^Available Commands:/ { on = 1; next }
		/^$/ { on = 0 }
		on && $1 != "help" && $1 != "completion" { print $1 }'
}

# section prints the flags of one command of podctl, if it has any.
section() {
	local list
	list=$("$bin/podctl" "$@" --help | flags)
	[[ -z $list ]] || printf '\n### podctl %s\n\n%s\n' "$*" "$list"
}

generate() {
	echo '# Flags'
	echo
	echo 'This page is generated from the programs by `make generate`. Lists are given by repeating a flag, or with commas.'
	for daemon in podconfigd podexecd kubelet; do
		printf '\n## %s\n\n' "$daemon"
		[[ $daemon != kubelet ]] || printf 'The launcher: it passes each flag to the daemon that has it.\n\n'
		"$bin/$daemon" --help | flags
	done
	printf '\n## podctl\n\nFor every command:\n\n'
	"$bin/podctl" --help | flags
	local command
	for command in $(commands); do
		section "$command"
		local verb
		for verb in $(commands "$command"); do
			section "$command" "$verb"
		done
	done
}

if [[ ${1:-} == check ]]; then
	if ! generate | diff -u docs/flags.md -; then
		echo "docs/flags.md does not show the programs' flags; run make generate" >&2
		exit 1
	fi
	exit
fi
generate >"$bin/flags.md"
mv "$bin/flags.md" docs/flags.md
