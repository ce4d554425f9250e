package cridiff

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// resizeRules are the differences of pods that come from an API server and are resized in place.
var resizeRules = []Rule{
	{
		Name: "resizedAtOnce",
		Reason: "The kubelet resizes memory and CPU of a container one after the other, and tells the runtime of the pod's resources after each " +
			"write to the pod's cgroup: a limit, a request. podexecd resizes a container at once, and tells of the pod when all is done. The last " +
			"requests are the same, the kubelet's earlier ones have some of the old resources and some of the new ones.",
		Step: regexp.MustCompile(`^Update(ContainerResources [^ ]+|PodSandboxResources) \(earlier \d+\)$`), Path: regexp.MustCompile(`^$`),
		When: func(d *Difference) bool { return d.Kubelet == made && d.Podstream == absent && d.hasSomeOfBoth() },
	},
	{
		Name:   "sandboxResizedLast",
		Reason: "The kubelet tells the runtime of the pod's resources when it has written them to the pod's cgroup, podexecd when all containers have theirs too.",
		Step:   regexp.MustCompile(`^` + orderStep + `$`), Path: regexp.MustCompile(`^\[\d+\]$`),
		When: sandboxLast,
	},
	{
		Name: "memoryRequestUnsent",
		Reason: "A memory request alone changes only the OOM score of a running container, which the OCI runtimes' update doesn't have. The kubelet " +
			"sends the update, podexecd doesn't.",
		Step: regexp.MustCompile(`^UpdateContainerResources [^ ]+$`), Path: regexp.MustCompile(`^$`),
		When: func(d *Difference) bool { return d.Podstream == absent && d.onlyScore(d.Step) },
	},
	{
		Name: "sandboxUnchanged",
		Reason: "When the containers' resources change and the pod's don't, the kubelet doesn't write to the pod's cgroup, and tells the runtime " +
			"nothing of the pod. podexecd tells it the same resources again.",
		Step: regexp.MustCompile(`^UpdatePodSandboxResources$`), Path: regexp.MustCompile(`^$`),
		When: func(d *Difference) bool {
			return d.Kubelet == absent && d.Podstream == made && sandboxUnchanged(d.of.podstream)
		},
	},
	{
		Name: "noLimitOfSandbox",
		Reason: "For a pod without a limit the kubelet reads that of the pod's cgroup, which stands for none, and tells the runtime of it. podexecd " +
			"tells of no limit, as both do when they make the sandbox.",
		Step: regexp.MustCompile(`^UpdatePodSandboxResources$`), Path: regexp.MustCompile(`^resources\.(cpuQuota|memoryLimitInBytes)$`),
		When: func(d *Difference) bool {
			return d.Podstream == absent && isNoLimit(d.Path, d.Kubelet) && value(d.of.podstream["RunPodSandbox"], "config.linux."+d.Path) == absent
		},
	},
	{
		Name: "memoryRequestAnnotation",
		Reason: "podexecd keeps the memory request of a container that restarts to get another one in an annotation, as runtimes don't report it. " +
			"The kubelet has a file for it.",
		Step: createContainer, Path: regexp.MustCompile(`^config\.annotations\.podstream\.io/memory-request$`),
		When: func(d *Difference) bool {
			c := d.container()
			return d.Kubelet == absent && c != nil && d.Podstream == fmt.Sprint(c.Resources.Requests.Memory().Value()) &&
				slices.Contains(c.ResizePolicy, v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer})
		},
	},
	{
		Name:   "serviceVariablesOrder",
		Reason: "The kubelet sends the variables of services in a random order, podexecd after the pod's, in that of the services' names and ports.",
		Step:   createContainer, Path: regexp.MustCompile(`^config\.envs\[\d+\]\.(key|value)$`),
		When: func(d *Difference) bool { return d.variablesIn(serviceVariables...) },
	},
}

// serviceVariables are the names of those that each pod of an API server has.
var serviceVariables = []string{
	"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS", "KUBERNETES_PORT", "KUBERNETES_PORT_443_TCP",
	"KUBERNETES_PORT_443_TCP_PROTO", "KUBERNETES_PORT_443_TCP_PORT", "KUBERNETES_PORT_443_TCP_ADDR",
}

var earlier = regexp.MustCompile(` \(earlier \d+\)$`)

// hasSomeOfBoth reports whether each field of the kubelet's earlier request is that of podexecd's last one, or what the
// container or sandbox was made with.
func (d *Difference) hasSomeOfBoth() bool {
	last := earlier.ReplaceAllString(d.Step, "")
	begin := "RunPodSandbox"
	if c, ok := strings.CutPrefix(last, "UpdateContainerResources "); ok {
		begin = "CreateContainer " + c
	}
	is, was := d.of.podstream[last], d.of.podstream[begin]
	for path, v := range d.of.kubelet[d.Step] {
		_, field, _ := strings.Cut(path, ".")
		old := value(was, "config.linux.resources."+field)
		if v != value(is, path) && v != old && !(old == absent && isNoLimit(path, v)) {
			return false
		}
	}
	return is != nil && was != nil
}

// onlyScore reports whether only the kubelet resizes a container in that step, and sends what it made it with, but for the
// OOM score.
func (d *Difference) onlyScore(step string) bool {
	c, update := strings.CutPrefix(step, "UpdateContainerResources ")
	is, ok := d.of.kubelet[step]
	if _, both := d.of.podstream[step]; !update || !ok || both {
		return false
	}
	for path, v := range is {
		if path != "containerId" && path != "linux.oomScoreAdj" && v != value(d.of.kubelet["CreateContainer "+c], "config.linux.resources."+strings.TrimPrefix(path, "linux.")) {
			return false
		}
	}
	return true
}

// sandboxUnchanged reports whether the sandbox is resized to what it was made with.
func sandboxUnchanged(steps Steps) bool {
	for path, v := range steps["UpdatePodSandboxResources"] {
		if path != "podSandboxId" && v != value(steps["RunPodSandbox"], "config.linux."+path) {
			return false
		}
	}
	return value(steps["UpdatePodSandboxResources"], "podSandboxId") == "SANDBOX"
}

// isNoLimit reports whether the value of a cgroup's limit stands for none.
func isNoLimit(path, v string) bool {
	return strings.HasSuffix(path, ".cpuQuota") && v == "-1" || strings.HasSuffix(path, ".memoryLimitInBytes") && v == "9223372036854771712"
}

// sandboxLast reports whether the orders are the same but for resizedAtOnce, memoryRequestUnsent and the resize of the sandbox, which podexecd
// does once, directly after a container has its new resources, before any ends for good.
func sandboxLast(d *Difference) bool {
	const sandbox = "UpdatePodSandboxResources"
	rest := func(order Fields) []string {
		return slices.DeleteFunc(stepsIn(order), func(step string) bool {
			return step == sandbox || earlier.MatchString(step) || d.onlyScore(step)
		})
	}
	steps := stepsIn(d.of.podstream[orderStep])
	at := slices.Index(steps, sandbox)
	if at < 1 || !slices.Contains(stepsIn(d.of.kubelet[orderStep]), sandbox) && !sandboxUnchanged(d.of.podstream) {
		return false
	}
	sized := strings.HasPrefix(steps[at-1], "UpdateContainerResources ") || strings.HasPrefix(steps[at-1], "StartContainer ")
	ends := !slices.ContainsFunc(steps[at+1:], func(step string) bool { return !strings.HasPrefix(step, "Stop") })
	return sized && ends && !slices.ContainsFunc(steps, earlier.MatchString) &&
		slices.Equal(rest(d.of.kubelet[orderStep]), rest(d.of.podstream[orderStep]))
}

// stepsIn returns the steps in their order.
func stepsIn(order Fields) []string {
	steps := make([]string, len(order))
	for i := range steps {
		steps[i] = value(order, fmt.Sprintf("[%d]", i))
	}
	return steps
}
