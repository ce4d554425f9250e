package podexecd

import (
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// describeMachine registers the metrics that never change.
func describeMachine(node string, r prometheus.Registerer) {
	kubeletmetrics.NodeName.Vec(r).WithLabelValues(node).Set(1)
	version := 1.0
	if cgroups.IsCgroup2UnifiedMode() {
		version = 2
	}
	kubeletmetrics.CgroupVersion.New(r).Set(version)
}

// uptime returns how long the machine has run, time in suspend included. Zero: that isn't known.
func uptime() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
