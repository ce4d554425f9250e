package usage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/rig"
)

// newCgroup makes a cgroup in each hierarchy, as an administrator does, and returns its name.
func newCgroup(t *testing.T) string {
	t.Helper()
	name := "podstream-test-" + rand.Text()
	hierarchies := rig.Get(filepath.Glob("/sys/fs/cgroup/*/cgroup.procs"))(t)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"}
	}
	for _, file := range hierarchies {
		dir := filepath.Join(filepath.Dir(file), name)
		rig.Must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { rig.Must(t, os.Remove(dir)) })
	}
	return "/" + name
}

// The Node has as many pods as its CPUs may have, and events of the limits that are enforced.
func TestNodeAllocatable(t *testing.T) {
	cgroup := newCgroup(t)
	n := newNode(t, "limited", func(n *node) {
		n.Config = "podsPerCore: 3\nenforceNodeAllocatable: [pods, system-reserved]\nsystemReserved: {cpu: 100m, memory: 64Mi}\n" +
			fmt.Sprintf("systemReservedCgroup: %s\n", cgroup)
	})
	status := rig.Get(here.Client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{}))(t).Status
	if pods, cpus := status.Capacity.Pods().Value(), status.Capacity.Cpu().Value(); pods != 3*cpus || status.Allocatable.Pods().Value() != pods {
		t.Errorf("with %d CPUs the node has %d pods, of which %d are allocatable; want 3 for each CPU", cpus, pods, status.Allocatable.Pods().Value())
	}
	if left, all := status.Allocatable.Cpu().MilliValue(), status.Capacity.Cpu().MilliValue(); left != all-100 {
		t.Errorf("of %dm CPU, %dm are allocatable; want 100m less", all, left)
	}
	rig.Must(t, untilNil(t, "the node has its events", func() error {
		events, err := here.Client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + n.Name + ",reason=NodeAllocatableEnforced",
		})
		if err != nil {
			return err
		}
		var messages []string
		for _, e := range events.Items {
			if e.Type != corev1.EventTypeNormal {
				return fmt.Errorf("the event %q is of type %s", e.Message, e.Type)
			}
			messages = append(messages, e.Message)
		}
		all := strings.Join(messages, "\n")
		for _, want := range []string{"Updated Node Allocatable limit across pods", "Updated limits on system reserved cgroup " + cgroup} {
			if !strings.Contains(all, want) {
				return errors.New("they are:\n" + all)
			}
		}
		return nil
	}))
}
