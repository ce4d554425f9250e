package launcher

import (
	"slices"
	"strings"
)

// extra are flags of the daemons' own, from variables of the names that the units of Podstream use.
type extra struct{ podconfigd, podexecd []string }

// launcherOnly are the variables that daemons don't get: those of systemd for the unit's main process, and the flags.
var launcherOnly = []string{
	"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES", "FDSTORE", "MAINPID",
	"PODSTREAM_RUN_DIR",
	// EKS's and kOps's names of the kubelet's arguments. See flagPrefix.
	"NODEADM_KUBELET_ARGS", "DAEMON_ARGS",
}

// flagPrefix is that of the variables in which kubeadm, the packages and other tools keep the kubelet's arguments. These may
// have credentials, in headers of manifest URLs.
const flagPrefix = "KUBELET_"

// environment returns the daemons' environment, and their extra flags.
func environment(environ []string) ([]string, extra) {
	keep := []string{}
	var more extra
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == "PODCONFIGD_FLAGS":
			more.podconfigd = strings.Fields(value)
		case name == "PODEXECD_FLAGS":
			more.podexecd = strings.Fields(value)
		case slices.Contains(launcherOnly, name), strings.HasPrefix(name, flagPrefix):
		default:
			keep = append(keep, variable)
		}
	}
	return keep, more
}
