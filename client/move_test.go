package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// crowd is a client of two podconfigds, of which it prefers the first. Both receive the same sets.
type crowd struct {
	replicas [2]*replica
	sets     map[string]manifest.Set
	consumer *struggle
	stop     func()
}

func newCrowd() (*crowd, error) {
	c := &crowd{sets: map[string]manifest.Set{}, consumer: &struggle{pods: map[types.UID]client.Pod{}}}
	for i := range c.replicas {
		c.replicas[i] = newReplica()
		c.replicas[i].up()
	}
	cl, err := client.New(client.Config{
		Endpoint: "unix:///0,unix:///1", Order: client.Listed,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if strings.HasSuffix(address, "0") {
				return c.replicas[0].dial(ctx)
			}
			return c.replicas[1].dial(ctx)
		})},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { c.consumer.failure = cl.Watch(ctx, client.WatchOptions{}, c.consumer.handle) })
	c.stop = sync.OnceFunc(func() {
		cancel()
		watching.Wait()
		_ = cl.Close()
		for _, r := range c.replicas {
			r.down()
		}
	})
	return c, nil
}

func (c *crowd) apply(s manifest.Set) {
	if s.Err == nil {
		c.sets[s.Source] = s
	}
	for _, r := range c.replicas {
		r.hub.Apply(s)
	}
}

// differences returns what the consumer holds otherwise than the podconfigd.
func differences(held map[types.UID]client.Pod, hub *mergesvc.Hub) (out []string) {
	left := map[types.UID]bool{}
	for uid := range held {
		left[uid] = true
	}
	for _, p := range hub.History().State().Pods {
		h, ok := held[p.UID()]
		if !ok || h.Source != p.Source || h.SpecDigest != p.SpecDigest || h.StatusDigest != p.StatusDigest {
			out = append(out, fmt.Sprintf("pod %s of %s is held as %+v", p.UID(), p.Source, h))
		}
		delete(left, p.UID())
	}
	for uid := range left {
		out = append(out, fmt.Sprintf("pod %s is held and gone", uid))
	}
	return out
}

// step is what happens to one of the podconfigds; then both receive the sets.
type step struct {
	kind, replica, minutes int
	flag                   bool
	sets                   []manifest.Set
}

func drawSteps(t *rapid.T) (steps []step) {
	random := mergetest.NewRandom(sourceNames...)
	for range rapid.IntRange(2, 15).Draw(t, "steps") {
		s := step{
			kind: rapid.IntRange(0, 4).Draw(t, "step"), replica: rapid.IntRange(0, 1).Draw(t, "replica"),
			minutes: rapid.IntRange(1, 30).Draw(t, "minutes"), flag: rapid.Bool().Draw(t, "flag"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "sets") {
			s.sets = append(s.sets, random.Draw(t))
		}
		steps = append(steps, s)
	}
	return steps
}

func (c *crowd) take(s step) {
	r := c.replicas[s.replica]
	switch s.kind {
	case 0:
		r.down()
	case 1:
		r.down()
		if s.flag {
			r.replace(c.sets)
		}
		r.up()
	case 2:
		health := healthv1.HealthCheckResponse_NOT_SERVING
		if s.flag {
			health = healthv1.HealthCheckResponse_SERVING
		}
		r.health.SetServingStatus("podconfigd.sources", health)
	case 3:
		time.Sleep(time.Duration(s.minutes) * time.Minute)
	}
	for _, set := range s.sets {
		c.apply(set)
	}
}

// TestG7MovesBetweenPodconfigds checks G7 for a client of two podconfigds: whichever of them fails, returns with or
// without its history, or is not healthy while the pods change, every op fits the pods that the consumer holds, and
// these converge. In the end the consumer is at the preferred podconfigd again.
func TestG7MovesBetweenPodconfigds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps(rt)
		var problems []string
		// rapid's T isn't for goroutines of a bubble.
		synctest.Test(t, func(*testing.T) {
			c, err := newCrowd()
			if err != nil {
				problems = append(problems, err.Error())
				return
			}
			defer c.stop()
			for _, s := range steps {
				c.take(s)
			}
			problems = c.finish()
		})
		for _, p := range problems {
			rt.Error(p)
		}
	})
}

// finish has both podconfigds serve with all sources ready, and compares.
func (c *crowd) finish() (problems []string) {
	for _, r := range c.replicas {
		r.down()
		r.up()
	}
	// Each source is read well at last, so that a podconfigd without its history has no origin that is held.
	for _, source := range sourceNames {
		c.apply(mergetest.Set(source, 1<<30, fmt.Sprintf("a: %[1]s-1() %[1]s-2()", source)))
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	if !c.replicas[0].serves() || c.replicas[1].serves() {
		problems = append(problems, fmt.Sprintf("in the end the first podconfigd serves the client: %v, the second: %v; want only the first",
			c.replicas[0].serves(), c.replicas[1].serves()))
	}
	c.stop()
	if err := c.consumer.failure; !errors.Is(err, context.Canceled) {
		problems = append(problems, fmt.Sprintf("Watch ended with %v; want it to go on", err))
	}
	return append(problems, differences(c.consumer.pods, c.replicas[0].hub)...)
}

// TestDifferences checks the comparison: it finds a pod that is missing, one that changed, and one that is gone.
func TestDifferences(t *testing.T) {
	d := newDaemon()
	d.set("file", "a: web() db()")
	held := map[types.UID]client.Pod{}
	for _, p := range d.hub.History().State().Pods {
		held[p.UID()] = client.Pod{UID: p.UID(), Source: p.Source, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest}
	}
	if got := differences(held, d.hub); len(got) > 0 {
		t.Errorf("equal pods differ: %q", got)
	}
	for text, want := range map[string]int{"a: web()": 1, "a: web(image=2) db()": 1, "a: web() db() more()": 1, "a: other()": 3} {
		if d.set("file", text); len(differences(held, d.hub)) != want {
			t.Errorf("%q: the differences are %q; want %d", text, differences(held, d.hub), want)
		}
	}
}
