package cluster

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
	"github.com/podstream/podstream/test/robustness"
)

// stormGateway is one of the gateways, with a witness: a consumer of all its pods.
type stormGateway struct {
	*gateway
	storm *storm
	// address is its host and port.
	address string
	witness *robustness.ConsumerRecorder
	watches sync.WaitGroup
}

func (s *storm) newGateway(t *testing.T, name string) *stormGateway {
	t.Helper()
	g := &stormGateway{storm: s, witness: s.recorder.Consumer(name)}
	var endpoint string
	number := s.began(name, "")
	g.gateway, endpoint = newFleetGateway(t, name)
	g.address = rig.Get(url.Parse(endpoint))(t).Host
	s.mu.Lock()
	s.lives[g.address] = number
	s.mu.Unlock()
	g.see(t, number)
	t.Cleanup(func() {
		s.end()
		g.watches.Wait()
	})
	return g
}

// began numbers a start of a gateway.
func (s *storm) began(name, address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, robustness.FleetStart{Name: name, Step: robustness.Step{
		Start: &robustness.Start{Sources: []string{"api"}, Kept: true}, Begun: time.Now(),
	}})
	s.lives[address] = len(s.starts)
	return len(s.starts)
}

// lifeAt is the number of the last start of the gateway at an address.
func (s *storm) lifeAt(address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives[address]
}

// restart kills it, and starts it again with its disk.
func (g *stormGateway) restart(t *testing.T, away time.Duration) {
	t.Helper()
	g.daemon.Kill()
	time.Sleep(away)
	number := g.storm.began(g.name, g.address)
	g.start(t)
	g.see(t, number)
}

// see records where a start begins, and what the gateway sends from then on.
func (g *stormGateway) see(t *testing.T, number int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	now := rig.Get(g.config.ListPods(ctx, &podconfigv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE}, grpc.WaitForReady(true)))(t)
	g.storm.mu.Lock()
	step := &g.storm.starts[number-1].Step
	step.Instance, step.Revision, step.Ended = now.GetInstanceId(), now.GetRevision(), time.Now()
	g.storm.mu.Unlock()
	request := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: "witness", Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, HeartbeatInterval: durationpb.New(time.Second),
	}
	stream := rig.Get(g.config.WatchPodUpdates(g.storm.watching, request, grpc.WaitForReady(true)))(t)
	record := g.witness.SubscribeTo(number, request)
	g.watches.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				if !isBreak(err) {
					t.Errorf("the witness at %s: %v", g.name, err)
				}
				return
			}
			record.Receive(m)
		}
	})
}

// observe records the pods of the sample as etcd stores them, after a revision, until the context ends. The API server may be
// away, and gateways may have been sent what it stored last.
func (s *storm) observe(ctx context.Context, revision int64) error {
	decoder := scheme.Codecs.UniversalDeserializer()
	return plane.Etcd.Watch(ctx, "/registry/pods/"+namespace+"/", revision, func(c control.Change) error {
		object, _, err := decoder.Decode(c.Value, nil, nil)
		if err != nil {
			return err
		}
		pod, ok := object.(*corev1.Pod)
		if !ok || !s.sampled[pod.Spec.NodeName] {
			return nil
		}
		event := robustness.TruthEvent{At: time.Now(), Version: uint64(c.Revision), UID: string(pod.UID), Kind: robustness.Deleted}
		if !c.Deleted {
			event.Kind, event.Pod = robustness.Stored, &manifest.Pod{Pod: pod}
			if event.Pod.SpecDigest, err = manifest.SpecDigest(pod); err != nil {
				return err
			}
			if event.Pod.StatusDigest, err = manifest.StatusDigest(pod); err != nil {
				return err
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.truth.Append(event)
		return nil
	})
}
