units="@UNITS@"

booted() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null; }

# allowed reports whether the machine's policy allows an action on a unit (policy-rc.d).
allowed() { # ACTION UNIT
	[ -x /usr/sbin/policy-rc.d ] || return 0
	code=0
	/usr/sbin/policy-rc.d "$2" "$1" >/dev/null 2>&1 || code=$?
	case $code in 101 | 102 | 103 | 105) return 1 ;; esac
}

# invoke acts on one unit, and returns when that is ready. A unit that waits for a disk does not hold up the package manager;
# systemd continues without this process.
invoke() { # ACTION UNIT
	if allowed "$1" "$2"; then
		timeout 60 systemctl "$1" "$2" || echo "@NAME@: systemctl $1 $2 failed; see journalctl -u $2" >&2
	fi
}

active() { systemctl is-active --quiet "$1"; }

# start_enabled starts what is enabled.
start_enabled() {
	for unit in $units; do
		if systemctl is-enabled --quiet "$unit" 2>/dev/null && ! active "$unit"; then invoke start "$unit"; fi
	done
}

# restart_active restarts the services that run or start, one after the other. Sockets stay open, so that callers wait.
restart_active() {
	for unit in $units; do
		case $unit in *.service) invoke try-restart "$unit" ;; esac
	done
	@AFTER_RESTART@
}

prepare() {
	@PREPARE@
	if booted; then systemctl daemon-reload || true; fi
}

# hand_over gives the files of the daemons to the users of the version that is installed now.
hand_over() {
	@HAND_OVER@
}

# stop_all stops the daemons, with their sockets, which would start them again. Pods go on.
stop_all() {
	for unit in $units; do
		case $unit in *.socket) invoke stop "$unit" ;; esac
	done
	for unit in $units; do
		case $unit in *.service) invoke stop "$unit" ;; esac
	done
}
