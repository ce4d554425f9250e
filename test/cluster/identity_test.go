package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// etcd is replaced by an empty one at the same address: another cluster answers to the same credentials, at first from
// the same server. No pod is removed or added, also after restarts of the server and of podconfigd. With the first etcd
// the source works as before.
func TestEtcdReplaced(t *testing.T) {
	n := newNode(t, "identity")
	s := n.watch(t)
	s.ready(t)
	n.create(t, plane.client(t), "identity-a")
	s.expect(t, "ADD identity-a")
	n.create(t, plane.client(t), "identity-b")
	s.expect(t, "ADD identity-b")
	ours := clusterUID(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		// Later tests use the first cluster.
		if _, err := plane.Client(context.Background()); err != nil {
			t.Error(err)
			return
		}
		plane.Kill()
		if err := plane.Etcd.Replace(context.Background(), control.FirstStore); err != nil {
			t.Error(err)
		}
	})
	check(t, "etcd is replaced behind the server: the source isn't certain of its cluster, and keeps its pods", func(t *testing.T) {
		rig.Must(t, plane.Etcd.Replace(t.Context(), "second"))
		// Until it is restarted, the server may not make its Service in the new store.
		n.awaitError(t, 2, "of the cluster "+ours)
	})
	check(t, "the server is restarted, and has a pod for the node: the source names both clusters, and keeps its pods", func(t *testing.T) {
		plane.Kill()
		plane.resume(t)
		theirs := clusterUID(t)
		n.create(t, plane.client(t), "identity-foreign")
		n.awaitError(t, 2, "is of another cluster, "+theirs, ours)
		n.awaitAttempt(t)
	})
	check(t, "podconfigd is restarted: it isn't ready, and keeps its pods", func(t *testing.T) {
		rig.Must(t, n.daemon.Stop())
		n.start(t)
		n.awaitError(t, 2, "is of another cluster", ours)
		if source := rig.Get(n.source(t.Context()))(t); source.GetReady() {
			t.Error("the source is ready")
		}
	})
	s = n.watch(t)
	check(t, "a new consumer receives both pods, as stale", func(t *testing.T) {
		if first := s.initial(t); strings.Join(sorted(first.ops), ", ") != "RESTORE identity-a, RESTORE identity-b" || first.apiReady {
			t.Errorf("the initial state is %q, ready is %t; want both pods by RESTORE of a source that isn't ready", first.ops, first.apiReady)
		}
	})
	check(t, "the first etcd is back: the source is ready, and changes come as before", func(t *testing.T) {
		plane.Kill()
		rig.Must(t, plane.Etcd.Replace(t.Context(), control.FirstStore))
		plane.resume(t)
		s.expect(t, "READY")
		n.awaitSource(t, false, 2)
		relabel(t, plane.client(t), "identity-a", "2")
		s.expect(t, "UPDATE identity-a")
	})
}

// Service default/kubernetes is deleted, and the server makes it again: it is the same cluster, as it has the node's pods.
func TestClusterServiceDeleted(t *testing.T) {
	n := newNode(t, "service")
	s := n.watch(t)
	s.ready(t)
	n.create(t, plane.client(t), "service-a")
	s.expect(t, "ADD service-a")
	before := clusterUID(t)
	check(t, "the Service is deleted and made again, with another UID", func(t *testing.T) {
		rig.Must(t, plane.client(t).CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}))
		if now := clusterUID(t); now == before {
			t.Errorf("the UID is %s as before", now)
		}
	})
	check(t, "the server and podconfigd are restarted: pods are changed as before", func(t *testing.T) {
		plane.stop(t)
		rig.Must(t, n.daemon.Stop())
		plane.resume(t)
		n.start(t)
		s = n.watch(t)
		n.awaitSource(t, false, 1)
		relabel(t, plane.client(t), "service-a", "2")
		n.awaitLabel(t, "service-a", "2")
	})
}

// clusterUID returns the UID of Service default/kubernetes, once it exists.
func clusterUID(t *testing.T) string {
	t.Helper()
	client := plane.client(t)
	var uid string
	rig.Must(t, control.Until(t.Context(), nil, "the server makes its Service", func(ctx context.Context) error {
		service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil {
			uid = string(service.UID)
		}
		return err
	}))
	return uid
}

// awaitError waits until the source's error has these texts, and fails if it has another number of pods meanwhile.
func (n *node) awaitError(t *testing.T, pods int, texts ...string) {
	t.Helper()
	rig.Must(t, control.Until(t.Context(), n.daemon, fmt.Sprintf("the source fails with %q", texts), func(ctx context.Context) error {
		s, err := n.source(ctx)
		if err != nil {
			return err
		}
		if int(s.GetPodCount()) != pods {
			t.Fatalf("the source has %d pods; want %d: %v", s.GetPodCount(), pods, s)
		}
		for _, text := range texts {
			if !strings.Contains(s.GetLastError(), text) {
				return fmt.Errorf("%w: %v", control.ErrNotYet, s)
			}
		}
		return nil
	}))
}

// awaitAttempt waits until podconfigd has listed the pods once more.
func (n *node) awaitAttempt(t *testing.T) {
	t.Helper()
	before := countRestarts(plane.requests(t, n.user, "pods"))
	rig.Must(t, control.Until(t.Context(), n.daemon, "another list", func(context.Context) error {
		if countRestarts(plane.requests(t, n.user, "pods")) == before {
			return control.ErrNotYet
		}
		return nil
	}))
	n.awaitError(t, 2)
}

// awaitLabel waits until the pod has that label "version".
func (n *node) awaitLabel(t *testing.T, name, version string) {
	t.Helper()
	rig.Must(t, control.Until(t.Context(), n.daemon, "pod "+name+" has version "+version, func(context.Context) error {
		pod := &corev1.Pod{}
		if err := pod.Unmarshal(n.pod(t, name).GetProtobuf()); err != nil {
			return err
		}
		if got := pod.Labels["version"]; got != version {
			return fmt.Errorf("%w: %s", control.ErrNotYet, got)
		}
		return nil
	}))
}
