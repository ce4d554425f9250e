package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// A standby gateway is cut off from the API server while all pods are recreated through the other one. Nodes that move to it
// then lose no pod, and get none that is gone (G11). When it can read the API server again, they hold what it has. So it is
// with an old copy of the standby's disk.
func TestG11Standby(t *testing.T) {
	allowGateways(t)
	f := newFleet(t, "standby", 20, 10)
	main, standby := newGateway(t, "main"), newGateway(t, "standby")
	check(t, "a standby that is cut off", func(t *testing.T) { f.cutOff(t, main, standby, false) })
	check(t, "one that is restarted meanwhile with an old copy of its disk", func(t *testing.T) { f.cutOff(t, main, standby, true) })
}

// fleet are hollow nodes, and the pods that each of them has at the API server.
type fleet struct {
	nodes []*hollow
	pods  int // for each node
	truth map[string]map[types.UID]bool
}

// newFleet creates the nodes' pods, which are gone after the test.
func newFleet(t *testing.T, name string, nodes, pods int) *fleet {
	t.Helper()
	f := &fleet{pods: pods, truth: map[string]map[types.UID]bool{}}
	for i := range nodes {
		f.nodes = append(f.nodes, newHollow(fmt.Sprintf("%s-%d", name, i)))
	}
	f.recreate(t)
	t.Cleanup(func() {
		client, err := plane.Client(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		for _, c := range f.nodes {
			for i := range pods {
				_ = client.CoreV1().Pods(namespace).Delete(context.Background(), fmt.Sprintf("%s-%d", c.node, i), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			}
		}
	})
	return f
}

// recreate replaces all pods by others of the same names.
func (f *fleet) recreate(t *testing.T) {
	t.Helper()
	client := plane.client(t)
	for _, c := range f.nodes {
		left := map[types.UID]bool{}
		for i := range f.pods {
			name := fmt.Sprintf("%s-%d", c.node, i)
			if f.truth[c.node] != nil {
				vanish(t, client, name)
			}
			left[createOn(t, c.node, client, name).UID] = true
		}
		f.truth[c.node] = left
	}
}

// follow has all nodes follow a gateway, each from where it is.
func (f *fleet) follow(t *testing.T, g *gateway) {
	t.Helper()
	for _, c := range f.nodes {
		c.follow(t, g)
	}
}

// converge waits until each node has the pods of the API server.
func (f *fleet) converge(t *testing.T) {
	t.Helper()
	for _, c := range f.nodes {
		c.await(t, "it holds the pods of the API server", func() bool { return c.ready && maps.Equal(c.uids(), f.truth[c.node]) })
	}
}

// leave ends the streams, and returns how many pods were removed and added on them.
func (f *fleet) leave() (removed, added int) {
	for _, c := range f.nodes {
		c.leave()
		removed, added = removed+c.removed, added+c.added
	}
	return removed, added
}

// cutOff cuts the standby off from the API server, recreates all pods through the main gateway, and moves the nodes to the
// standby. With restart, the standby is restarted before that, with a copy of its disk that was made before it was cut off.
func (f *fleet) cutOff(t *testing.T, main, standby *gateway, restart bool) {
	t.Helper()
	f.follow(t, standby)
	f.converge(t)
	f.leave()
	copied := filepath.Join(t.TempDir(), "copy")
	rig.Must(t, os.CopyFS(copied, os.DirFS(standby.path("root"))))
	standby.proxy.cut()
	f.follow(t, main)
	f.recreate(t)
	f.converge(t)
	f.leave()
	if restart {
		rig.Must(t, standby.daemon.Stop())
		rig.Must(t, os.RemoveAll(standby.path("root")))
		rig.Must(t, os.CopyFS(standby.path("root"), os.DirFS(copied)))
		standby.start(t)
	}
	f.follow(t, standby)
	for _, c := range f.nodes {
		c.await(t, "api is held", func() bool { return c.held != "" })
	}
	if removed, added := f.leave(); removed != 0 || added != 0 {
		t.Errorf("the nodes removed %d live pods and got %d that are gone; want 0 and 0", removed, added)
	}
	f.follow(t, standby)
	standby.proxy.heal()
	begun := time.Now()
	f.converge(t)
	t.Logf("the nodes hold the API server's pods %v after the standby can read it again", time.Since(begun).Round(time.Millisecond))
	if removed, added := f.leave(); removed != 0 || added != 0 {
		t.Errorf("the nodes removed %d pods and got %d, although they had all of them; want 0 and 0", removed, added)
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
