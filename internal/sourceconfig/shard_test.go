package sourceconfig

import (
	"strings"
	"testing"
)

// TestShardFlags: a shard is one of all, and divides all nodes.
func TestShardFlags(t *testing.T) {
	for _, tc := range []struct {
		flags         string
		shard, shards int
		want          string
	}{
		{"--in-cluster --nodes=*", 0, 0, ""},
		{"--in-cluster --nodes=* --shard=2 --total-shards=4", 2, 4, ""},
		{"--in-cluster --nodes=* --total-shards=1", 0, 0, ""},
		{"--in-cluster --nodes=* --shard=4 --total-shards=4", 0, 0, "--shard below it"},
		{"--in-cluster --nodes=* --shard=1", 0, 0, "--shard below it"},
		{"--in-cluster --nodes=* --shard=-1 --total-shards=4", 0, 0, "--shard below it"},
		{"--in-cluster --nodes=* --total-shards=1025", 0, 0, "from 1 to 1024"},
		{"--in-cluster --nodes=* --total-shards=0", 0, 0, "from 1 to 1024"},
		{"--in-cluster --nodes=a,b --total-shards=4", 0, 0, "--total-shards 4: it divides all nodes of an API server"},
		{"--in-cluster --total-shards=4", 0, 0, "--total-shards 4: it divides all nodes of an API server"},
		{"--pod-manifest-path=/tmp --nodes=* --total-shards=4", 0, 0, "--total-shards 4: it divides all nodes of an API server"},
	} {
		plan, err := inputs{flags: strings.Fields(tc.flags)}.plan(t)
		switch {
		case tc.want != "":
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v; want an error with %q", tc.flags, err, tc.want)
			}
		case err != nil:
			t.Errorf("%s: %v", tc.flags, err)
		default:
			if api := plan.Sources[0].API; api.Shard != tc.shard || api.Shards != tc.shards {
				t.Errorf("%s: shard %d of %d", tc.flags, api.Shard, api.Shards)
			}
		}
	}
}
