package world

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podstream/podstream/test/inside"
)

// TestResources: the kernel's limits are the resources of the manifest, for each container and for the pod as a whole.
func TestResources(t *testing.T) {
	t.Parallel()
	rows := []row{
		{
			name:   "huge pages that the node has not",
			spec:   `{containers: [{name: main, resources: {limits: {hugepages-1Gi: 999Gi, cpu: 100m, memory: 32Mi}}}]}`,
			status: refused("UnexpectedAdmissionError", "(res: hugepages-1Gi, q: "),
		},
	}
	for i := range boundedPods {
		rows = append(rows, boundedPods[i].row())
	}
	runRows(t, containerds, rows)
}

// bounded is a pod with resources, and its expected limits.
type bounded struct {
	name, spec string
	// tier is the parent cgroup of the QoS class: kubepods, burstable or besteffort.
	tier string
	// containers are the limits of each inspecting container, and pod the limits of the pod's cgroup.
	containers map[string]bounds
	pod        bounds
	// oom is the expected oom_score_adj of main.
	oom int
}

// boundedPods request little, because several run in parallel on a node that may have only one CPU.
var boundedPods = []bounded{
	{
		name: "nothing is asked for", spec: `{}`,
		tier: "besteffort", oom: 1000,
		containers: map[string]bounds{"main": {shares: 2}},
		pod:        bounds{shares: 2},
	},
	{
		name: "cpu request", spec: `{containers: [{name: main, resources: {requests: {cpu: 50m}}}]}`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"main": {shares: 51}},
		pod:        bounds{shares: 51},
	},
	{
		name: "cpu limit, which is a request too", spec: `{containers: [{name: main, resources: {limits: {cpu: 100m}}}]}`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"main": {shares: 102, cpu: "10000/100000"}},
		pod:        bounds{shares: 102, cpu: "10000/100000"},
	},
	{
		name: "cpu limit below the kernel's least", spec: `{containers: [{name: main, resources: {limits: {cpu: 5m}}}]}`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"main": {shares: 5, cpu: "1000/100000"}},
		pod:        bounds{shares: 5, cpu: "1000/100000"},
	},
	{
		name: "memory request", spec: `{containers: [{name: main, resources: {requests: {memory: 128Mi}}}]}`,
		tier: "burstable", oom: burstableOOM(128 << 20),
		containers: map[string]bounds{"main": {shares: 2}},
		pod:        bounds{shares: 2},
	},
	{
		name: "memory limit", spec: `{containers: [{name: main, resources: {limits: {memory: 64Mi}}}]}`,
		tier: "burstable", oom: burstableOOM(64 << 20),
		containers: map[string]bounds{"main": {shares: 2, memory: 64}},
		pod:        bounds{shares: 2, memory: 64},
	},
	{
		name: "limits of both", spec: `{containers: [{name: main, resources: {limits: {cpu: 100m, memory: 64Mi}}}]}`,
		tier: "kubepods", oom: -997,
		containers: map[string]bounds{"main": {shares: 102, cpu: "10000/100000", memory: 64}},
		pod:        bounds{shares: 102, cpu: "10000/100000", memory: 64},
	},
	{
		name: "a pod has what its containers have together", spec: `
containers:
- {name: main, resources: {requests: {cpu: 20m}, limits: {cpu: 40m, memory: 32Mi}}}
- {name: other, resources: {requests: {cpu: 60m}, limits: {cpu: 60m, memory: 64Mi}}}`,
		tier: "burstable", oom: burstableOOM(32 << 20),
		containers: map[string]bounds{
			"main": {shares: 20, cpu: "4000/100000", memory: 32}, "other": {shares: 61, cpu: "6000/100000", memory: 64},
		},
		pod: bounds{shares: 81, cpu: "10000/100000", memory: 96},
	},
	{
		name: "a pod has no limit if one of its containers has none", spec: `
containers:
- {name: main, resources: {limits: {cpu: 40m, memory: 32Mi}}}
- {name: other}`,
		tier: "burstable", oom: burstableOOM(32 << 20),
		containers: map[string]bounds{"main": {shares: 40, cpu: "4000/100000", memory: 32}, "other": {shares: 2}},
		pod:        bounds{shares: 40},
	},
	{
		name: "a sidecar counts beside the containers", spec: `
initContainers: [{name: sidecar, restartPolicy: Always, resources: {limits: {cpu: 20m, memory: 16Mi}}}]
containers: [{name: main, resources: {limits: {cpu: 40m, memory: 32Mi}}}]`,
		tier: "kubepods", oom: -997,
		containers: map[string]bounds{
			"sidecar": {shares: 20, cpu: "2000/100000", memory: 16}, "main": {shares: 40, cpu: "4000/100000", memory: 32},
		},
		pod: bounds{shares: 61, cpu: "6000/100000", memory: 48},
	},
	{
		name: "an init container counts beside the sidecars before it", spec: `
initContainers:
- {name: sidecar, restartPolicy: Always, resources: {requests: {cpu: 20m}}}
- {name: init, args: [exit, "0"], resources: {requests: {cpu: 80m}}}
containers: [{name: main, resources: {requests: {cpu: 40m}}}]`,
		tier: "burstable", oom: 999,
		containers: map[string]bounds{"sidecar": {shares: 20}, "main": {shares: 40}},
		pod:        bounds{shares: 102},
	},
	{
		name: "resources of the pod as a whole", spec: `
resources: {requests: {cpu: 40m, memory: 64Mi}, limits: {cpu: 100m, memory: 128Mi}}
containers:
- {name: main}
- {name: own, resources: {requests: {cpu: 20m}, limits: {cpu: 50m, memory: 48Mi}}}`,
		tier: "burstable", oom: burstableOOM((64 - 48) << 20 / 2),
		containers: map[string]bounds{
			"main": {shares: 102, cpu: "10000/100000", memory: 128}, "own": {shares: 20, cpu: "5000/100000", memory: 48},
		},
		pod: bounds{shares: 40, cpu: "10000/100000", memory: 128},
	},
}

// row returns the pod as a row: it checks the containers' own reports, and the cgroups on the node.
func (b *bounded) row() row {
	return row{
		name: b.name, spec: b.spec,
		all: func(found map[string]*inside.Report) error {
			for name, want := range b.containers {
				if found[name] == nil {
					return fmt.Errorf("container %s has found nothing", name)
				}
				if err := compareBounds(name, found[name].Limits, want); err != nil {
					return err
				}
			}
			return same("main's oom_score_adj", found["main"].OOMScoreAdj, oomScoreAdj(b.oom))
		},
		node: func(p *pod, found map[string]*inside.Report) error {
			limits, err := p.limits(b.tier)
			if err != nil {
				return err
			}
			return errors.Join(compareBounds("the pod", limits, b.pod), p.processesAreWithin(len(found)))
		},
	}
}
