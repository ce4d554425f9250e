package e2e

import (
	"fmt"
	"slices"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// Consumers that join at different times see the same ops in the same order (G1), in every format.
func TestConsumersSeeOneSequence(t *testing.T) {
	r := newRig(t, startNode(t, devnode.Sim))
	formats := []podconfigv1.PodFormat{
		podconfigv1.PodFormat_POD_FORMAT_JSON, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
	}
	var streams []*stream
	const rounds = 12
	// The readiness of the source is an op without pods.
	r.awaitRevision(1)
	for i := range rounds {
		if i%4 == 0 {
			s := r.watch(&podconfigv1.WatchPodUpdatesRequest{Consumer: fmt.Sprintf("c%d", i), Format: formats[i/4]})
			s.await("SYNCED")
			streams = append(streams, s)
		}
		r.write("web.yaml", manifest("web", fmt.Sprintf("web: print, v%d", i)))
		r.awaitRevision(uint64(i + 2))
	}
	r.remove("web.yaml")

	var histories [][]string
	for _, s := range streams {
		var history []string
		for {
			o := s.next()
			history = append(history, fmt.Sprintf("%d %s %s", o.revision, o.text, o.pods[0].GetRef().GetUid()))
			if o.text == "REMOVE web" && o.revision == rounds+2 {
				break
			}
		}
		histories = append(histories, history)
	}
	whole := histories[0]
	// The first write is an ADD, each further one REMOVE and ADD, the deletion a REMOVE.
	if want := 1 + 2*(rounds-1) + 1; len(whole) != want {
		t.Errorf("the first consumer saw %d ops, want %d: %v", len(whole), want, whole)
	}
	for i, h := range histories[1:] {
		if tail := whole[len(whole)-len(h):]; !slices.Equal(tail, h) {
			t.Errorf("consumer %d saw %v; the first one saw, at the end, %v", i+1, h, tail)
		}
	}
}

// awaitRevision waits until podconfigd has reached the revision.
func (r *rig) awaitRevision(revision uint64) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("podconfigd is at revision %d", revision), func() error {
		resp, err := r.Config.ListPods(r.t.Context(), &podconfigv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
		if err != nil {
			return err
		}
		if resp.GetRevision() < revision {
			return fmt.Errorf("it is at %d", resp.GetRevision())
		}
		return nil
	})
}
