package cluster

import (
	"context"
	"fmt"
	"maps"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// converge waits until each node has the pods of the API server, in their last versions, and nothing is held; and until the
// truth has all of the sample. What a writer gave up may still be written, so the pods are listed again each time.
func (s *storm) converge(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute/2)
	defer cancel()
	defer func() {
		if ctx.Err() != nil {
			// A client that hangs is among them.
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			t.Logf("the goroutines:\n%.100000s", stacks.String())
		}
	}()
	rig.Must(t, control.Until(ctx, nil, "all nodes have the pods of the API server", func(ctx context.Context) error {
		list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=storm"})
		if err != nil {
			return err
		}
		want, sample := map[string]map[types.UID]string{}, map[types.UID]string{}
		for _, p := range list.Items {
			if want[p.Spec.NodeName] == nil {
				want[p.Spec.NodeName] = map[types.UID]string{}
			}
			version := rig.Get(manifest.SpecDigest(&p))(t) + " " + rig.Get(manifest.StatusDigest(&p))(t)
			if want[p.Spec.NodeName][p.UID] = version; s.sampled[p.Spec.NodeName] {
				sample[p.UID] = version
			}
		}
		for _, n := range s.nodes {
			if err := n.has(want[n.node]); err != nil {
				return err
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		have := map[types.UID]string{}
		for uid, p := range s.truth.Pods(s.truth.Now()) {
			have[types.UID(uid)] = p.SpecDigest + " " + p.StatusDigest
		}
		if !maps.Equal(have, sample) {
			return fmt.Errorf("%w: the truth has %d pods; want %d, as the API server", control.ErrNotYet, len(have), len(sample))
		}
		return nil
	}))
}

// has returns an error unless the node has these versions of pods, and nothing is held.
func (n *stormNode) has(want map[types.UID]string) error {
	n.hollow.mu.Lock()
	defer n.hollow.mu.Unlock()
	have := map[types.UID]string{}
	for uid, p := range n.pods {
		have[uid] = p.SpecDigest + " " + p.StatusDigest
	}
	if n.ready && n.held == "" && maps.Equal(have, want) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Errorf("%w: node %s, ready %t, held %q, at %v, has %v; the API server has %v; its last stream ended at %v: %v",
		control.ErrNotYet, n.node, n.ready, n.held, n.cursor, have, want, n.brokeAt, n.broke)
}
