package survival

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simtest"
	"github.com/podstream/podstream/test/devnode"
)

const (
	// fewCrowd and wholeCrowd are the numbers of pods. wholeCrowd applies if ROBUSTNESS_TIME is set.
	fewCrowd, wholeCrowd = 100, 1000
	// crowdTime is how long the runtime is faulty if ROBUSTNESS_TIME isn't set.
	crowdTime = 8 * time.Second
	// crowdPatience is the time limit for all pods to reach their final state: pauses after failures add up to
	// tens of seconds.
	crowdPatience = 3 * time.Minute
	// callTimeout is podexecd's --runtime-request-timeout, for calls that hang.
	callTimeout = 2 * time.Second
)

// crowdKinds are the kinds without probes: the faults would rightly fail probes.
var crowdKinds = []string{"slow", "stubborn", "retry", "job", "pair", "family"}

// TestCrowd runs many pods on a faulty simulated runtime: calls fail, hang and are delayed; events are lost,
// doubled, reordered or not sent at all; pods are lost; podexecd is killed. Once the faults are over, all pods
// reach their final state.
func TestCrowd(t *testing.T) {
	length, long := robustnessTime(t, crowdTime)
	size := fewCrowd
	if long {
		size = wholeCrowd
	}
	from := firstSeed()
	t.Logf("%d pods, seed %d; the timing can't be repeated", size, from)
	random := rand.New(rand.NewPCG(from, 0))
	trouble := newTrouble(from)
	runtime, endpoint := serveRuntime(t, trouble, from)
	node := startNode(t, devnode.Config{Runtime: devnode.Endpoint, Endpoint: endpoint, BinDir: binaries(t, ""), SkipImages: true})
	s := newSite(t, node, "crowd", "--runtime-request-timeout="+callTimeout.String(), "--cgroups-per-qos=false", "--max-pods="+strconv.Itoa(2*size))
	s.history.Whole = true
	for range size {
		s.add(kindOf(crowdKinds[random.IntN(len(crowdKinds))]), "")
	}
	began := time.Now()
	if err := s.quiet(crowdPatience); err != nil {
		t.Fatalf("before any fault: %v", err)
	}
	t.Logf("all %d pods are in their final state after %v", size, time.Since(began).Round(time.Millisecond))

	rounds := 0
	for until := time.Now().Add(length); time.Now().Before(until); rounds++ {
		trouble.on.Store(true)
		s.disturb(random, runtime, size/20)
		trouble.on.Store(false)
		if rounds%2 == 0 {
			// A change without an event is then read at once, and otherwise at the next relist.
			runtime.BreakEvents()
		}
		if err := s.quiet(crowdPatience); err != nil {
			t.Errorf("after round %d from seed %d: %v", rounds, from, err)
			break
		}
	}
	for _, b := range s.check() {
		t.Errorf("seed %d: %v", from, b)
	}
	t.Logf("%d rounds from seed %d with %d failed calls took %v", rounds, from, trouble.made.Load(), time.Since(began).Round(time.Millisecond))
}

// disturb changes and harms some of the pods while the runtime is faulty.
func (s *site) disturb(random *rand.Rand, runtime *simruntime.Server, some int) {
	names := s.names()
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i, name := range names[:4*some] {
		switch i % 4 {
		case 0:
			s.renew(s.pods[name])
		case 1:
			s.relabel(s.pods[name])
		case 2:
			s.did(Harm, s.pods[name].uid, "the runtime loses the pod")
			_ = runtime.DropPod(s.pods[name].uid) // the runtime may not have the pod
		case 3:
			s.drop(name)
			s.add(kindOf(crowdKinds[random.IntN(len(crowdKinds))]), "")
		}
	}
	for range 2 {
		pause := time.NewTimer(time.Duration(random.IntN(1000)) * time.Millisecond)
		<-pause.C
		s.kill(s.podexecd, AgentKilled)
		s.start(s.podexecd, AgentStarted)
	}
	pause := time.NewTimer(time.Second)
	<-pause.C
}

// trouble makes calls fail while it is on.
type trouble struct {
	on   atomic.Bool
	made atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
}

func newTrouble(seed uint64) *trouble { return &trouble{random: rand.New(rand.NewPCG(seed, 1))} }

func (tr *trouble) chance() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.random.IntN(100)
}

// fault is the Fault of simruntime.Config.
func (tr *trouble) fault(ctx context.Context, method string, _ any) error {
	if !tr.on.Load() || slices.Contains([]string{"Version", "Status", "GetContainerEvents"}, method) {
		return nil
	}
	switch n := tr.chance(); {
	case n < 4:
		tr.made.Add(1)
		return status.Error(codes.Unknown, "failed by the test")
	case n < 5:
		tr.made.Add(1)
		return status.Error(codes.DeadlineExceeded, "timed out by the test")
	case n < 6:
		tr.made.Add(1)
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case n < 12:
		select {
		case <-time.After(time.Duration(n) * 10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// eventFault applies the given event faults while the trouble is on.
func (tr *trouble) eventFault(unreliable eventFault) eventFault {
	return func(e *runtimeapi.ContainerEventResponse) []*runtimeapi.ContainerEventResponse {
		if !tr.on.Load() {
			return []*runtimeapi.ContainerEventResponse{e}
		}
		return unreliable(e)
	}
}

// eventFault is the EventFault of simruntime.Config.
type eventFault = func(*runtimeapi.ContainerEventResponse) []*runtimeapi.ContainerEventResponse

// serveRuntime serves a simulated runtime in this process until the test ends.
func serveRuntime(t *testing.T, tr *trouble, seed uint64) (*simruntime.Server, string) {
	t.Helper()
	server := simruntime.New(simruntime.Config{
		Fault: tr.fault, EventFault: tr.eventFault(simruntime.UnreliableEvents(rand.New(rand.NewPCG(seed, 2)))),
	})
	return server, simtest.Serve(t, server)
}
