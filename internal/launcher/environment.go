package launcher

import (
	"slices"
	"strings"
)

// extra are flags of the daemons' own, from variables of the names that the units of Podstream use.
type extra struct{ podconfigd, podexecd []string }

// launcherOnly are the variables that daemons don't get: those of systemd for the unit's main process, and the flags.
var launcherOnly = []string{
	"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "MAINPID",
	"PODSTREAM_RUN_DIR",
	// These may have credentials, in headers of manifest URLs.
	"KUBELET_KUBECONFIG_ARGS", "KUBELET_CONFIG_ARGS", "KUBELET_KUBEADM_ARGS", "KUBELET_EXTRA_ARGS", "NODEADM_KUBELET_ARGS", "KUBELET_ARGS",
}

// environment returns the daemons' environment, and their extra flags.
func environment(environ []string) ([]string, extra) {
	var keep []string
	var more extra
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == "PODCONFIGD_FLAGS":
			more.podconfigd = strings.Fields(value)
		case name == "PODEXECD_FLAGS":
			more.podexecd = strings.Fields(value)
		case slices.Contains(launcherOnly, name):
		default:
			keep = append(keep, variable)
		}
	}
	return keep, more
}
