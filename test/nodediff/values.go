package nodediff

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Value is a field of a KubeletConfiguration with a value.
type Value struct {
	// Config is the field, or fields, in YAML.
	Config string
	// Names is what the refusal must contain: the name of the field.
	Names string
	// Valid says that the kubelet accepts it, in contrast to one beside it.
	Valid bool
}

// Try starts an agent with the value, in network and mount namespaces of its own. There is no runtime, so that an agent
// that accepts the value ends too, or is only asked for its opinion.
func (v *Value) Try(ctx context.Context, dir, programs string, agent Agent) (Fields, error) {
	merged := map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"failCgroupV1": false, "containerRuntimeEndpoint": "unix://" + filepath.Join(dir, "absent.sock")}
	fields, err := parse(v.Config, dir)
	if err != nil {
		return nil, err
	}
	for name, value := range fields {
		merged[name] = value
	}
	text, err := render(merged)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	args := []string{"--net", "--mount", "--propagation", "private", filepath.Join(programs, string(agent)), "--config", config,
		"--root-dir", filepath.Join(dir, "root"), "--cert-dir", filepath.Join(dir, "pki")}
	if agent == Podstream {
		args = append(args, "--check-config", "--kubelet-dir", filepath.Join(dir, "root"))
	}
	command := exec.CommandContext(ctx, "unshare", args...)
	output, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s with %s doesn't end: %s", agent, v.Config, output)
	}
	refused := err != nil
	if agent == Kubelet {
		// It ends also because there is no runtime.
		refused = strings.Contains(string(output), "failed to validate kubelet configuration") ||
			strings.Contains(string(output), "failed to load kubelet config file")
		if !refused && !strings.Contains(string(output), "absent.sock") && !strings.Contains(string(output), "failed to run Kubelet") {
			return nil, fmt.Errorf("it isn't clear whether the kubelet refuses %s: %s", v.Config, output)
		}
	}
	seen := Fields{"refused": fmt.Sprint(refused)}
	if refused {
		seen["names the field"] = fmt.Sprint(strings.Contains(reason(agent, string(output)), v.Names))
	}
	return seen, nil
}

// Values are invalid values, and a few beside them that are valid.
func Values() []*Value {
	values := []*Value{}
	add := func(names string, configs ...string) {
		for _, config := range configs {
			values = append(values, &Value{Config: config, Names: names})
		}
	}
	valid := func(configs ...string) {
		for _, config := range configs {
			values = append(values, &Value{Config: config, Valid: true})
		}
	}
	add("enforceNodeAllocatable", "enforceNodeAllocatable: [pod]", "enforceNodeAllocatable: [pods, pods]", "enforceNodeAllocatable: [none, pods]",
		"{enforceNodeAllocatable: [pods], cgroupsPerQOS: false}",
		"{enforceNodeAllocatable: [pods, system-reserved, system-reserved-compressible], systemReservedCgroup: /a}",
		"{enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible], kubeReservedCgroup: /a}")
	add("systemReservedCgroup", "enforceNodeAllocatable: [pods, system-reserved]", "enforceNodeAllocatable: [system-reserved-compressible]")
	add("kubeReservedCgroup", "enforceNodeAllocatable: [pods, kube-reserved]", "enforceNodeAllocatable: [kube-reserved-compressible]")
	add("reservedSystemCPUs", "reservedSystemCPUs: x", "reservedSystemCPUs: 3-1", `{reservedSystemCPUs: "0", systemReservedCgroup: /a}`,
		`{reservedSystemCPUs: "0", kubeReservedCgroup: /a}`)
	add("podsPerCore", "podsPerCore: -1")
	add("maxPods", "maxPods: -1")
	add("maxOpenFiles", "maxOpenFiles: -1")
	add("oomScoreAdj", "oomScoreAdj: -1001", "oomScoreAdj: 1001")
	add("protectKernelDefaults", "protectKernelDefaults: maybe")
	add("failSwapOn", "failSwapOn: 2")
	add("systemCgroups", "systemCgroups: /system")
	add("imagePullCredentialsVerificationPolicy", "imagePullCredentialsVerificationPolicy: Sometimes")
	add("preloadedImagesVerificationAllowlist", "preloadedImagesVerificationAllowlist: [example.org/a]",
		`{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: ["*"]}`,
		`{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: ["example.org/a:v1"]}`,
		`{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: ["example.org/a*"]}`)
	add("shutdownGracePeriod", "shutdownGracePeriod: -1s", "shutdownGracePeriod: 500ms")
	add("shutdownGracePeriodCriticalPods", "{shutdownGracePeriod: 10s, shutdownGracePeriodCriticalPods: 20s}",
		"{shutdownGracePeriod: 10s, shutdownGracePeriodCriticalPods: 500ms}")
	add("shutdownGracePeriodByPodPriority",
		"{shutdownGracePeriod: 10s, shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 10}]}")
	add("containerLogMaxFiles", "containerLogMaxFiles: 1", "containerLogMaxFiles: -1")
	add("containerLogMaxWorkers", "containerLogMaxWorkers: -1")
	add("containerLogMonitorInterval", "containerLogMonitorInterval: 2s", "containerLogMonitorInterval: -5s")
	add("memorySwap", "memorySwap: {swapBehavior: UnlimitedSwap}")
	add("memoryThrottlingFactor", "memoryThrottlingFactor: 1.1", "memoryThrottlingFactor: 0")
	add("imageGCHighThresholdPercent", "imageGCHighThresholdPercent: 101")
	add("imageGCLowThresholdPercent", "imageGCLowThresholdPercent: -1", "{imageGCHighThresholdPercent: 80, imageGCLowThresholdPercent: 80}")
	add("imageMaximumGCAge", "imageMaximumGCAge: -1s", "imageMaximumGCAge: 1m")
	add("maxParallelImagePulls", "maxParallelImagePulls: 0", "{serializeImagePulls: true, maxParallelImagePulls: 2}")
	add("registryPullQPS", "registryPullQPS: -1")
	add("registryBurst", "registryBurst: -1")
	add("eventRecordQPS", "eventRecordQPS: -1")
	add("eventBurst", "eventBurst: -1")
	add("nodeLeaseDurationSeconds", "nodeLeaseDurationSeconds: -1")
	add("nodeStatusMaxImages", "nodeStatusMaxImages: -2")
	add("kubeAPIQPS", "kubeAPIQPS: -1")
	add("kubeAPIBurst", "kubeAPIBurst: -1")
	add("axContainerRestartPeriod", "crashLoopBackOff: {maxContainerRestartPeriod: 500ms}", "crashLoopBackOff: {maxContainerRestartPeriod: 301s}")
	add("hairpinMode", "hairpinMode: bridge")
	add("port", "port: 70000")
	add("readOnlyPort", "readOnlyPort: 70000")
	add("/var/log/../pods", "podLogsDir: /var/log/../pods")
	add("topologyManagerPolicy", "topologyManagerPolicy: some")
	add("cpuCFSQuotaPeriod", "cpuCFSQuotaPeriod: 2s")
	add("enforceNodeAllocatable", "cgroupsPerQOS: false")
	valid("{enforceNodeAllocatable: [none], cgroupsPerQOS: false}", "{systemCgroups: /system, cgroupRoot: /}")
	valid("enforceNodeAllocatable: [none]", "enforceNodeAllocatable: []", `reservedSystemCPUs: "0"`, "oomScoreAdj: -1000", "maxOpenFiles: 0", "podsPerCore: 0",
		"shutdownGracePeriod: 1s", "containerLogMaxFiles: 2", "containerLogMonitorInterval: 3s", "hairpinMode: none",
		"imagePullCredentialsVerificationPolicy: AlwaysVerify", "memoryThrottlingFactor: 1.0", "imageGCHighThresholdPercent: 100",
		`{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: ["example.org/a/*", "example.org/b"]}`,
		"containerLogMaxSize: 1Ki", "kernelMemcgNotification: true")
	return values
}
