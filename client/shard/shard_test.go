package shard

import (
	"fmt"
	"testing"
)

// TestOfStays: the shards of these nodes are as they always were, as gateways and consumers of different versions have to agree.
func TestOfStays(t *testing.T) {
	got := ""
	for _, node := range []string{"", "node-1", "node-2", "ip-10-0-0-1.ec2.internal", "worker.example"} {
		got += fmt.Sprintf("%d %d %d,", Of(node, 1), Of(node, 4), Of(node, 1000))
	}
	if want := "0 1 266,0 3 981,0 2 466,0 2 540,0 1 322,"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// TestOfIsEven: each shard has about as many nodes as the others, and a further shard takes only its own nodes from them.
func TestOfIsEven(t *testing.T) {
	const nodes = 20_000
	for _, shards := range []int{2, 3, 4, 10, 16} {
		count, moved := make([]int, shards+1), 0
		for i := range nodes {
			name := fmt.Sprintf("node-%d", i)
			at, next := Of(name, shards), Of(name, shards+1)
			count[at]++
			if at != next {
				moved++
				if next != shards {
					t.Fatalf("%s moves from shard %d to %d when shard %d is added", name, at, next, shards)
				}
			}
		}
		for shard, n := range count[:shards] {
			if mean := nodes / shards; n < mean*9/10 || n > mean*11/10 {
				t.Errorf("shard %d of %d has %d nodes; want %d", shard, shards, n, mean)
			}
		}
		if want := nodes / (shards + 1); moved < want*9/10 || moved > want*11/10 {
			t.Errorf("%d nodes move to shard %d; want %d", moved, shards, want)
		}
	}
}

// TestExpand: an endpoint names its shard, and a wrong one isn't used.
func TestExpand(t *testing.T) {
	four, ten := Of("node-1", 4), Of("node-1", 10)
	for endpoint, want := range map[string]string{
		"unix:///run/podstream/podconfig.sock":                  "unix:///run/podstream/podconfig.sock",
		"tcp://gateway-{shard/4}:9443":                          fmt.Sprintf("tcp://gateway-%d:9443", four),
		"tcp://a-{shard/4}:1,tcp://b-{shard/10}.x.example:9443": fmt.Sprintf("tcp://a-%d:1,tcp://b-%d.x.example:9443", four, ten),
		"tcp://gateway-{shard/1}:9443":                          "tcp://gateway-0:9443",
	} {
		if got, err := Expand(endpoint, "node-1"); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", endpoint, got, err, want)
		}
	}
	for _, endpoint := range []string{"{shard/0}", "{shard/-1}", "{shard/}", "{shard/4", "{shard/1025}", "{shard/4}{shard/x}", "{shard/99999999999999999999}"} {
		if got, err := Expand(endpoint, "node-1"); err == nil {
			t.Errorf("%s: %q; want an error", endpoint, got)
		}
	}
	if _, err := Expand("tcp://gateway-{shard/4}:9443", ""); err == nil {
		t.Error("no node: want an error")
	}
}
