package status

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

// podOf is a pod with main containers of those names, with init containers of the names that begin with "init", and
// sidecars of those that begin with "side".
func podOf(policy v1.RestartPolicy, names ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u1", Generation: 7},
		Spec:       v1.PodSpec{RestartPolicy: policy},
	}
	for _, name := range names {
		c := v1.Container{Name: name, Image: "img/" + name}
		switch {
		case strings.HasPrefix(name, "side"):
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case strings.HasPrefix(name, "init"):
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// has is what the runtime has: containers, the latest first, in the ready sandbox "s1" with an address.
func has(containers ...observed.Container) *observed.Pod {
	return &observed.Pod{
		UID: "u1", Containers: containers,
		Sandboxes: []observed.Sandbox{{ID: "s1", Attempt: 1, Ready: true, IPs: []string{"10.1.0.5"}}},
	}
}

func running(name string) observed.Container {
	return observed.Container{ID: "id-" + name, Name: name, SandboxID: "s1", State: observed.Running, Started: t0, ImageRef: "sha256:" + name}
}

func exited(name string, code int32) observed.Container {
	c := running(name)
	c.State, c.ExitCode, c.Finished = observed.Exited, code, t0.Add(time.Minute)
	return c
}

func created(name string) observed.Container {
	c := running(name)
	c.State, c.Started = observed.Created, time.Time{}
	return c
}

// attempt makes the container the n-th of its name.
func attempt(n uint32, c observed.Container) observed.Container {
	c.Attempt = n
	c.ID += string(rune('0' + n))
	return c
}

func in(pod *v1.Pod, rt *observed.Pod) Input {
	return Input{Pod: pod, Runtime: rt, RuntimeName: "containerd", Now: t0, HostIPs: []string{"192.0.2.1"}}
}
