package service_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/service"
	appliedsource "github.com/podstream/podstream/internal/sources/applied"
	"github.com/podstream/podstream/internal/write"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// writable is a node with the sources file, api and applied, which takes writes.
type writable struct {
	*node
	log *logtest.Buffer
	// gateway is set if the node serves other nodes, and off if no source takes writes.
	gateway, off atomic.Bool
	source       *appliedsource.Source
}

// startWritable starts a node whose source applied runs, and whose file source has these manifests.
func startWritable(t *testing.T, manifests ...string) *writable {
	t.Helper()
	return startWritableIn(t, filepath.Join(t.TempDir(), "applied"), manifests...)
}

// startWritableIn is startWritable with the directory of the store.
func startWritableIn(t *testing.T, dir string, manifests ...string) *writable {
	t.Helper()
	return startWritableBy(t, dir, nil, manifests...)
}

// startStopped is startWritable with a clock that stands still: for tests of rates, which must not depend on the machine's speed.
func startStopped(t *testing.T) *writable {
	t.Helper()
	return startWritableBy(t, filepath.Join(t.TempDir(), "applied"), clocktesting.NewFakeClock(time.Unix(1e9, 0)))
}

// startWritableBy is startWritableIn with the service's clock. Nil: the system's.
func startWritableBy(t *testing.T, dir string, clock clock.WithTicker, manifests ...string) *writable {
	t.Helper()
	w := &writable{log: &logtest.Buffer{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.source = appliedsource.New(appliedsource.Config{Dir: dir, Node: "node", NoSync: true, Logger: slog.New(slog.DiscardHandler)})
	w.node = start(t, options{
		diff: true, clock: clock,
		hub: func(c *mergesvc.Config) {
			c.Sources = append(c.Sources, merge.Source{Name: write.Source, Location: "podctl apply"})
		},
		service: func(c *service.Config) {
			c.Logger, c.Node = log, "node"
			c.Writing = &service.Writing{
				Writer: func() service.Writer {
					if w.off.Load() {
						return nil
					}
					return w.source
				},
				Options: func() write.Options { return write.Options{Node: "node"} },
				Gateway: func() bool { return w.gateway.Load() },
			}
		},
	})
	w.manifests(manifests...)
	w.set("api", "")
	ctx, cancel := context.WithCancel(context.Background())
	ended, first := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(ended)
		_ = w.source.Run(ctx, func(set manifest.Set) {
			w.hub.Apply(set)
			select {
			case first <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	<-first
	return w
}

// deployer is a caller with the role deployer.
func deployer(identity string, change ...func(*access.Writes)) access.Caller {
	c := access.Caller{
		Identity: identity, Peer: identity, Role: access.Deployer, Sources: []string{write.Source},
		Writes: &access.Writes{Namespaces: []string{"default", "shop"}, PodSecurity: access.Baseline, MaxPods: 20, MaxBytes: 1 << 20},
	}
	for _, f := range change {
		f(c.Writes)
	}
	return c
}

// applyTo writes one file.
func applyTo(n *node, text string, change ...func(*podconfigv1.ApplyManifestsRequest)) (*podconfigv1.ApplyManifestsResponse, error) {
	n.t.Helper()
	req := &podconfigv1.ApplyManifestsRequest{Files: []*podconfigv1.ManifestFile{{Name: "f.yaml", Content: []byte(text)}}}
	for _, f := range change {
		f(req)
	}
	return n.api.ApplyManifests(n.t.Context(), req)
}

func mustApply(n *node, text string, change ...func(*podconfigv1.ApplyManifestsRequest)) *podconfigv1.ApplyManifestsResponse {
	n.t.Helper()
	resp, err := applyTo(n, text, change...)
	if err != nil {
		n.t.Fatalf("ApplyManifests: %v", err)
	}
	return resp
}

// remove removes a document as root.
func (w *writable) remove(ref *podconfigv1.ManifestRef) {
	w.t.Helper()
	if _, err := w.api.DeleteManifests(w.t.Context(), &podconfigv1.DeleteManifestsRequest{Refs: []*podconfigv1.ManifestRef{ref}}); err != nil {
		w.t.Fatalf("DeleteManifests: %v", err)
	}
}

// podRefs are the refs of pods in the namespace default.
func podRefs(names ...string) *podconfigv1.DeleteManifestsRequest {
	req := &podconfigv1.DeleteManifestsRequest{}
	for _, name := range names {
		req.Refs = append(req.Refs, &podconfigv1.ManifestRef{Name: name})
	}
	return req
}

// actions are the results in short.
func actions(results []*podconfigv1.ManifestResult) string {
	var out []string
	for _, r := range results {
		out = append(out, strings.ToLower(strings.TrimPrefix(r.GetAction().String(), "MANIFEST_ACTION_"))+" "+r.GetRef().GetName())
	}
	return strings.Join(out, ", ")
}

// served are the names of the served pods, with their images.
func (w *writable) served() string {
	w.t.Helper()
	var out []string
	for _, p := range w.hub.History().State().Pods {
		out = append(out, p.Object.Namespace+"/"+p.Object.Name+"="+p.Object.Spec.Containers[0].Image)
	}
	return strings.Join(out, " ")
}

func set(name string) func(*podconfigv1.ApplyManifestsRequest) {
	return func(r *podconfigv1.ApplyManifestsRequest) { r.Set = name }
}

func prune(r *podconfigv1.ApplyManifestsRequest) { r.Prune = true }

func allowEmpty(r *podconfigv1.ApplyManifestsRequest) { r.AllowEmpty = true }

func dryRun(r *podconfigv1.ApplyManifestsRequest) { r.DryRun = true }

func expecting(name, digest string) func(*podconfigv1.ApplyManifestsRequest) {
	return func(r *podconfigv1.ApplyManifestsRequest) {
		r.Expected = append(r.Expected, &podconfigv1.ManifestExpectation{Ref: &podconfigv1.ManifestRef{Name: name}, Digest: digest})
	}
}

// unchanged returns a function that fails the test if the served pods or the stored documents have changed since.
func (w *writable) unchanged() func(what string) {
	w.t.Helper()
	pods, number := w.served(), w.hub.History().Number()
	docs, err := w.source.Documents()
	if err != nil {
		w.t.Fatal(err)
	}
	return func(what string) {
		w.t.Helper()
		now, err := w.source.Documents()
		if err != nil || len(now) != len(docs) {
			w.t.Errorf("%s has changed the documents from %v to %v, %v", what, docs, now, err)
		}
		for key, d := range docs {
			if now[key] != d {
				w.t.Errorf("%s has changed %s", what, key)
			}
		}
		if got := w.served(); got != pods || w.hub.History().Number() != number {
			w.t.Errorf("%s has changed the pods from %q to %q, at revision %d after %d", what, pods, got, w.hub.History().Number(), number)
		}
	}
}

// equal reports whether two messages are equal.
func equal(a, b proto.Message) bool { return proto.Equal(a, b) }
