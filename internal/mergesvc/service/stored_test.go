package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/store"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// stored returns the options of a node whose store is at path, with the given sources; none means file and api.
func stored(path string, sources ...string) options {
	return options{hub: func(c *mergesvc.Config) {
		c.Store = &store.Config{Path: path, NoSync: true}
		if len(sources) > 0 {
			c.Sources = nil
		}
		for _, name := range sources {
			c.Sources = append(c.Sources, merge.Source{Name: name})
		}
	}}
}

// killed returns the path of a copy of the store, as a kill at this moment would leave it.
func killed(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := newStore(t)
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

func newStore(t *testing.T) string { return filepath.Join(t.TempDir(), "podconfigd.db") }

// seen returns the first-seen times by UID.
func (n *node) seen() map[string]string {
	n.t.Helper()
	out := map[string]string{}
	for _, p := range n.list(&podconfigv1.ListPodsRequest{}).GetPods() {
		out[p.GetRef().GetUid()] = p.GetJson().GetFields()["metadata"].GetStructValue().GetFields()["annotations"].
			GetStructValue().GetFields()[manifest.SeenAnnotation].GetStringValue()
	}
	return out
}

// stale returns the UIDs of the stale pods.
func (n *node) stale() string {
	n.t.Helper()
	var out []string
	for _, p := range n.list(&podconfigv1.ListPodsRequest{}).GetPods() {
		if p.GetStale() {
			out = append(out, p.GetRef().GetUid())
		}
	}
	return strings.Join(out, " ")
}
