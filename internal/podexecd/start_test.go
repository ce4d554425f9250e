package podexecd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/cluster/apisink"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
)

// failCgroupV1 keeps podexecd from starting on a machine with cgroup v1, and only there.
func TestFailCgroupV1(t *testing.T) {
	for _, c := range []struct{ fail, v2, refused bool }{
		{fail: true, v2: false, refused: true}, {fail: true, v2: true}, {fail: false, v2: false}, {fail: false, v2: true},
	} {
		err := checkCgroups(&execconfig.Settings{Node: execconfig.Node{FailCgroupV1: c.fail}}, c.v2)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "failCgroupV1") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The Node has the kubelet's events of a start; what is unsafe about the machine is also logged.
func TestStartEvents(t *testing.T) {
	swap := func(info nodeinfo.Info) nodeinfo.Info {
		info.System.Swap = &v1.NodeSwapStatus{Capacity: ptr.To[int64](1 << 30)}
		return info
	}
	for name, c := range map[string]struct {
		info   nodeinfo.Info
		noSwap bool
		want   []string
	}{
		"a good machine":                 {nodeinfo.Info{CgroupV2: true}, true, []string{"Normal Starting"}},
		"cgroup v1":                      {nodeinfo.Info{}, true, []string{"Normal Starting", "Warning CgroupV1"}},
		"swap":                           {swap(nodeinfo.Info{CgroupV2: true}), true, []string{"Normal Starting"}},
		"swap, and an old kernel":        {swap(nodeinfo.Info{CgroupV2: true}), false, []string{"Normal Starting", "Warning PossibleMemoryBackedVolumesOnDisk"}},
		"an old kernel without any swap": {nodeinfo.Info{CgroupV2: true}, false, []string{"Normal Starting"}},
	} {
		t.Run(name, func(t *testing.T) {
			sent, api := sentEvents(t)
			opts := &Options{node: "n1", settings: &execconfig.Settings{}}
			sink, err := apisink.New(apisink.Config{REST: api, Node: opts.node})
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()
			var log bytes.Buffer
			n := &node{opts: opts, log: slog.New(slog.NewTextHandler(&log, nil)), cluster: &cluster{opts: opts, sink: sink}}
			n.announce(startEvents(&c.info, func() bool { return c.noSwap }))
			var got []string
			for range c.want {
				e := nextEvent(t, sent)
				if got = append(got, e.Type+" "+e.Reason); e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != "n1" {
					t.Errorf("%s is about %+v; want the Node", e.Reason, e.InvolvedObject)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if warned := strings.Count(log.String(), "level=WARN"); warned != len(c.want)-1 {
				t.Errorf("%d warnings are logged; want %d:\n%s", warned, len(c.want)-1, log.String())
			}
		})
	}
}

// On a standalone node the warnings are logged.
func TestStartWithoutCluster(t *testing.T) {
	var log bytes.Buffer
	n := &node{log: slog.New(slog.NewTextHandler(&log, nil))}
	n.announce(startEvents(&nodeinfo.Info{}, func() bool { return true }))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "reason=CgroupV1") {
		t.Errorf("logged %q; want the warning of cgroup v1", got)
	}
}
