package apiserver

import (
	"fmt"
	"slices"
	"testing"

	"github.com/podstream/podstream/client/shard"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// TestShard: a Source of a shard has the pods of its nodes, each node is in one shard, and pods of others don't keep it from a
// confirmation.
func TestShard(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	const shards, nodes = 3, 12
	want := make([][]string, shards)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		server.Put(onNode(newPod("p"+name), name))
		at := shard.Of(name, shards)
		want[at] = append(want[at], "ns/p"+name)
	}
	for i := range shards {
		s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Nodes: []string{AllNodes}, Shard: i, Shards: shards})
		r := start(t, s)
		slices.Sort(want[i])
		_, n := r.awaitPods(0, want[i]...)
		set, _ := r.awaitConfirmed(n, s.Confirm(nil))
		if got := originNames(set); !slices.Equal(got, want[i]) {
			t.Errorf("shard %d has %v; want %v", i, got, want[i])
		}
	}
}
