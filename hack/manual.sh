#!/usr/bin/env bash
# Writes man pages and completions of the programs in a directory, from their flag sets as --help prints them, below another
# directory: usr/share/man, and the directories in which bash, zsh and fish look. Usage: hack/manual.sh BIN OUT NAME...
set -euo pipefail
bin=$1 out=$2
shift 2
date=$(date --utc --date="@${SOURCE_DATE_EPOCH:?}" +%Y-%m-%d)
mkdir -p "$out"/usr/share/man/man{1,8} "$out"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}

# page NAME SECTION COMMAND... writes the page of a command from its help.
page() {
	local name=$1 section=$2 help
	shift 2
	help=$("$@" --help)
	awk -v name="$name" -v section="$section" -v date="$date" -v command="$(basename "$1") ${*:2}" '
		function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.'\'']/) s = "\\&" s; return s }
		NR == 1 {
			sub(/ +$/, "", command)
			printf ".TH %s %s %s Podstream\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", toupper(roff(name)), section, date, roff(name), roff($0)
		}
		/^Use "/ { next }
		/^[A-Z][A-Za-z ]*:$/ { part = substr($0, 1, length($0) - 1); printf ".SH %s\n", toupper(part); next }
		part ~ /Flags$/ && match($0, /^ +-[^ ]*( -[^ ]+)*( [^ ]+)?   +/) {
			flag = substr($0, 1, RLENGTH); text = substr($0, RLENGTH + 1); gsub(/^ +| +$/, "", flag)
			printf ".TP\n.B %s\n%s\n", roff(flag), roff(text); next
		}
		(part == "Available Commands" || part == "Environment") && NF > 1 { first = $1; $1 = ""; sub(/^ +/, ""); printf ".TP\n.B %s\n%s\n", roff(first), roff($0); next }
		part == "Usage" || part == "Examples" { if (NF) { sub(/^ +/, ""); printf "%s\n.br\n", roff($0) } else if (part == "Examples") print ".PP"; next }
		NF == 0 { if (part == "") print ".PP"; next }
		{ print roff($0) }
		END { print ".SH SEE ALSO\n.BR podconfigd (8),\n.BR podexecd (8),\n.BR podctl (1),\n/usr/share/doc/podstream" }
	' <<<"$help" | gzip -9n >"$out/usr/share/man/man$section/$name.$section.gz"
}

# completions NAME writes those of a daemon: it has flags and no commands.
completions() {
	local name=$1
	local flags
	flags=$("$bin/$name" --help | awk 'match($0, /^ +(-[a-z], )?--[a-z0-9-]+/) { f = substr($0, RSTART, RLENGTH); sub(/.*--/, "--", f); print f }')
	[[ -n $flags ]] || { echo "manual: $name has no flags" >&2; exit 1; }
	cat >"$out/usr/share/bash-completion/completions/$name" <<-END
		_podstream_$name() {
			case \${COMP_WORDS[COMP_CWORD]} in
			-*) mapfile -t COMPREPLY < <(compgen -W "$(paste -s -d ' ' <<<"$flags")" -- "\${COMP_WORDS[COMP_CWORD]}") ;;
			*) mapfile -t COMPREPLY < <(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}") ;;
			esac
		}
		complete -o filenames -F _podstream_$name $name
	END
	{
		printf '#compdef %s\n_arguments' "$name"
		while read -r flag; do printf " \\\\\n  '*%s=-:value:_files'" "$flag"; done <<<"$flags"
		echo
	} >"$out/usr/share/zsh/vendor-completions/_$name"
	while read -r flag; do printf 'complete -c %s -l %s\n' "$name" "${flag#--}"; done <<<"$flags" >"$out/usr/share/fish/vendor_completions.d/$name.fish"
}

for name in "$@"; do
	if [[ $name != podctl ]]; then
		page "$name" 8 "$bin/$name"
		completions "$name"
		continue
	fi
	page podctl 1 "$bin/podctl"
	for command in $("$bin/podctl" --help | awk '/^Available Commands:/ { on = 1; next } /^$/ { on = 0 } on && $1 != "help" && $1 != "completion" { print $1 }'); do
		page "podctl-$command" 1 "$bin/podctl" "$command"
	done
	"$bin/podctl" completion bash >"$out/usr/share/bash-completion/completions/podctl"
	"$bin/podctl" completion zsh >"$out/usr/share/zsh/vendor-completions/_podctl"
	"$bin/podctl" completion fish >"$out/usr/share/fish/vendor_completions.d/podctl.fish"
done
