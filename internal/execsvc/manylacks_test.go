package execsvc

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A pod's status stays small, however many containers wait for however many volumes, and for however many reasons the
// pod is rejected.
func TestManyReasons(t *testing.T) {
	n := newNode(t)
	l := n.start()
	waits, refused := newPod("w", "waits", "api"), newPod("r", "refused", "api")
	of := waits.Spec.Containers[0]
	waits.Spec.Containers = nil
	refused.Spec.SecurityContext = &v1.PodSecurityContext{}
	for i := range 200 {
		name := fmt.Sprintf("volume-%03d", i)
		waits.Spec.Volumes = append(waits.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{Monitors: []string{"ceph.example.com"}}}})
		c := of
		c.Name = fmt.Sprintf("container-%03d", i)
		c.VolumeMounts = []v1.VolumeMount{{Name: name, MountPath: "/v"}}
		waits.Spec.Containers = append(waits.Spec.Containers, c)
		refused.Spec.SecurityContext.Sysctls = append(refused.Spec.SecurityContext.Sysctls, v1.Sysctl{Name: fmt.Sprintf("kernel.%060d", i), Value: "1"})
	}
	l.deliver(ops(change(client.Add, true, waits, refused)))
	p := l.await("w", "waits", func(p podview.Pod) bool {
		return p.Status != nil && len(p.Status.ContainerStatuses) == 200 && p.Status.ContainerStatuses[0].State.Waiting.Message != ""
	})
	total := 0
	for _, c := range p.Status.ContainerStatuses {
		if !strings.HasPrefix(c.State.Waiting.Message, "spec.volumes[0].cephfs: ") {
			t.Fatalf("container %s waits: %q", c.Name, c.State.Waiting.Message)
		}
		total += len(c.State.Waiting.Message)
	}
	if total > waitingBytes+200*len("…") {
		t.Errorf("the messages have %d bytes", total)
	}
	p = l.await("r", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Reason == "SysctlForbidden" })
	if got := len(p.Status.Message); got > 5<<10 {
		t.Errorf("the message has %d bytes", got)
	}
	for _, e := range l.PodErrors() {
		if len(e.Message) > 5<<10 {
			t.Errorf("the report about %s has a message of %d bytes", e.Name, len(e.Message))
		}
	}
}
