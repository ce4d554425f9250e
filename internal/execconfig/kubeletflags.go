package execconfig

import (
	"fmt"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// The kubelet's flags that set no Settings. podexecd accepts them, so that a kubelet's command line starts it.

// flagsOfPodconfigd are the flags that podconfigd obeys.
var flagsOfPodconfigd = []string{"pod-manifest-path", "file-check-frequency", "manifest-url", "manifest-url-header", "http-check-frequency"}

// flagsWithoutEffect are flags of the kubelet that no daemon of Podstream needs, with a type each: the syntax of a
// boolean flag differs from others.
var flagsWithoutEffect = []struct {
	name, reason string
	isBool       bool
}{
	{name: "make-iptables-util-chains", reason: "podexecd writes no iptables rules", isBool: true},
	{name: "volume-plugin-dir", reason: "podexecd runs no flexvolume plugins"},
	{name: "volume-stats-agg-period", reason: "emptyDirs are measured when eviction or a request needs it, claims once a minute"},
	{name: "cpu-manager-policy-options", reason: noManagers},
	{name: "cpu-manager-reconcile-period", reason: noManagers},
	{name: "reserved-memory", reason: noManagers},
	{name: "topology-manager-policy-options", reason: noManagers},
	{name: "topology-manager-scope", reason: noManagers},
	{name: "hairpin-mode", reason: "the CNI plugin sets the hairpin mode"},
	{name: "runonce", reason: "podexecd runs until it is stopped", isBool: true},
	{name: "runtime-cgroups", reason: "the runtime's unit has its cgroup"},
	{name: "lock-file", reason: "podexecd locks its --root-dir"},
	{name: "exit-on-lock-contention", reason: "podexecd locks its --root-dir", isBool: true},
	{name: "experimental-mounter-path", reason: "podexecd mounts with the mount program of the node"},
	{name: "experimental-allocatable-ignore-eviction", reason: "the hard eviction thresholds are never allocatable", isBool: true},
	{name: "log-flush-frequency", reason: "log lines are written at once"},
	{name: "log-json-info-buffer-size", reason: "log lines are written at once"},
	{name: "log-json-split-stream", reason: "the log goes to standard error", isBool: true},
	{name: "log-text-info-buffer-size", reason: "log lines are written at once"},
	{name: "log-text-split-stream", reason: "the log goes to standard error", isBool: true},
	{name: "vmodule", reason: "--v sets the level of all messages"},

	// These are cAdvisor's.
	{name: "application-metrics-count-limit", reason: noCAdvisor},
	{name: "boot-id-file", reason: noCAdvisor},
	{name: "container-hints", reason: noCAdvisor},
	{name: "containerd", reason: noCAdvisor},
	{name: "containerd-namespace", reason: noCAdvisor},
	{name: "enable-load-reader", reason: noCAdvisor, isBool: true},
	{name: "event-storage-age-limit", reason: noCAdvisor},
	{name: "event-storage-event-limit", reason: noCAdvisor},
	{name: "global-housekeeping-interval", reason: noCAdvisor},
	{name: "housekeeping-interval", reason: noCAdvisor},
	{name: "log-cadvisor-usage", reason: noCAdvisor, isBool: true},
	{name: "machine-id-file", reason: noCAdvisor},
	{name: "storage-driver-buffer-duration", reason: noCAdvisor},
	{name: "storage-driver-db", reason: noCAdvisor},
	{name: "storage-driver-host", reason: noCAdvisor},
	{name: "storage-driver-password", reason: noCAdvisor},
	{name: "storage-driver-secure", reason: noCAdvisor, isBool: true},
	{name: "storage-driver-table", reason: noCAdvisor},
	{name: "storage-driver-user", reason: noCAdvisor},
}

const (
	noCAdvisor = "podexecd contains no cAdvisor"
	noManagers = "podexecd assigns no CPUs and no NUMA memory"
)

// discarded is the value of a flag without an effect.
type discarded struct{}

func (discarded) String() string   { return "" }
func (discarded) Set(string) error { return nil }
func (discarded) Type() string     { return "string" }

// flagsOfFields are the flags of the fields that podexecd refuses with some values.
type flagsOfFields struct {
	cpuManagerPolicy, memoryManagerPolicy, topologyManagerPolicy string
	qosReserved                                                  map[string]string
}

// into sets the fields whose flag was given, and returns their names, with the flag of each.
func (f *flagsOfFields) into(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) (flagOf map[string]string) {
	flagOf = map[string]string{}
	for _, given := range []struct {
		flag, field string
		copy        func()
	}{
		{"cpu-manager-policy", "cpuManagerPolicy", func() { c.CPUManagerPolicy = f.cpuManagerPolicy }},
		{"memory-manager-policy", "memoryManagerPolicy", func() { c.MemoryManagerPolicy = f.memoryManagerPolicy }},
		{"topology-manager-policy", "topologyManagerPolicy", func() { c.TopologyManagerPolicy = f.topologyManagerPolicy }},
		{"qos-reserved", "qosReserved", func() { c.QOSReserved = f.qosReserved }},
	} {
		if set.Changed(given.flag) {
			given.copy()
			flagOf[given.field] = given.flag
		}
	}
	return flagOf
}

// addKubeletFlags adds the flags that set no Settings, hidden from the help.
func (f *Flags) addKubeletFlags(fs *pflag.FlagSet) {
	refused := &f.ofFields
	fs.StringVar(&refused.cpuManagerPolicy, "cpu-manager-policy", kubeletNone, "only none is supported")
	fs.StringVar(&refused.memoryManagerPolicy, "memory-manager-policy", kubeletconfigv1beta1.NoneMemoryManagerPolicy, "only None is supported")
	fs.StringVar(&refused.topologyManagerPolicy, "topology-manager-policy", kubeletconfigv1beta1.NoneTopologyManagerPolicy,
		"`policy`; only none and best-effort are supported")
	fs.Var(cliflag.NewMapStringString(&refused.qosReserved), "qos-reserved", "only the empty `map` is supported")
	hide := func(name string, isBool bool) {
		flag := fs.VarPF(discarded{}, name, "", "")
		flag.Hidden = true
		if isBool {
			flag.NoOptDefVal = "true"
		}
	}
	for _, flag := range flagsWithoutEffect {
		hide(flag.name, flag.isBool)
	}
	for _, name := range flagsOfPodconfigd {
		hide(name, false)
	}
}

const kubeletNone = "none"

// withoutEffect returns a line for each given flag that sets nothing.
func (f *Flags) withoutEffect() (lines []string) {
	for _, flag := range flagsWithoutEffect {
		if f.set.Changed(flag.name) {
			lines = append(lines, fmt.Sprintf("--%s has no effect: %s", flag.name, flag.reason))
		}
	}
	for _, name := range flagsOfPodconfigd {
		if f.set.Changed(name) {
			lines = append(lines, fmt.Sprintf("--%s has no effect: it is a flag of podconfigd", name))
		}
	}
	return lines
}
