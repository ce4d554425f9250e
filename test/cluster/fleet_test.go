package cluster

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// fleetGroup is the group that may read the pods of all nodes.
const fleetGroup = "fleet"

// One podconfigd serves several nodes with one watch, with a separate role instead of a node's.
func TestFleet(t *testing.T) {
	client := plane.client(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fleetGroup},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}}
	rig.Get(client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))(t)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fleetGroup},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: fleetGroup},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fleetGroup}}}
	rig.Get(client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)

	n := &node{name: "fleet", user: "podconfigd", group: fleetGroup, args: []string{"--nodes=fleet-1,fleet-2"}}
	n.launch(t, time.Now().Add(control.CertificateLife))
	s := n.watch(t)
	check(t, "pods of its nodes come, others don't", func(t *testing.T) {
		s.ready(t)
		createOn(t, "fleet-1", client, "fleet-a")
		s.expect(t, "ADD fleet-a")
		createOn(t, "", client, "fleet-unscheduled")
		createOn(t, "fleet-3", client, "fleet-c")
		createOn(t, "fleet-2", client, "fleet-b")
		s.expect(t, "ADD fleet-b")
	})
	check(t, "a pod that is scheduled to one of them: ADD", func(t *testing.T) {
		bind(t, client, "fleet-unscheduled", "fleet-1")
		s.expect(t, "ADD fleet-unscheduled")
	})
	check(t, "one watch serves them all", func(t *testing.T) {
		requests := plane.requests(t, n.user, "pods")
		watches := 0
		for _, r := range requests {
			if r.verb == "watch" && !r.startsOver() {
				watches++
			}
			if selector := r.query.Get("fieldSelector"); selector != "spec.nodeName!=" {
				t.Errorf("%s of pods with the field selector %q", r.verb, selector)
			}
		}
		if len(requests) == 0 || watches > 1 {
			t.Errorf("podconfigd's requests are %v; want one watch", requests)
		}
	})
}
