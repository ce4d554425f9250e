package podexecd

import (
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi"
	"github.com/podstream/podstream/internal/kubeletconfig/gates"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// describe registers the metrics that never change.
func describe(opts *Options, r prometheus.Registerer) {
	daemon.RegisterBuildInfo(r, KubeletVersion)
	features := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_feature_enabled", Help: "The feature gates: 1 if podexecd has the feature.",
	}, []string{"name", "stage"})
	r.MustRegister(features)
	for _, s := range opts.settings.Gates().States() {
		value := 0.0
		if s.Enabled {
			value = 1
		}
		features.WithLabelValues(s.Name, s.Stage).Set(value)
	}
	kubeletmetrics.NodeName.Vec(r).WithLabelValues(opts.node).Set(1)
	version := 1.0
	if cgroups.IsCgroup2UnifiedMode() {
		version = 2
	}
	kubeletmetrics.CgroupVersion.New(r).Set(version)
}

// probePage returns the metrics of /metrics/probes: those of probes, and the start of the process.
func (n *node) probePage() prometheus.Gatherer {
	r := prometheus.NewRegistry()
	started := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds", Help: "Start of the process, in Unix time."})
	started.Set(float64(time.Now().Unix()))
	r.MustRegister(started)
	return prometheus.Gatherers{n.probes, r}
}

// pages configures /statusz and /flagz.
func (n *node) pages() kubeletapi.Pages {
	var p kubeletapi.Pages
	on := n.opts.settings.Gates()
	if on.Enabled(gates.ComponentStatusz) {
		p.Version, p.Emulation = strings.TrimPrefix(KubeletVersion, "v"), probeVersion
	}
	if on.Enabled(gates.ComponentFlagz) {
		p.Flags = func() map[string]string { return n.opts.flags }
	}
	return p
}

// uptime returns how long the machine has run, time in suspend included. Zero: that isn't known.
func uptime() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
