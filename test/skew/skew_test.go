package skew

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

const (
	patience = 90 * time.Second
	// fresh is the pod that this version starts.
	fresh = "fresh"
	// claimed is a pod with a claim, which only this version's daemons know.
	claimed = "claimed"
)

// restartsOnDowngrade are the containers that podexecd of the previous version restarts, once: those that this version created.
// Set it to false with the next previous version: that one has the same annotation io.kubernetes.container.hash.
const restartsOnDowngrade = true

// beforeClaims is set while podconfigd of the previous version knows no claims of static pods. Remove it, and the tests with it, with
// the next previous version.
const beforeClaims = true

// beforeKubeletDir is set while the previous version has no --kubelet-dir: its pods are beneath --root-dir, and stay there in this
// version. Set it to false with the next previous version.
const beforeKubeletDir = true

// pair is a pair of daemons, and the pods that must not change.
type pair struct {
	*rig.Rig
	t    *testing.T
	kept map[string]*runtimeapi.Container
	// instance is podconfigd's: it is the same while its store is.
	instance string
	probes   int
}

// TestUpgrades plays each order of an upgrade and of the downgrade after it. After each step a new pod runs, and is removed.
func TestUpgrades(t *testing.T) {
	for _, order := range [][]string{{"podconfigd", "podexecd"}, {"podexecd", "podconfigd"}} {
		t.Run(order[0]+"-first", func(t *testing.T) {
			// A node of its own: the programs in its directory are replaced.
			node := rig.Need(t, func() (*devnode.Node, error) { return nodes.New(devnode.Containerd2) })
			t.Cleanup(func() { rig.Must(t, node.Close()) })
			for _, name := range daemons {
				rig.Must(t, replace(filepath.Join(versions[before], name), filepath.Join(nodes.BinDir, name)))
			}
			p := &pair{Rig: rig.Get(rig.StartBefore(node, strings.ToLower(order[0][3:4])+"first"))(t), t: t, kept: map[string]*runtimeapi.Container{}}
			t.Cleanup(func() { rig.Must(t, p.Close()) })
			for _, pod := range []string{"one", "two"} {
				p.write(pod)
				p.kept[pod] = p.awaitRunning(pod)
			}
			p.instance = p.cursor().GetInstanceId()
			for _, daemon := range order {
				p.change(daemon, now)
			}
			// Its container is this version's.
			p.write(fresh)
			p.kept[fresh] = p.awaitRunning(fresh)
			if beforeClaims && order[0] == "podconfigd" {
				p.claim()
				p.change("podconfigd", before)
				p.keepsClaim()
				p.change("podexecd", before)
			} else {
				for _, daemon := range order {
					p.change(daemon, before)
				}
			}
			// And once more: what the new version has written, the old one has opened.
			p.change(order[1], now)
			p.change(order[0], now)
		})
	}
}

// change replaces one daemon, and checks the node.
func (p *pair) change(daemon string, to version) {
	p.t.Helper()
	when := fmt.Sprintf("with %s of %s", daemon, to)
	cursor := p.cursor()
	rig.Must(p.t, replace(filepath.Join(versions[to], daemon), filepath.Join(nodes.BinDir, daemon)))
	process := p.Podconfigd
	if daemon == "podexecd" {
		process = p.Podexecd
	}
	rig.Must(p.t, process.Stop())
	if daemon == "podexecd" && beforeKubeletDir {
		process.Args = p.WithKubeletDir(process.Args, to == now)
	}
	rig.Must(p.t, process.Start())
	p.runs(process, daemon, to)
	if daemon == "podexecd" && to == before && restartsOnDowngrade {
		p.restarted(fresh)
	}
	// The stream goes on where it was: a full state would have another instance, or begin before the cursor.
	if got := p.cursor(); got.GetInstanceId() != p.instance || got.GetRevision() < cursor.GetRevision() {
		p.t.Errorf("%s the cursor is %v, before %v", when, got, cursor)
	}
	p.resumes(when, cursor)
	p.same(when)
	p.probes++
	probe := fmt.Sprintf("probe-%d", p.probes)
	p.write(probe)
	p.awaitRunning(probe)
	rig.Must(p.t, p.Remove(probe+".yaml"))
	p.eventually(when+" the pod "+probe+" is gone", func() error {
		if all, err := p.of(probe); err != nil || len(all) > 0 {
			return fmt.Errorf("it has %d containers, %w", len(all), err)
		}
		return nil
	})
	p.same(when)
	p.undamaged(when)
}

// runs checks that the process runs that version's program.
func (p *pair) runs(process *devnode.Process, daemon string, of version) {
	p.t.Helper()
	running := rig.Get(os.ReadFile(fmt.Sprintf("/proc/%d/exe", process.Pid())))(p.t)
	want := rig.Get(os.ReadFile(filepath.Join(versions[of], daemon)))(p.t)
	if !bytes.Equal(running, want) {
		p.t.Fatalf("%s isn't that of %s", daemon, of)
	}
}

// restarted waits until the pod has another container, which p.same then requires: it restarts once.
func (p *pair) restarted(pod string) {
	p.t.Helper()
	former := p.kept[pod]
	p.eventually(pod+" has another container", func() error {
		all, err := p.of(pod)
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.GetId() != former.GetId() && c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				p.kept[pod] = c
				return nil
			}
		}
		return fmt.Errorf("its containers are %v", all)
	})
}

// cursor returns the stream's end, as a new consumer receives it.
func (p *pair) cursor() *podconfigv1.Cursor {
	p.t.Helper()
	cursor, _ := p.follow(nil)
	return cursor
}

// resumes checks that a consumer that resumes at the cursor receives no pod again.
func (p *pair) resumes(when string, after *podconfigv1.Cursor) {
	p.t.Helper()
	_, updates := p.follow(after)
	for _, u := range updates {
		if len(u.GetPods()) > 0 {
			p.t.Errorf("%s a consumer that resumes receives %v of %d pods", when, u.GetOp(), len(u.GetPods()))
		}
	}
}

// follow reads the stream until it is synced, and returns its end and the updates before.
func (p *pair) follow(after *podconfigv1.Cursor) (*podconfigv1.Cursor, []*podconfigv1.PodUpdate) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	stream := rig.Get(p.Config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
		Consumer: "skew", Mode: podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, ResumeAfter: after,
	}))(p.t)
	var updates []*podconfigv1.PodUpdate
	for {
		resp := rig.Get(stream.Recv())(p.t)
		if u := resp.GetUpdate(); u != nil {
			updates = append(updates, u)
		}
		if resp.GetSynced() != nil {
			return resp.GetCursor(), updates
		}
	}
}

func (p *pair) write(name string) {
	p.t.Helper()
	rig.Must(p.t, p.Write(name+".yaml", fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 1,
  containers: [{name: c, image: %q, imagePullPolicy: IfNotPresent, args: [sleep]}]}}`, name, devnode.SampleImage)))
}

// of returns the containers of a pod.
func (p *pair) of(pod string) ([]*runtimeapi.Container, error) {
	all, err := p.Containers(p.t.Context(), "")
	var out []*runtimeapi.Container
	for _, c := range all {
		if c.GetLabels()["io.kubernetes.pod.name"] == pod+"-"+p.Name {
			out = append(out, c)
		}
	}
	return out, err
}

func (p *pair) awaitRunning(pod string) (container *runtimeapi.Container) {
	p.t.Helper()
	p.eventually(pod+" runs", func() error {
		all, err := p.of(pod)
		if err != nil || len(all) != 1 || all[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			return errors.Join(err, fmt.Errorf("its containers are %v", all))
		}
		container = all[0]
		return nil
	})
	return container
}

// same checks that each kept pod has its first container, which runs, and that podexecd shows the pod.
func (p *pair) same(when string) {
	p.t.Helper()
	for pod, want := range p.kept {
		all := slices.DeleteFunc(rig.Get(p.of(pod))(p.t), func(c *runtimeapi.Container) bool {
			// That of before the restart.
			return pod == fresh && c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && c.GetCreatedAt() < want.GetCreatedAt()
		})
		if len(all) != 1 || all[0].GetId() != want.GetId() || all[0].GetCreatedAt() != want.GetCreatedAt() ||
			all[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			p.t.Errorf("%s %s has the containers %v; want %v", when, pod, all, want)
		}
	}
	// A call waits for a podexecd that has ended.
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	p.eventually(when+" podexecd shows the pods", func() error {
		resp, err := p.Exec.ListPods(ctx, &podexecv1.ListPodsRequest{})
		if err == nil && len(resp.GetPods()) < len(p.kept) {
			err = fmt.Errorf("it shows %d", len(resp.GetPods()))
		}
		return err
	})
}

// undamaged checks that no daemon put a store aside.
func (p *pair) undamaged(when string) {
	p.t.Helper()
	for _, pattern := range []string{"*.db.damaged-*", "*.db.version-*"} {
		if aside := rig.Get(filepath.Glob(p.Path("*", pattern)))(p.t); len(aside) > 0 {
			p.t.Errorf("%s the stores %q were put aside", when, aside)
		}
	}
}

func (p *pair) eventually(what string, check func() error) {
	p.t.Helper()
	if err := rig.Poll(patience, check); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}
