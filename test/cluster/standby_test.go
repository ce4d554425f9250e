package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

const (
	standbyNodes = 20
	standbyPods  = 10 // for each node
)

// A standby gateway is cut off from the API server while all pods are recreated through the other one. Nodes that move to it
// then lose no pod, and get none that is gone (G11). When it can read the API server again, they hold what it has. So it is
// with an old copy of the standby's disk.
func TestG11Standby(t *testing.T) {
	kube := plane.client(t)
	allowGateways(t)
	main, standby := newGateway(t, "main"), newGateway(t, "standby")
	truth := map[string]map[types.UID]bool{}
	recreate := func(t *testing.T) {
		t.Helper()
		for i := range standbyNodes {
			node := fmt.Sprintf("standby-%d", i)
			left := map[types.UID]bool{}
			for j := range standbyPods {
				name := fmt.Sprintf("%s-%d", node, j)
				if truth[node] != nil {
					vanish(t, kube, name)
				}
				left[createOn(t, node, kube, name).UID] = true
			}
			truth[node] = left
		}
	}
	recreate(t)
	t.Cleanup(func() {
		for i := range standbyNodes {
			for j := range standbyPods {
				_ = kube.CoreV1().Pods(namespace).Delete(context.Background(), fmt.Sprintf("standby-%d-%d", i, j), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			}
		}
	})
	var consumers []*hollow
	for i := range standbyNodes {
		consumers = append(consumers, newHollow(fmt.Sprintf("standby-%d", i)))
	}
	follow := func(t *testing.T, g *gateway) {
		t.Helper()
		for _, c := range consumers {
			c.follow(t, g)
		}
	}
	converge := func(t *testing.T) {
		t.Helper()
		for _, c := range consumers {
			c.await(t, "it holds the pods of the API server", func() bool { return c.ready && maps.Equal(c.uids(), truth[c.node]) })
		}
	}
	leave := func() (removed, added int) {
		for _, c := range consumers {
			c.leave()
			removed, added = removed+c.removed, added+c.added
		}
		return removed, added
	}
	copied := filepath.Join(t.TempDir(), "copy")
	for _, what := range []string{"a standby that is cut off", "one that is restarted meanwhile with an old copy of its disk"} {
		check(t, what, func(t *testing.T) {
			follow(t, standby)
			converge(t)
			leave()
			rig.Must(t, os.RemoveAll(copied))
			rig.Must(t, os.CopyFS(copied, os.DirFS(standby.path("root"))))
			standby.proxy.cut()
			follow(t, main)
			recreate(t)
			converge(t)
			leave()
			if strings.Contains(what, "old copy") {
				rig.Must(t, standby.daemon.Stop())
				rig.Must(t, os.RemoveAll(standby.path("root")))
				rig.Must(t, os.CopyFS(standby.path("root"), os.DirFS(copied)))
				standby.start(t)
			}
			follow(t, standby)
			for _, c := range consumers {
				c.await(t, "api is held", func() bool { return c.held != "" })
			}
			if removed, added := leave(); removed != 0 || added != 0 {
				t.Errorf("the nodes removed %d live pods and got %d that are gone; want 0 and 0", removed, added)
			}
			follow(t, standby)
			standby.proxy.heal()
			begun := time.Now()
			converge(t)
			t.Logf("the nodes hold the API server's pods %v after the standby can read it again", time.Since(begun).Round(time.Millisecond))
			if removed, added := leave(); removed != 0 || added != 0 {
				t.Errorf("the nodes removed %d pods and got %d, although they had all of them; want 0 and 0", removed, added)
			}
		})
	}
}

// 200 times all nodes move from one gateway to the other, while pods are deleted and created. Both can read the API server:
// no node is held for more than two seconds, and none goes back.
func TestG11Failovers(t *testing.T) {
	const moves = 200
	kube := plane.client(t)
	allowGateways(t)
	gateways := []*gateway{newGateway(t, "left"), newGateway(t, "right")}
	c := newHollow("failover")
	ctx, cancel := context.WithCancel(t.Context())
	var churn sync.WaitGroup
	churn.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("failover-%d", i%8)
			pods := kube.CoreV1().Pods(namespace)
			if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				t.Error(err)
				return
			}
			if ctx.Err() == nil {
				createOn(t, c.node, kube, name)
			}
		}
	})
	var longest time.Duration
	for i := range moves {
		c.follow(t, gateways[i%2])
		begun := time.Now()
		c.await(t, "it is synced, and nothing is held", func() bool { return c.ready && c.held == "" })
		longest = max(longest, time.Since(begun))
		c.leave()
	}
	cancel()
	churn.Wait()
	t.Logf("%d moves; the longest took %v until nothing was held; %d pods were removed", moves, longest.Round(time.Millisecond), len(c.gone))
	if longest > 2*time.Second {
		t.Errorf("a move took %v until nothing was held; want at most 2 s", longest)
	}
	if c.back > 0 {
		t.Errorf("the node got %d pods that it knew to be gone", c.back)
	}
}

// etcd is restored from a snapshot under 50 nodes, which hold pods that are newer, and lack some that the snapshot has. All
// follow within a minute, also those that move to the other gateway meanwhile. A pod that exists in both states stays.
func TestG11Restored(t *testing.T) {
	const nodes, bound = 50, time.Minute
	kube := plane.client(t)
	allowGateways(t)
	gateways := []*gateway{newGateway(t, "first"), newGateway(t, "second")}
	var consumers []*hollow
	saved, now := map[string]map[types.UID]bool{}, map[string]map[types.UID]bool{}
	for i := range nodes {
		c := newHollow(fmt.Sprintf("restored-%d", i))
		consumers = append(consumers, c)
		keep := createOn(t, c.node, kube, c.node+"-keep").UID
		saved[c.node] = map[types.UID]bool{keep: true, createOn(t, c.node, kube, c.node+"-gone").UID: true}
		now[c.node] = map[types.UID]bool{keep: true}
		c.follow(t, gateways[i%2])
	}
	holds := func(t *testing.T, pods map[string]map[types.UID]bool) {
		t.Helper()
		for _, c := range consumers {
			c.await(t, "it holds the pods of the API server", func() bool { return c.ready && c.held == "" && maps.Equal(c.uids(), pods[c.node]) })
		}
	}
	holds(t, saved)
	t.Cleanup(func() {
		// Later tests use the store that etcd began with.
		if _, err := plane.Client(context.Background()); err != nil {
			t.Error(err)
			return
		}
		plane.Kill()
		if err := plane.Etcd.Replace(context.Background(), control.FirstStore); err != nil {
			t.Error(err)
		}
	})
	rig.Must(t, plane.Etcd.Save(t.Context(), "restored"))
	rig.Must(t, control.Until(t.Context(), nil, "the server works again", func(ctx context.Context) error {
		if _, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("%w: %w", control.ErrNotYet, err)
		}
		return nil
	}))
	for _, c := range consumers {
		vanish(t, kube, c.node+"-gone")
		now[c.node][createOn(t, c.node, kube, c.node+"-new").UID] = true
	}
	holds(t, now)
	for _, c := range consumers {
		c.mu.Lock()
		clear(c.gone) // The snapshot has them.
		c.mu.Unlock()
	}
	check(t, "etcd is restored: all nodes follow, and half of them move", func(t *testing.T) {
		plane.Kill()
		rig.Must(t, plane.Etcd.Replace(t.Context(), "restored"))
		begun := time.Now()
		plane.resume(t)
		served := time.Now()
		for i, c := range consumers {
			if i%4 < 2 {
				c.leave()
				c.follow(t, gateways[(i+1)%2])
			}
		}
		holds(t, saved)
		took := time.Since(served)
		t.Logf("the API server serves after %v; all nodes follow %v later", served.Sub(begun).Round(time.Millisecond), took.Round(time.Millisecond))
		if took > bound {
			t.Errorf("the nodes followed after %v; want %v", took, bound)
		}
	})
	for _, c := range consumers {
		c.leave()
		for uid := range saved[c.node] {
			if now[c.node][uid] && c.gone[uid] {
				t.Errorf("node %s removed pod %s, which exists in both states", c.node, uid)
			}
		}
	}
}

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
}

func newGateway(t *testing.T, name string) *gateway {
	t.Helper()
	g := &gateway{node: &node{name: name, user: "podconfigd-" + name, group: fleetGroup, args: []string{"--nodes=*"}}, proxy: newProxy(t)}
	g.server = g.proxy.url()
	g.launch(t, time.Now().Add(control.CertificateLife))
	return g
}
