package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// apart is by how much the wall clock of a gateway is ahead in TestG11Clocks.
const apart = 3 * time.Hour

// The clocks of two gateways are hours apart. Whichever is cut off, the nodes lose no pod and get none that is gone: positions
// don't depend on time.
func TestG11Clocks(t *testing.T) {
	allowGateways(t)
	f := newFleet(t, "clocks", 5, 4)
	exact, ahead := newGateway(t, "exact"), launchGateway(t, "ahead", buildAhead(t))
	if found := ahead.clock(t).Sub(exact.clock(t)); found < apart-time.Hour || found > apart+time.Hour {
		t.Fatalf("the clocks are %v apart; want %v", found, apart)
	}
	check(t, "the one that is ahead is cut off", func(t *testing.T) { f.cutOff(t, exact, ahead, false) })
	check(t, "the other one is cut off", func(t *testing.T) { f.cutOff(t, ahead, exact, false) })
	check(t, "the one that is ahead is cut off and restarted with an old disk", func(t *testing.T) { f.cutOff(t, exact, ahead, true) })
}

// clock returns about the time of the gateway's wall clock: that of its last successful read.
func (g *gateway) clock(t *testing.T) time.Time {
	t.Helper()
	g.awaitSource(t, false, 20)
	return rig.Get(g.source(t.Context()))(t).GetLastReadTime().AsTime()
}

// buildAhead builds podconfigd with another time.Now.
func buildAhead(t *testing.T) string {
	t.Helper()
	root := strings.TrimSpace(string(rig.Get(exec.Command("go", "env", "GOROOT").Output())(t)))
	original := filepath.Join(root, "src", "time", "time.go")
	// time.Now, with a line that adds the offset.
	before, now, after := "sec, nsec, mono := runtimeNow()\n", "func Now() Time {", "sec += 10800\n"
	if apart.Seconds() != 10800 {
		t.Fatal("the offset below isn't the one of the test")
	}
	head, body, ok := strings.Cut(string(rig.Get(os.ReadFile(original))(t)), now)
	if !ok || !strings.Contains(body, before) {
		t.Fatalf("%s has no %q with %q", original, now, before)
	}
	dir := t.TempDir()
	changed, overlay, program := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "podconfigd")
	rig.Must(t, os.WriteFile(changed, []byte(head+now+strings.Replace(body, before, before+after, 1)), 0o600))
	replace := rig.Get(json.Marshal(map[string]map[string]string{"Replace": {original: changed}}))(t)
	rig.Must(t, os.WriteFile(overlay, replace, 0o600))
	rig.Must(t, build(program, "-overlay", overlay))
	return program
}

// The cluster's authority is replaced: the server, the gateways and their certificates are of the new one afterwards. A
// cluster isn't identified by its authority, so nothing happens on the nodes, also on those that move meanwhile.
func TestG11Authority(t *testing.T) {
	allowGateways(t)
	f := newFleet(t, "authority", 5, 4)
	gateways := []*gateway{newGateway(t, "one"), newGateway(t, "two")}
	f.follow(t, gateways[0])
	f.converge(t)
	f.leave()
	before := gateways[0].positionOf(t)
	f.follow(t, gateways[0])
	check(t, "the authority is replaced under the gateways", func(t *testing.T) {
		rig.Must(t, plane.Rotate(t.Context(), func() {
			// client-go reads the file again after at most five minutes; a restart is quicker.
			for _, g := range gateways {
				rig.Must(t, g.daemon.Stop())
				g.start(t)
			}
		}, func() {
			for _, g := range gateways {
				g.rotate(t, time.Now().Add(control.CertificateLife))
			}
			f.move(t, gateways[1])
		}))
	})
	check(t, "the gateways go on, and no pod is removed or added", func(t *testing.T) {
		for _, g := range gateways {
			g.awaitSource(t, false, 20)
		}
		f.move(t, gateways[0])
		f.converge(t)
		after := gateways[0].positionOf(t)
		if before.GetCluster() != after.GetCluster() || before.GetEpoch() != after.GetEpoch() {
			t.Errorf("the position was %v and is %v; want the same cluster and epoch", before, after)
		}
		if removed, added := f.leave(); removed != 0 || added != 0 {
			t.Errorf("the nodes removed %d pods and got %d; want 0 and 0", removed, added)
		}
	})
	check(t, "a new pod arrives", func(t *testing.T) {
		c := f.nodes[0]
		f.follow(t, gateways[0])
		f.truth[c.node][createOn(t, c.node, plane.client(t), c.node+"-new").UID] = true
		f.converge(t)
		f.leave()
		vanish(t, plane.client(t), c.node+"-new")
	})
}

// move has the nodes leave their gateway and follow another one. It fails if they removed or got a pod before.
func (f *fleet) move(t *testing.T, to *gateway) {
	t.Helper()
	if removed, added := f.leave(); removed != 0 || added != 0 {
		t.Errorf("the nodes removed %d pods and got %d; want 0 and 0", removed, added)
	}
	f.follow(t, to)
}

// positionOf returns the gateway's position.
func (g *gateway) positionOf(t *testing.T) *podconfigv1.SourcePosition {
	t.Helper()
	s := rig.Get(g.source(t.Context()))(t)
	if len(s.GetPositions()) != 1 {
		t.Fatalf("the source's positions are %v; want one", s.GetPositions())
	}
	return s.GetPositions()[0]
}
