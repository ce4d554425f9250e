package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// allowGateways gives the group of the fleet what deploy/gateway-rbac.yaml gives a gateway.
func allowGateways(t *testing.T) {
	t.Helper()
	name, kube := t.Name(), plane.client(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(name)}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{"kubernetes"}, Verbs: []string{"get"}},
	}}
	rig.Get(kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))(t)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fleetGroup}}}
	rig.Get(kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
		_ = kube.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
	})
}

// gateway is a podconfigd that reads the pods of all nodes through a proxy.
type gateway struct {
	*node
	proxy *proxy
	// cgroup is that of a gateway whose usage is measured.
	cgroup *cgroup
}

func newGateway(t *testing.T, name string) *gateway {
	t.Helper()
	return launchGateway(t, name, podconfigd)
}

// launchGateway starts a gateway that runs the program.
func launchGateway(t *testing.T, name, program string) *gateway {
	t.Helper()
	g := &gateway{node: &node{name: name, user: "podconfigd-" + name, group: fleetGroup, args: []string{"--nodes=*"}, program: program}, proxy: newProxy(t)}
	g.server = g.proxy.url()
	g.launch(t, time.Now().Add(control.CertificateLife))
	return g
}
