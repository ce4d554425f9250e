package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// fullAttackEnv, if set, makes TestG8UnderAttack run at its full size: 10,000 streams.
const fullAttackEnv = "PODSTREAM_ATTACK_FULL"

// The parts of podconfigd's memory, in KiB, as ARCHITECTURE.md lists them.
const (
	programSize  = 40 << 10
	historySize  = 64 << 10
	keptSize     = 64 << 10
	decodingSize = 256 << 10
	parkedSize   = 512
	slack        = 2
)

// atRest is the minimum that TestG8UnderAttack assumes for the p99 of podexecd's stream without the attack.
const atRest = 40 * time.Millisecond

// victim is a stream like podexecd's: it measures the delay of each change of one pod from its source.
type victim struct {
	t    *testing.T
	e    *exposed
	came chan time.Duration
	n    int
}

func newVictim(t *testing.T, e *exposed) *victim {
	t.Helper()
	v := &victim{t: t, e: e, came: make(chan time.Duration, 1000)}
	// This comes before the cleanup that ends the stream, so that the connection is closed after it.
	api := podconfigv1.NewPodConfigServiceClient(dial(t, "unix://"+e.socket))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	stream, err := api.WatchPodUpdates(ctx,
		&podconfigv1.WatchPodUpdatesRequest{Consumer: "podexecd", Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	check(t, err)
	synced := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, err := stream.Recv()
			switch {
			case err != nil && ctx.Err() == nil:
				t.Errorf("podexecd's stream ended: %v", err)
				return
			case err != nil:
				return
			case m.GetSynced() != nil:
				close(synced)
			}
			for _, p := range m.GetUpdate().GetPods() {
				if at := m.GetUpdate().GetObservedTime(); at != nil && strings.HasPrefix(p.GetRef().GetUid(), "pulse-") {
					v.came <- time.Since(at.AsTime())
				}
			}
		}
	}()
	select {
	case <-synced:
	case <-time.After(patience):
		t.Fatal("podexecd's stream isn't synced")
	}
	return v
}

// measure changes the pod this many times and returns the delays, sorted.
func (v *victim) measure(changes int) []time.Duration {
	v.t.Helper()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	var out []time.Duration
	for range changes {
		<-pace.C
		v.n++
		pod := strings.Replace(manifest("pulse", "main: sleep"), "metadata:\n",
			fmt.Sprintf("metadata:\n  uid: pulse-other\n  labels: {pulse: '%d'}\n", v.n), 1)
		check(v.t, v.e.put("other", "pulse.yaml", pod))
		select {
		case took := <-v.came:
			out = append(out, took)
		case <-time.After(patience):
			v.t.Fatalf("change %d doesn't arrive", v.n)
		}
	}
	slices.Sort(out)
	return out
}

func percentile99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// bombs are manifests that are rejected, or would need gigabytes of memory.
func bombs() []string {
	return []string{
		"a:\n" + strings.Repeat("- -\n", 2_600_000), "a: [" + strings.Repeat("[],", 3_400_000) + "[]]\n",
		`{"a":[` + strings.Repeat("[],", 3_400_000) + "[]]}", "a: &a [" + strings.Repeat("1,", 1000) + "1]\nb: [" + strings.Repeat("*a,", 1000) + "*a]\n",
	}
}

// churn changes 40 large pods twice a second, and adds the bombs in turn, if any, until the returned function
// is called.
func churn(t *testing.T, e *exposed, bombs ...string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		var err error
		for i := 0; ctx.Err() == nil && err == nil; i++ {
			err = e.put("file", "large.yaml", largePods(i))
			if len(bombs) > 0 {
				err = errors.Join(err, e.put("file", "bomb.yaml", bombs[i%len(bombs)]))
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
		ended <- err
	}()
	return func() {
		cancel()
		check(t, <-ended)
	}
}

// largePods returns 40 pods of 20 KiB, in one version.
func largePods(version int) string {
	var b strings.Builder
	for i := range 40 {
		b.WriteString("---\n")
		b.WriteString(strings.Replace(manifest(fmt.Sprintf("large%d", i), "main: sleep"), "metadata:\n",
			fmt.Sprintf("metadata:\n  labels: {version: '%d'}\n  annotations: {ballast: %s}\n", version, strings.Repeat("x", 20<<10)), 1))
	}
	return b.String()
}

// TestG8UnderAttack: 10,000 streams of an inspector that don't read or read as fast as they can, filters and
// selectors at their limits, bombs to diff and bombs in a manifest directory, all at once: podexecd receives
// each change soon, podconfigd's memory stays within its bound, and root can connect. make test runs a tenth of
// the streams.
func TestG8UnderAttack(t *testing.T) {
	needsRoot(t, "call as other users", "TestG8")
	streams, changes := 1000, 300
	if os.Getenv(fullAttackEnv) != "" {
		streams, changes = 10_000, 1000
	}
	e := newExposed(t)
	check(t, e.put("file", "large.yaml", largePods(0)))
	check(t, e.put("other", "pulse.yaml", strings.Replace(manifest("pulse", "main: sleep"), "metadata:\n", "metadata:\n  uid: pulse-other\n", 1)))
	until(t, patience, "the pods are served", func() error {
		list, err := listReferences(t.Context(), e.local)
		if err == nil && len(list.GetPods()) != 41 {
			err = fmt.Errorf("there are %d pods", len(list.GetPods()))
		}
		return err
	})
	v := newVictim(t, e)
	v.measure(20)
	// The node's own changes continue in both cases.
	endChurn := churn(t, e)
	quiet := v.measure(changes)
	endChurn()
	before, err := e.vitals()
	check(t, err)
	t.Logf("quiet: p50 %v, p99 %v, longest %v; %+v", quiet[len(quiet)/2], percentile99(quiet), quiet[len(quiet)-1], before)

	check(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", e.daemon.Pid()), []byte("5"), 0)) // a new peak of memory
	endChurn = churn(t, e, bombs()...)
	began := time.Now()
	a, first := attack{Socket: e.socket, Streams: streams, Callers: 8}.begin(t)
	t.Logf("after %v: %+v", time.Since(began), first)
	// The aim is three times the p99 without the attack. On two otherwise idle processors it is three to five
	// times, 20 to 30 ms. The limit allows for a machine that also runs other tests; the best of three tries
	// counts, and the log has the figures.
	const tries, most = 3, 3
	for try := 1; ; try++ {
		hit := v.measure(changes)
		limit := most * max(percentile99(quiet), atRest)
		t.Logf("under attack: p50 %v, p99 %v, longest %v: %.1f times the p99 without it; the test wants %v at most", hit[len(hit)/2],
			percentile99(hit), hit[len(hit)-1], float64(percentile99(hit))/float64(percentile99(quiet)), limit)
		if percentile99(hit) <= limit {
			break
		}
		if try == tries {
			t.Errorf("podexecd's stream delivers with a p99 of %v; want %v at most", percentile99(hit), limit)
			break
		}
	}
	for range 5 {
		e.rootIsLetIn(t)
	}
	did := a.end(t)
	endChurn()
	after, err := e.vitals()
	check(t, err)
	bound := programSize + slack*(historySize+keptSize+decodingSize+1024*parkedSize)
	t.Logf("the attack's result is %+v; podconfigd %+v, bound %d KiB", did, after, bound)
	if after.peak > bound {
		t.Errorf("podconfigd took %d KiB at its peak; want %d at most", after.peak, bound)
	}
	// On a busy machine podconfigd may have finished few of the attackers' calls. Refused ones show that the
	// attackers used up their share.
	if first.Served < min(int64(streams)/2, 400) || did.Lists+did.Diffs+did.RefusedDiffs == 0 {
		t.Errorf("the attackers only had %+v: the attack was too weak", did)
	}
	if wants := int64(streams) - 1000; wants > 0 && first.Refused < wants {
		t.Errorf("%d of %d streams of one identity are refused; want %d at least", first.Refused, streams, wants)
	}
}

// rootIsLetIn opens a connection and a stream as root, and reads it until synced.
func (e *exposed) rootIsLetIn(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	began := time.Now()
	stream, err := podconfigv1.NewPodConfigServiceClient(dial(t, "unix://"+e.socket)).WatchPodUpdates(ctx,
		&podconfigv1.WatchPodUpdatesRequest{Consumer: "podexecd", Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	for err == nil {
		var m *podconfigv1.WatchPodUpdatesResponse
		if m, err = stream.Recv(); m.GetSynced() != nil {
			t.Logf("root is synced after %v", time.Since(began))
			return
		}
	}
	t.Errorf("root's stream isn't synced: %v", err)
}
