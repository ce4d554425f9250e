package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// promptly is the time limit for a change to reach an honest consumer during an attack. It takes a few
// milliseconds on an idle machine; the rest allows for the attack and other tests. It is shorter than
// podconfigd's wait for a client that doesn't send or read.
const promptly = 8 * time.Second

// pulse is a change that the test makes: the source and the number of its change.
type pulse struct {
	source string
	number int
}

// honest is a consumer that watches all the time and records the pulses that it receives.
type honest struct {
	name    string
	sources []string
	got     chan pulse
	broke   chan error
	// streams counts the SYNCED messages: one if the consumer's stream was never interrupted.
	streams atomic.Int32
	// missed are the pulses that it must receive after its interruption.
	away   bool
	missed []pulse
}

// crowd is some honest consumers and the pulses in their views.
type crowd struct {
	t       *testing.T
	e       *exposed
	members []*honest
	number  int
	slowest time.Duration
}

func newCrowd(t *testing.T, e *exposed) *crowd { return &crowd{t: t, e: e} }

func (c *crowd) join(name string, sources []string, run func(context.Context, *honest) error) *honest {
	c.t.Helper()
	h := &honest{name: name, sources: sources, got: make(chan pulse, 10_000), broke: make(chan error, 1)}
	c.members = append(c.members, h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.broke <- run(ctx, h)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-ended
	})
	until(c.t, patience, name+" is synced", func() error {
		if h.streams.Load() == 0 {
			return errors.New("it isn't")
		}
		return nil
	})
	return h
}

// watch adds a consumer that uses package client.
func (c *crowd) watch(name string, cfg client.Config, sources ...string) *honest {
	c.t.Helper()
	return c.join(name, sources, func(ctx context.Context, h *honest) error {
		own, err := client.New(cfg)
		if err != nil {
			return err
		}
		defer own.Close()
		return own.Watch(ctx, client.WatchOptions{}, func(_ context.Context, event client.Event) error {
			if event.Synced {
				h.streams.Add(1)
			}
			for _, op := range event.Ops {
				for _, p := range op.Pods {
					if strings.HasPrefix(string(p.UID), "pulse-") {
						h.note(p.Source, p.Object.GetLabels())
					}
				}
			}
			return nil
		})
	})
}

// subscribe adds a consumer that uses the service directly, with one stream.
func (c *crowd) subscribe(name string, api podconfigv1.PodConfigServiceClient) *honest {
	c.t.Helper()
	return c.join(name, []string{"file", "other"}, func(ctx context.Context, h *honest) error {
		watch, err := api.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
			Consumer: name, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		})
		if err != nil {
			return err
		}
		for {
			msg, err := watch.Recv()
			if err != nil {
				return err
			}
			if msg.GetSynced() != nil {
				h.streams.Add(1)
			}
			for _, p := range msg.GetUpdate().GetPods() {
				object := &v1.Pod{}
				if err := object.Unmarshal(p.GetProtobuf()); err != nil {
					return err
				}
				if strings.HasPrefix(p.GetRef().GetUid(), "pulse-") {
					h.note(p.GetSource(), object.Labels)
				}
			}
		}
	})
}

func (h *honest) note(source string, labels map[string]string) {
	number, err := strconv.Atoi(labels["pulse"])
	if err != nil {
		number = -1 // an unexpected number
	}
	h.got <- pulse{strings.TrimPrefix(source, "file:"), number}
}

// pulse changes a pod of each source, and waits until each consumer has received the changes in its view, once
// and nothing else.
func (c *crowd) pulse() {
	c.number++
	began := time.Now()
	for _, source := range []string{"file", "other"} {
		pod := strings.Replace(manifest("pulse-"+source, "main: sleep"), "metadata:\n",
			fmt.Sprintf("metadata:\n  uid: pulse-%s\n  labels: {pulse: '%d'}\n", source, c.number), 1)
		if err := c.e.put(source, "pulse.yaml", pod); err != nil {
			c.t.Error(err)
			return
		}
	}
	for _, h := range c.members {
		for _, source := range h.sources {
			h.missed = append(h.missed, pulse{source, c.number})
		}
		if !h.away {
			c.settle(h, promptly)
		}
	}
	c.slowest = max(c.slowest, time.Since(began))
}

// settle waits until the consumer has received everything in its view.
func (c *crowd) settle(h *honest, limit time.Duration) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	want := map[pulse]bool{}
	for _, p := range h.missed {
		want[p] = true
	}
	h.missed = nil
	for len(want) > 0 {
		select {
		case p := <-h.got:
			if !want[p] {
				c.t.Errorf("%s receives %v a second time, or in the wrong order", h.name, p)
			}
			delete(want, p)
		case err := <-h.broke:
			h.broke <- err
			c.t.Errorf("the stream of %s ended: %v", h.name, err)
			return
		case <-deadline.C:
			c.t.Errorf("%s doesn't receive %v within %v", h.name, want, limit)
			return
		}
	}
}

// during changes pods without a pause while attack runs.
func (c *crowd) during(attack func()) {
	c.t.Helper()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(50 * time.Millisecond)
		defer pace.Stop()
		for {
			c.pulse()
			select {
			case <-over:
				c.pulse()
				return
			case <-pace.C:
			}
		}
	}()
	defer func() {
		close(over)
		<-done
	}()
	attack()
}

// leave marks that these consumers lose their streams, until rejoin has checked that they missed nothing.
func (c *crowd) leave(members ...*honest) {
	for _, h := range members {
		h.away = true
	}
}

func (c *crowd) rejoin(members ...*honest) {
	c.t.Helper()
	for _, h := range members {
		h.away = false
		c.settle(h, patience)
	}
}
