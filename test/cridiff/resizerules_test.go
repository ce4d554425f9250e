package cridiff

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// resizeExamples are examples of resizeRules.
var resizeExamples = []example{
	{
		rule: "resizedAtOnce", step: "UpdateContainerResources app (earlier 1)", missing: Fields{},
		kubelet: Fields{"linux.cpuShares": "51", "linux.memoryLimitInBytes": "256"},
		also: Steps{
			"CreateContainer app":          {"config.linux.resources.cpuShares": "51", "config.linux.resources.memoryLimitInBytes": "128"},
			"UpdateContainerResources app": {"linux.cpuShares": "102", "linux.memoryLimitInBytes": "256"},
		},
		neighbours: map[string]func(*example){
			"neither old nor new": func(e *example) { e.kubelet["linux.memoryLimitInBytes"] = "192" },
			"one field more":      func(e *example) { e.kubelet["linux.cpuQuota"] = "192" },
			"the last one":        func(e *example) { e.step = "UpdateContainerResources side" },
			"never resized":       func(e *example) { e.also = Steps{"CreateContainer app": e.also["CreateContainer app"]} },
			"podexecd's":          func(e *example) { e.kubelet, e.podstream = nil, e.kubelet },
		},
	},
	{
		rule: "resizedAtOnce", step: "UpdatePodSandboxResources (earlier 2)", missing: Fields{},
		kubelet: Fields{"overhead": "{}", "resources.cpuShares": "51", "resources.cpuQuota": "20000"},
		also: Steps{
			"RunPodSandbox":             {"config.linux.resources.cpuShares": "51", "config.linux.resources.cpuQuota": "10000"},
			"UpdatePodSandboxResources": {"overhead": "{}", "resources.cpuShares": "102", "resources.cpuQuota": "20000"},
		},
		neighbours: map[string]func(*example){
			"neither old nor new": func(e *example) { e.kubelet["resources.cpuShares"] = "60" },
			"another overhead":    func(e *example) { e.kubelet["overhead"] = "x" },
			"no limit, as before": func(e *example) { e.kubelet["resources.cpuQuota"] = "-1" },
		},
	},
	{
		rule: "resizedAtOnce", step: "UpdatePodSandboxResources (earlier 1)", missing: Fields{},
		kubelet: Fields{"resources.cpuShares": "51", "resources.cpuQuota": "-1", "resources.memoryLimitInBytes": "128"},
		also: Steps{
			"RunPodSandbox":             {"config.linux.resources.cpuShares": "51"},
			"UpdatePodSandboxResources": {"resources.cpuShares": "51", "resources.cpuQuota": "20000", "resources.memoryLimitInBytes": "128"},
		},
		neighbours: map[string]func(*example){
			"no shares": func(e *example) { e.kubelet["resources.cpuShares"] = "-1" },
		},
	},
	{
		rule: "memoryRequestUnsent", step: "UpdateContainerResources app", missing: Fields{},
		kubelet: Fields{"containerId": "CONTAINER", "linux.cpuShares": "51", "linux.oomScoreAdj": "980"},
		also:    Steps{"CreateContainer app": {"config.linux.resources.cpuShares": "51", "config.linux.resources.oomScoreAdj": "990"}},
		neighbours: map[string]func(*example){
			"other shares":      func(e *example) { e.kubelet["linux.cpuShares"] = "102" },
			"one field more":    func(e *example) { e.kubelet["linux.memoryLimitInBytes"] = "102" },
			"another container": func(e *example) { e.step = "UpdateContainerResources log" },
			"an earlier one":    func(e *example) { e.step += " (earlier 1)" },
		},
	},
	{
		rule: "sandboxUnchanged", step: "UpdatePodSandboxResources", missing: Fields{},
		podstream: Fields{"podSandboxId": "SANDBOX", "overhead": "{}", "resources.cpuShares": "51"},
		also:      Steps{"RunPodSandbox": {"config.linux.overhead": "{}", "config.linux.resources.cpuShares": "51"}},
		neighbours: map[string]func(*example){
			"other shares":     func(e *example) { e.podstream["resources.cpuShares"] = "102" },
			"one field more":   func(e *example) { e.podstream["resources.cpuQuota"] = "102" },
			"another overhead": func(e *example) { e.podstream["overhead.cpuShares"] = "102" },
			"of a container":   func(e *example) { e.step = "UpdateContainerResources app" },
		},
	},
	{
		rule: "noLimitOfSandbox", step: "UpdatePodSandboxResources", also: Steps{"RunPodSandbox": {"config.linux.resources.cpuShares": "51"}},
		kubelet: Fields{"resources.cpuQuota": "-1", "resources.memoryLimitInBytes": "9223372036854771712"},
		neighbours: map[string]func(*example){
			"a limit":        func(e *example) { e.kubelet["resources.cpuQuota"] = "10000" },
			"podexecd's":     func(e *example) { e.kubelet, e.podstream = Fields{}, e.kubelet },
			"no shares":      func(e *example) { e.kubelet = Fields{"resources.cpuShares": "-1"} },
			"had one before": func(e *example) { e.also = Steps{"RunPodSandbox": {"config.linux.resources.cpuQuota": "10000"}} },
			"of a container": func(e *example) { e.step = "UpdateContainerResources app" },
		},
	},
	{
		rule: "sandboxResizedLast", step: orderStep,
		kubelet:   resizedBetween("UpdatePodSandboxResources (earlier 1)", "UpdatePodSandboxResources", "UpdateContainerResources app"),
		podstream: resizedBetween("UpdateContainerResources app", "UpdatePodSandboxResources"),
		neighbours: map[string]func(*example){
			"podexecd never does it": func(e *example) { e.podstream = resizedBetween("UpdateContainerResources app") },
			"the kubelet never does": func(e *example) { e.kubelet = resizedBetween("UpdateContainerResources app") },
			"podexecd does it first": func(e *example) {
				e.podstream = resizedBetween("UpdatePodSandboxResources", "UpdateContainerResources app")
			},
			"podexecd does it twice": func(e *example) {
				e.podstream = resizedBetween("UpdatePodSandboxResources (earlier 1)", "UpdateContainerResources app", "UpdatePodSandboxResources")
			},
			"after the end": func(e *example) {
				e.podstream = list("", "CreateContainer app", "StartContainer app", "UpdateContainerResources app", "StopContainer app", "UpdatePodSandboxResources", "StopPodSandbox")
			},
			"podexecd never updates": func(e *example) { e.podstream = resizedBetween("UpdatePodSandboxResources") },
			"another order":          func(e *example) { e.podstream["[0]"], e.podstream["[1]"] = e.podstream["[1]"], e.podstream["[0]"] },
			"one less":               func(e *example) { delete(e.podstream, "[5]") },
		},
	},
	{
		rule: "memoryRequestAnnotation", step: "CreateContainer app", change: restarts(v1.ResourceMemory),
		podstream: Fields{"config.annotations.podstream.io/memory-request": "1073741824"},
		neighbours: map[string]func(*example){
			"it needn't restart":  func(e *example) { e.change = memory("1Gi") },
			"it restarts for CPU": func(e *example) { e.change = restarts(v1.ResourceCPU) },
			"another request":     func(e *example) { e.podstream["config.annotations.podstream.io/memory-request"] = "1" },
			"of a sandbox":        func(e *example) { e.step = "RunPodSandbox" },
			"the kubelet's":       func(e *example) { e.kubelet, e.podstream = e.podstream, Fields{} },
		},
	},
	{
		rule: "serviceVariablesOrder", step: "CreateContainer app", change: variables,
		kubelet:   withServices(1, "A", "a", "B", "b"),
		podstream: withServices(0, "A", "a", "B", "b"),
		neighbours: map[string]func(*example){
			"podexecd's at random": func(e *example) { e.kubelet, e.podstream = e.podstream, e.kubelet },
			"another value":        func(e *example) { e.podstream["config.envs[2].value"] = "192.0.2.1" },
			"one more":             func(e *example) { e.podstream = withServices(0, "A", "a", "B", "b", "C", "c") },
			"not in the pod":       func(e *example) { e.change = nil },
		},
	},
}

// resizedBetween returns the order of a pod that does these steps between its start and its end.
func resizedBetween(steps ...string) Fields {
	return list("", slices.Concat([]string{"CreateContainer app", "StartContainer app"}, steps, []string{"StopContainer app", "StopPodSandbox"})...)
}

// restarts makes the container restart when the resource is changed.
func restarts(resource v1.ResourceName) func(*v1.Pod) {
	return func(p *v1.Pod) {
		memory("1Gi")(p)
		p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: resource, RestartPolicy: v1.RestartContainer}}
	}
}

// withServices returns variables, and after them those of services, the first of which is the one with that index.
func withServices(first int, pairs ...string) Fields {
	for _, name := range slices.Concat(serviceVariables[first:], serviceVariables[:first]) {
		pairs = append(pairs, name, "of "+name)
	}
	return environment(pairs...)
}
