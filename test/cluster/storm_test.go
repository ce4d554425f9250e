package cluster

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/test/rig"
	"github.com/podstream/podstream/test/robustness"
)

// By default the storm is a short one. Ten minutes with the times of a real one are
// -storm-nodes=300 -storm-time=10m -storm-kill=1m -storm-absence=5m.
var (
	stormNodes   = flag.Int("storm-nodes", 40, "`number` of nodes in TestFleetStorm")
	stormSample  = flag.Int("storm-sample", 20, "`number` of the nodes whose streams are recorded and checked")
	stormTime    = flag.Duration("storm-time", 40*time.Second, "how `long` the storm lasts")
	stormKill    = flag.Duration("storm-kill", 5*time.Second, "`interval` at which a gateway is killed")
	stormAbsence = flag.Duration("storm-absence", 10*time.Second, "how `long` the API server is away in the middle of the storm")
	stormSeed    = flag.Uint64("storm-seed", 0, "`seed` of what is random in the storm; 0: another one for each run")
)

// disturbance is the interval at which other nodes are stopped and reconnect.
const disturbance = 3 * time.Second

// storm is a fleet under all kinds of failures at once.
type storm struct {
	// test is the whole test: a node follows its gateways until that ends, and not only for a part of it.
	test     *testing.T
	recorder *robustness.Recorder
	gateways []*stormGateway
	nodes    []*stormNode
	sampled  map[string]bool
	random   *rand.Rand
	// watching ends the witnesses, and the observer of the API server.
	watching context.Context //nolint:containedctx // It is the lifetime of the recording.
	end      func()
	// changes, stops, reconnects and kills count what happened.
	changes                  atomic.Int64
	stops, reconnects, kills int

	mu     sync.Mutex
	starts []robustness.FleetStart
	// lives are the last starts of the gateways, by their addresses.
	lives map[string]int
	truth *robustness.Truth
}

// A gateway is killed now and again, a tenth of the nodes is stopped and another tenth reconnects, and the API server is away
// for a while; meanwhile pods are created, changed, deleted and created again. G1 to G11 hold for the nodes of the sample, and
// at the end all nodes have the pods of the API server.
func TestFleetStorm(t *testing.T) {
	allowGateways(t)
	kube, seed := fleetClient(t), *stormSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	s := &storm{
		test: t, recorder: robustness.NewRecorder(0, 0), sampled: map[string]bool{}, random: rand.New(rand.NewPCG(seed, 0)), lives: map[string]int{},
		truth: robustness.NewTruth(""),
	}
	s.watching, s.end = context.WithCancel(t.Context())
	first := rig.Get(kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}))(t).ResourceVersion
	for i := range min(*stormSample, *stormNodes) {
		s.sampled[fmt.Sprintf("storm-%d", i)] = true
	}
	var observing sync.WaitGroup
	revision := rig.Get(strconv.ParseInt(first, 10, 64))(t)
	observing.Go(func() {
		if err := s.observe(s.watching, revision); err != nil {
			t.Error(err)
		}
	})
	defer observing.Wait()
	defer s.end()
	names := populate(t, kube, "storm", *stormNodes, *fleetPods)
	var endpoints []string
	for _, name := range []string{"storm-left", "storm-right"} {
		g := s.newGateway(t, name)
		s.gateways = append(s.gateways, g)
		endpoints = append(endpoints, "tcp://"+g.address)
	}
	dir := t.TempDir()
	for i := range *stormNodes {
		name := fmt.Sprintf("storm-%d", i)
		n := s.newNode(name, nodeTLS(t, dir, name), endpoints, s.sampled[name])
		n.connect(t, n.config)
		s.nodes = append(s.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range s.nodes {
			n.set(true)
			n.leave()
		}
	})
	s.converge(t, kube)
	check(t, "the storm", func(t *testing.T) { s.rage(t, kube, seed, names) })
	check(t, "all nodes have the pods of the API server", func(t *testing.T) { s.converge(t, kube) })
	for _, n := range s.nodes {
		if n.recorder != nil {
			n.recording.Rest(true)
		}
		n.leave()
		if n.back > 0 {
			t.Errorf("node %s got %d pods that it knew to be gone", n.node, n.back)
		}
	}
	s.end()
	for _, g := range s.gateways {
		g.watches.Wait()
	}
	observing.Wait()
	f := s.fleet()
	t.Logf("%d nodes, %d gateways' starts, %d changes, %d nodes stopped, %d reconnected; %s",
		len(s.nodes), len(s.starts), s.changes.Load(), s.stops, s.reconnects, summary(f))
	check(t, "G1 to G11 hold for the sample", func(t *testing.T) {
		for _, b := range f.Breaches() {
			t.Error(b)
		}
	})
	plant(t, f)
}

// rage runs the storm.
func (s *storm) rage(t *testing.T, kube kubernetes.Interface, seed uint64, names []string) {
	ctx, cancel := context.WithTimeout(t.Context(), *stormTime)
	defer cancel()
	var writers sync.WaitGroup
	defer writers.Wait()
	const writing = 4
	for w := range writing {
		var own []string
		for i := w; i < len(names); i += writing {
			own = append(own, names[i])
		}
		writers.Go(func() { s.churn(ctx, kube, rand.New(rand.NewPCG(seed, uint64(w+1))), own, writing) })
	}
	kill, disturb := time.NewTicker(*stormKill), time.NewTicker(disturbance)
	defer kill.Stop()
	defer disturb.Stop()
	away, back := time.After((*stormTime-*stormAbsence)/2), make(<-chan time.Time)
	resumed := make(chan error, 1)
	resumed <- nil
	for ctx.Err() == nil {
		select {
		case <-kill.C:
			s.kills++
			s.gateways[s.kills%len(s.gateways)].restart(t, time.Duration(s.random.Int64N(int64(*stormKill)/5)))
		case <-disturb.C:
			s.disturb()
		case <-away:
			plane.Kill()
			<-resumed
			back = time.After(*stormAbsence)
		case <-back:
			go func() { resumed <- plane.Resume(context.WithoutCancel(t.Context())) }()
		case <-ctx.Done():
		}
	}
	for _, n := range s.nodes {
		n.set(true)
	}
	rig.Must(t, <-resumed)
}

// disturb has the stopped nodes go on, stops a tenth of all, and has another tenth reconnect, as after a restart.
func (s *storm) disturb() {
	for _, n := range s.nodes {
		n.set(true)
	}
	order, part := s.random.Perm(len(s.nodes)), (len(s.nodes)+9)/10
	for _, i := range order[:part] {
		s.nodes[i].set(false)
		s.stops++
	}
	for _, i := range order[part : 2*part] {
		n := s.nodes[i]
		n.leave()
		n.connect(s.test, n.config)
		s.reconnects++
	}
}

// churn changes pods of these names until the context ends. Errors are of no matter: the API server may be away.
func (s *storm) churn(ctx context.Context, kube kubernetes.Interface, random *rand.Rand, names []string, writing int) {
	pods := kube.CoreV1().Pods(namespace)
	ticker := time.NewTicker(time.Second * time.Duration(writing) / time.Duration(*fleetRate))
	defer ticker.Stop()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	for i := 0; ctx.Err() == nil; i++ {
		name, change := names[random.IntN(len(names))], random.IntN(5)
		// What was begun is ended, or it would take effect after the end.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		var err error
		switch change {
		case 0: // It is deleted, at once or after it was terminated, and created again.
			if i%2 == 0 {
				_ = pods.Delete(ctx, name, metav1.DeleteOptions{})
			}
			_ = pods.Delete(ctx, name, now)
			_, err = pods.Create(ctx, stormPod(name), metav1.CreateOptions{})
		case 1:
			status := fmt.Sprintf(`{"status":{"phase":"Running","message":"%d"}}`, i)
			_, err = pods.Patch(ctx, name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		case 2:
			_ = pods.Delete(ctx, name, metav1.DeleteOptions{})
		default:
			_, err = pods.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, sequence, i), metav1.PatchOptions{})
		}
		if err == nil {
			s.changes.Add(1)
		}
		cancel()
		<-ticker.C
	}
}

func stormPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "storm"}},
		Spec: corev1.PodSpec{NodeName: name[:strings.LastIndex(name, "-")], AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/main:1"}}},
	}
}
