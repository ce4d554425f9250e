package podmeta

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list makes a ResourceList of "cpu" and "memory" quantities; empty ones are left out.
func list(cpu, memory string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func podOf(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: containers}}
}

func with(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func TestQOSClass(t *testing.T) {
	full := with(list("1", "1Gi"), list("1", "1Gi"))
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want v1.PodQOSClass
	}{
		"nothing said":             {podOf(v1.Container{}), v1.PodQOSBestEffort},
		"zeros only":               {podOf(with(list("0", "0"), nil)), v1.PodQOSBestEffort},
		"other resources only":     {podOf(with(v1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}, nil)), v1.PodQOSBestEffort},
		"requests equal limits":    {podOf(full), v1.PodQOSGuaranteed},
		"the same otherwise put":   {podOf(with(list("1000m", "1024Mi"), list("1", "1Gi"))), v1.PodQOSGuaranteed},
		"limits only":              {podOf(with(nil, list("1", "1Gi"))), v1.PodQOSGuaranteed},
		"request of zero":          {podOf(with(list("0", "1Gi"), list("1", "1Gi"))), v1.PodQOSBurstable},
		"requests below limits":    {podOf(with(list("500m", "1Gi"), list("1", "1Gi"))), v1.PodQOSBurstable},
		"memory without cpu":       {podOf(with(list("", "1Gi"), list("", "1Gi"))), v1.PodQOSBurstable},
		"one container of two":     {podOf(full, v1.Container{}), v1.PodQOSBurstable},
		"init container without":   {&v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{}}, Containers: []v1.Container{full}}}, v1.PodQOSBurstable},
		"the API server's is kept": {&v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}}, v1.PodQOSBurstable},
	} {
		if got := QOSClass(c.pod); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
