package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// plain is a pod that asks for nothing, critical one that the node can't do without.
const (
	plain = `
containers:
- {name: main, args: [sleep]}`
	critical = `
priorityClassName: system-node-critical
containers:
- {name: main, args: [sleep]}`
)

// TestPressure: on a node that runs out of memory a pod that asked for none is evicted, and no other one of its kind
// is let in. Critical pods stay. Once there is enough, all of them run.
func TestPressure(t *testing.T) {
	// The threshold is more than any machine has. As a hard one it couldn't be: then nothing would be left to give to
	// pods.
	short := []string{"--eviction-soft=memory.available<1000Gi", "--eviction-soft-grace-period=memory.available=1s"}
	alone(t, nil, func(t *testing.T, b *bench) {
		evicted, needed := b.run(t, plain), b.run(t, critical)
		evicted.awaitReady()
		before := needed.awaitReady()

		enough := b.Podexecd.Args
		restartWith(t, b, slices.Concat(enough, short))

		s := evicted.awaitNow("it is evicted", func(s *state) bool {
			return s.Phase == v1.PodFailed && s.Reason == "Evicted" && s.ended("main") != nil
		})
		if !strings.HasPrefix(s.Message, "The node was low on resource: memory. Threshold quantity: 1000Gi, available: ") {
			t.Errorf("it is evicted with %q", s.Message)
		}
		if !slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
		}) {
			t.Errorf("it is evicted with the conditions %v", s.Conditions)
		}
		evicted.awaitEvent("Evicted", "The node was low on resource: memory. ")
		refused, let := b.run(t, plain), b.run(t, critical)
		let.awaitReady()
		s = refused.awaitNow("another one is refused", func(s *state) bool { return s.Phase == v1.PodFailed })
		if want := "Pod was rejected: The node had condition: [MemoryPressure]. "; s.Reason != "Evicted" || s.Message != want {
			t.Errorf("it is refused with %s: %q; want %q", s.Reason, s.Message, want)
		}
		refused.awaitEvent("Evicted", "The node had condition: [MemoryPressure]. ")

		restartWith(t, b, enough)

		evicted.awaitReady()
		refused.awaitReady()
		unharmed(needed, &before, "main")
	})
}

// TestPressureOfPods: pods that together near what they are held to are evicted before the kernel ends them, though
// the machine has enough.
func TestPressureOfPods(t *testing.T) {
	t.Parallel()
	var machine unix.Sysinfo_t
	check(t, unix.Sysinfo(&machine))
	// Pods are held to 300 MiB, of which the threshold keeps 100 free.
	reserved := machine.Totalram*uint64(machine.Unit) - 300<<20
	flags := []string{fmt.Sprintf("--system-reserved=memory=%d", reserved), "--eviction-hard=memory.available<100Mi"}
	for _, r := range runtimes[:2] {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := ownBench(t, r.kind, flags...)
			needed := b.run(t, critical)
			before := needed.awaitReady()
			hog := b.run(t, `
containers:
- {name: main, args: [hog, "240"]}`)
			s := hog.awaitNow("it is evicted", func(s *state) bool {
				return s.Phase == v1.PodFailed && s.Reason == "Evicted" && s.ended("main") != nil
			})
			if !strings.HasPrefix(s.Message, "The node was low on resource: memory. Threshold quantity: 100Mi, available: ") {
				t.Errorf("it is evicted with %q", s.Message)
			}
			if reason := s.ended("main").Reason; reason == "OOMKilled" {
				t.Error("the kernel was first")
			}
			unharmed(needed, &before, "main")
		})
	}
}

// TestDiskPressure: when the disk of images fills, unused images are removed, but never the image of sandboxes.
func TestDiskPressure(t *testing.T) {
	t.Parallel()
	for _, r := range runtimes[:2] {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			// Images are the whole node's.
			node := startNode(t, r.kind, nodes.New)
			t.Cleanup(func() { check(t, node.Close()) })
			b, err := newBench(node, r.kind, "--eviction-hard=imagefs.available<99%")
			check(t, err)
			t.Cleanup(func() { check(t, errors.Join(b.clear(), b.close())) })
			conn, err := rig.Dial(node.Endpoint())
			check(t, err)
			t.Cleanup(func() { check(t, conn.Close()) })
			images := runtimeapi.NewImageServiceClient(conn)
			eventually(t, "the unused image is gone", func() error {
				list, err := images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
				check(t, err)
				var names []string
				for _, image := range list.GetImages() {
					names = append(names, image.GetRepoTags()...)
				}
				if !slices.Equal(names, []string{devnode.PauseImage}) {
					return fmt.Errorf("there are %q", names)
				}
				return nil
			})
			p := b.run(t, critical)
			p.await("its image can't be had any more", func(s *state) bool { return s.waitsFor("main") == "ErrImagePull" })
			boxes, err := b.CRI.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
			if err != nil || len(boxes.GetItems()) != 1 {
				t.Errorf("there are the sandboxes %v (%v); want one", boxes.GetItems(), err)
			}
		})
	}
}

// restartWith ends podexecd and starts it with other flags.
func restartWith(t *testing.T, b *bench, args []string) {
	t.Helper()
	b.restartPodexecd(t, func(p *devnode.Process) error {
		err := p.Stop()
		p.Args = args
		return err
	})
}
