package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

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

// A gateway with the role of deploy/gateway-rbac.yaml, and no more, knows its cluster.
func TestGatewayRole(t *testing.T) {
	client := plane.client(t)
	grant(t, "gateway-rbac.yaml")
	uid := clusterUID(t)
	n := &node{name: "gateway", user: "podconfigd", group: "podstream:gateways", args: []string{"--nodes=gateway-1"}}
	rig.Must(t, control.Until(t.Context(), nil, "the roles are in force", func(ctx context.Context) error {
		for _, right := range []authorizationv1.ResourceAttributes{
			{Namespace: "default", Verb: "get", Resource: "services", Name: "kubernetes"}, {Verb: "list", Resource: "pods"},
		} {
			review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: n.user, Groups: []string{n.group}, ResourceAttributes: &right},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("%w: %+v", control.ErrNotYet, right)
			}
		}
		return nil
	}))
	n.launch(t, time.Now().Add(control.CertificateLife))
	check(t, "the cluster's UID is stored before the source is ready", func(t *testing.T) {
		n.watch(t).ready(t)
		if stored := rig.Get(os.ReadFile(filepath.Join(n.path("root"), "api-cluster.json")))(t); !bytes.Contains(stored, []byte(uid)) {
			t.Errorf("%s is stored; want %s", stored, uid)
		}
	})
}

// grant applies the roles and bindings in a file of deploy/.
func grant(t *testing.T, file string) {
	t.Helper()
	client := plane.client(t)
	decoder := scheme.Codecs.UniversalDeserializer()
	manifests := rig.Get(os.ReadFile(filepath.Join("..", "..", "deploy", file)))(t)
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		object, _, err := decoder.Decode(document, nil, nil)
		rig.Must(t, err)
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			rig.Get(client.RbacV1().ClusterRoles().Create(t.Context(), o, metav1.CreateOptions{}))(t)
		case *rbacv1.ClusterRoleBinding:
			rig.Get(client.RbacV1().ClusterRoleBindings().Create(t.Context(), o, metav1.CreateOptions{}))(t)
		case *rbacv1.Role:
			rig.Get(client.RbacV1().Roles(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{}))(t)
		case *rbacv1.RoleBinding:
			rig.Get(client.RbacV1().RoleBindings(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{}))(t)
		default:
			t.Fatalf("the file has a %T", o)
		}
	}
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
