package podconfigd

import (
	"errors"
	"testing"
	"time"

	"github.com/podstream/podstream/client/shard"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// TestG11NodesOf: a source has the pods of the nodes that it is configured for, and a file those of any node.
func TestG11NodesOf(t *testing.T) {
	api := func(s sourceconfig.APISettings) sourceconfig.Source { return sourceconfig.Source{API: &s} }
	relay := func(nodes ...string) sourceconfig.Source {
		return sourceconfig.Source{Relay: &sourceconfig.RelaySettings{Nodes: nodes}}
	}
	for name, tc := range map[string]struct {
		source sourceconfig.Source
		has    map[string]bool
	}{
		"file":           {sourceconfig.Source{File: &sourceconfig.FileSettings{}}, map[string]bool{"own": true, "other": true}},
		"this node":      {api(sourceconfig.APISettings{}), map[string]bool{"own": true, "other": false}},
		"some nodes":     {api(sourceconfig.APISettings{Nodes: []string{"b", "a"}}), map[string]bool{"a": true, "b": true, "own": false}},
		"all nodes":      {api(sourceconfig.APISettings{Nodes: []string{"*"}}), map[string]bool{"own": true, "other": true}},
		"a shard":        {api(sourceconfig.APISettings{Nodes: []string{"*"}, Shard: shard.Of("a", 4), Shards: 4}), map[string]bool{"a": true, "b": shard.Of("a", 4) == shard.Of("b", 4)}},
		"a relay":        {relay(), map[string]bool{"own": true, "other": false}},
		"a site's relay": {relay("a"), map[string]bool{"a": true, "own": false}},
		"relay of all":   {relay("*"), map[string]bool{"a": true, "own": true}},
	} {
		for node, want := range tc.has {
			if got := nodesOf(tc.source, "own").Has(node); got != want {
				t.Errorf("%s: it has the pods of node %s: %t; want %t", name, node, got, want)
			}
		}
	}
	if got := onlyNode(nil, "own"); got != "own" {
		t.Errorf("a relay's only node is %q", got)
	}
	for _, several := range [][]string{{"*"}, {"a", "b"}} {
		if got := onlyNode(several, "own"); got != "" {
			t.Errorf("the only node of %v is %q", several, got)
		}
	}
}

// TestG11NodesThatCome: a source that gets a further node has its pods only once it was read with that node. Until then the
// node would be told that it has no pods.
func TestG11NodesThatCome(t *testing.T) {
	st := newStage(t)
	with := func(fingerprint string, nodes ...string) *sourceconfig.Plan {
		plan := planOf(fingerprint)
		plan.Nodes, plan.Sources[0].API = nodes, &sourceconfig.APISettings{Nodes: nodes}
		return plan
	}
	lacks := func(node string) bool {
		_, lacking := st.lacking("api", []string{node})
		return lacking
	}
	want := func(when string, first, second bool) {
		t.Helper()
		if lacks("n1") != first || lacks("n2") != second {
			t.Fatalf("%s it lacks n1: %t, n2: %t; want %t, %t", when, lacks("n1"), lacks("n2"), first, second)
		}
	}
	if err := st.start(t.Context(), with("api-1", "n1")); err != nil {
		t.Fatal(err)
	}
	st.expect("start api-1")
	st.gives("api-1")
	want("with n1", false, true)
	if err := st.change(t.Context(), with("api-2", "n1", "n2")); err != nil {
		t.Fatal(err)
	}
	st.expect("end api-1, start api-2")
	want("before it is read with n2", false, true)
	st.of("api-2").give <- errors.New("away")
	st.expect("apply api away")
	want("while it can't be read", false, true)
	st.gives("api-2")
	want("once it is read", false, false)
	if err := st.change(t.Context(), with("api-3", "n2")); err != nil {
		t.Fatal(err)
	}
	st.expect("end api-2, start api-3")
	want("before it is read without n1", true, false)
}

// TestG11NodesOfLeaver: a source that leaves stays configured until the added ones were read, and the Hub has the pods of its
// former nodes only: meanwhile, and if it comes back with a further node, until it was read with that.
func TestG11NodesOfLeaver(t *testing.T) {
	st := newStage(t)
	st.handover.patience = time.Hour
	with := func(fingerprint string, nodes ...string) *sourceconfig.Plan {
		plan := planOf(fingerprint)
		plan.Nodes, plan.Sources[0].API = nodes, &sourceconfig.APISettings{Nodes: nodes}
		return plan
	}
	want := func(when string, first, second bool) {
		t.Helper()
		_, one := st.lacking("api", []string{"n1"})
		_, two := st.lacking("api", []string{"n2"})
		if one != first || two != second {
			t.Fatalf("%s it lacks n1: %t, n2: %t; want %t, %t", when, one, two, first, second)
		}
	}
	if err := st.start(t.Context(), with("api-1", "n1")); err != nil {
		t.Fatal(err)
	}
	st.expect("start api-1")
	st.gives("api-1")
	if err := st.change(t.Context(), planOf("file-1")); err != nil {
		t.Fatal(err)
	}
	st.expect("end api-1, configure file extra api, start file-1")
	want("while it leaves", false, true)
	if err := st.change(t.Context(), with("api-2", "n1", "n2")); err != nil {
		t.Fatal(err)
	}
	want("before it is read with n2", false, true)
	st.expect("end file-1, configure api extra file, start api-2")
	st.gives("api-2")
	want("once it is read", false, false)
}
