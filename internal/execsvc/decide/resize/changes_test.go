package resize

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

const mi = 1 << 20

// fit returns the actual resources of a container of amounts("1", "256Mi").
func fit() observed.Resources {
	return observed.Resources{CPUShares: 1024, CPUQuota: 100_000, CPUPeriod: 100_000, MemoryLimit: 256 * mi}
}

func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		asked  v1.ResourceRequirements
		has    func(r *observed.Resources)
		state  observed.State
		policy v1.ResourceName
		// request is the memory request that the container was made with.
		request *int64
		// want is what is changed: "shares quota memory", with words for how; empty for nothing.
		want string
	}{
		"as it should be":       {asked: amounts("1", "256Mi")},
		"more cpu":              {asked: amounts("2", "256Mi"), want: "2048 200000 256"},
		"less cpu":              {asked: amounts("500m", "256Mi"), want: "512 50000 256"},
		"more memory":           {asked: amounts("1", "512Mi"), want: "1024 100000 512"},
		"less memory":           {asked: amounts("1", "128Mi"), want: "1024 100000 128 lowers"},
		"restart for cpu":       {asked: amounts("2", "256Mi"), policy: v1.ResourceCPU, want: "2048 200000 256 restart"},
		"restart for memory":    {asked: amounts("1", "128Mi"), policy: v1.ResourceMemory, want: "1024 100000 128 restart lowers"},
		"no restart for cpu":    {asked: amounts("2", "256Mi"), policy: v1.ResourceMemory, want: "2048 200000 256"},
		"another request":       {asked: amounts("1", "256Mi"), request: ptr.To[int64](128 * mi), policy: v1.ResourceMemory, want: "1024 100000 256 restart"},
		"the same request":      {asked: amounts("1", "256Mi"), request: ptr.To[int64](256 * mi), policy: v1.ResourceMemory},
		"limits dropped":        {asked: amounts("-", "-"), want: "2 -1 -1"},
		"a limit is new":        {asked: amounts("1", "256Mi"), has: func(r *observed.Resources) { r.MemoryLimit = -1 }, want: "1024 100000 256 lowers"},
		"no limits, as it is":   {asked: amounts("-", "-"), has: func(r *observed.Resources) { *r = observed.Resources{CPUShares: 2, CPUQuota: -1, MemoryLimit: -1} }},
		"another period":        {asked: amounts("1", "256Mi"), has: func(r *observed.Resources) { r.CPUPeriod = 50_000 }, want: "1024 100000 256"},
		"it has ended":          {asked: amounts("2", "256Mi"), state: observed.Exited},
		"it is being made":      {asked: amounts("2", "256Mi"), state: observed.Created},
		"file differs":          {asked: amounts("1", "256Mi"), has: func(r *observed.Resources) { r.Unified = map[string]string{"memory.min": "1"} }, want: "1024 100000 256"},
		"file of another's":     {asked: amounts("1", "256Mi"), has: func(r *observed.Resources) { r.Unified = map[string]string{"memory.high": "1"} }},
		"the same file":         {asked: amounts("1", "256Mi"), has: func(r *observed.Resources) { r.Unified = map[string]string{"memory.min": fmt.Sprint(256 * mi)} }},
		"nobody tells":          {asked: amounts("1", "256Mi"), has: func(r *observed.Resources) { *r = observed.Resources{} }, want: "1024 100000 256 lowers"},
		"nobody tells, restart": {asked: amounts("1", "256Mi"), has: func(r *observed.Resources) { *r = observed.Resources{} }, policy: v1.ResourceCPU, want: "1024 100000 256 restart lowers"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf("p", 1, test.asked)
			if test.policy != "" {
				restartFor(test.policy)(pod)
			}
			c := observed.Container{ID: "id", Name: "a", State: observed.Running, Resources: ptr.To(fit()), MemoryRequest: test.request}
			if test.state != observed.Unknown {
				c.State = test.state
			}
			if test.has != nil {
				test.has(c.Resources)
			}
			if strings.HasPrefix(name, "nobody tells") {
				c.Resources = nil
			}
			node := criconfig.Node{CgroupV2: true, MemoryQoS: true}
			got := ""
			for _, change := range Changes(pod, &observed.Pod{Containers: []observed.Container{c}}, node) {
				limit := change.Want.GetMemoryLimitInBytes()
				if limit > 0 {
					limit /= mi
				}
				got += fmt.Sprint(change.Want.GetCpuShares(), " ", change.Want.GetCpuQuota(), " ", limit)
				if change.Restart {
					got += " restart"
				}
				if change.Lowers {
					got += " lowers"
				}
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// Containers of each kind are resized; one that gets less memory comes first. An init container that ends by itself isn't
// restarted for it.
func TestChangesOfSeveral(t *testing.T) {
	restarting := []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	pod := podOf("p", 1, amounts("1", "512Mi"))
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "b", Resources: amounts("1", "128Mi")}, v1.Container{Name: "new"})
	pod.Spec.InitContainers = []v1.Container{
		{Name: "done", Resources: amounts("2", "128Mi")},
		{Name: "init", Resources: amounts("1", "128Mi"), ResizePolicy: restarting},
		{Name: "side", Resources: amounts("1", "1Gi"), RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), ResizePolicy: restarting},
	}
	has := &observed.Pod{}
	for _, name := range []string{"init", "side", "a", "b"} {
		has.Containers = append(has.Containers, observed.Container{ID: name, Name: name, State: observed.Running, Resources: ptr.To(fit())})
	}
	has.Containers = append(has.Containers, observed.Container{ID: "done", Name: "done", State: observed.Exited, Resources: ptr.To(fit())})
	var order []string
	for _, change := range Changes(pod, has, criconfig.Node{}) {
		id := change.Container.ID
		if change.Restart {
			id += " restarts"
		}
		order = append(order, id)
	}
	if got := strings.Join(order, ", "); got != "init, b, side restarts, a" {
		t.Errorf("order %q", got)
	}
}
