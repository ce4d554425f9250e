package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// plain is a pod without requests. critical is a pod of a critical priority class.
const (
	plain = `
containers:
- {name: main, args: [sleep]}`
	critical = `
priorityClassName: system-node-critical
containers:
- {name: main, args: [sleep]}`
)

// TestPressure: on a node under memory pressure, a pod without memory requests is evicted, and other such pods are
// rejected. Critical pods stay. When the pressure has ended, all of them run.
func TestPressure(t *testing.T) {
	// The threshold is more than any machine has. It must be a soft threshold, because a hard one is subtracted from
	// the memory that pods can have.
	short := []string{"--eviction-soft=memory.available<1000Gi", "--eviction-soft-grace-period=memory.available=1s"}
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		evicted, needed := b.run(t, plain), b.run(t, critical)
		evicted.awaitReady()
		before := needed.awaitReady()

		enough := b.Podexecd.Args
		restartWith(t, b, slices.Concat(enough, short))

		s := evicted.awaitNow("the pod is evicted", func(s *state) bool {
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
		s = refused.awaitNow("a second pod is rejected", func(s *state) bool { return s.Phase == v1.PodFailed })
		if want := "Pod was rejected: The node had condition: [MemoryPressure]. "; s.Reason != "Evicted" || s.Message != want {
			t.Errorf("the second pod is rejected with %s: %q; want %q", s.Reason, s.Message, want)
		}
		refused.awaitEvent("Evicted", "The node had condition: [MemoryPressure]. ")

		restartWith(t, b, enough)

		evicted.awaitReady()
		refused.awaitReady()
		wantUnchanged(needed, &before, "main")
	})
}

// TestPressureOfPods: if all pods together approach their memory limit, pods are evicted before the kernel kills them,
// though the machine has enough memory. With kernelMemcgNotification and cgroup v1 the kernel reports it.
func TestPressureOfPods(t *testing.T) {
	t.Parallel()
	var machine unix.Sysinfo_t
	check(t, unix.Sysinfo(&machine))
	// The limit of all pods is 300 MiB. The threshold keeps 100 MiB of it free.
	reserved := machine.Totalram*uint64(machine.Unit) - 300<<20
	flags := []string{fmt.Sprintf("--system-reserved=memory=%d", reserved), "--eviction-hard=memory.available<100Mi", "--kernel-memcg-notification", "--v=4"}
	logged := "the kernel reports that memory crossed an eviction threshold"
	if cgroups.IsCgroup2UnifiedMode() {
		logged = "kernelMemcgNotification has no effect with cgroup v2"
	}
	for _, r := range latestContainerd {
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
				t.Error("the kernel killed it before the eviction")
			}
			eventually(t, "the report is in the log", func() error {
				log, err := os.ReadFile(b.Podexecd.LogPath)
				if err == nil && !strings.Contains(string(log), logged) {
					err = fmt.Errorf("it lacks %q", logged)
				}
				return err
			})
			wantUnchanged(needed, &before, "main")
		})
	}
}

// TestDiskPressure: when the disk of images fills, unused images are removed, but never the image of sandboxes.
func TestDiskPressure(t *testing.T) {
	t.Parallel()
	for _, r := range containerds {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			// Images belong to the whole node.
			node := startNode(t, r.kind, nodes.New)
			t.Cleanup(func() { check(t, node.Close()) })
			b, err := newBench(node, r.kind, "--eviction-hard=imagefs.available<99%")
			check(t, err)
			t.Cleanup(func() { check(t, errors.Join(b.clear(), b.close())) })
			conn, err := rig.Dial(node.Endpoint())
			check(t, err)
			t.Cleanup(func() { check(t, conn.Close()) })
			images := runtimeapi.NewImageServiceClient(conn)
			// containerd has images and writable layers on one file system, as the simulated runtime.
			info, err := images.ImageFsInfo(t.Context(), &runtimeapi.ImageFsInfoRequest{})
			if err != nil || info.GetImageFilesystems()[0].GetFsId().GetMountpoint() == "" || len(info.GetContainerFilesystems()) > 0 {
				t.Errorf("file systems: %v, %v", info, err)
			}
			eventually(t, "the unused image is gone", func() error {
				list, err := images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
				check(t, err)
				var names []string
				for _, image := range list.GetImages() {
					names = append(names, image.GetRepoTags()...)
				}
				if !slices.Equal(names, []string{devnode.PauseImage}) {
					return fmt.Errorf("the images are %q", names)
				}
				return nil
			})
			p := b.run(t, critical)
			p.await("its image was removed and can't be pulled", func(s *state) bool { return s.waitsFor("main") == "ErrImagePull" })
			boxes, err := b.CRI.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
			if err != nil || len(boxes.GetItems()) != 1 {
				t.Errorf("the sandboxes are %v (%v); want one", boxes.GetItems(), err)
			}
		})
	}
}

// restartWith stops podexecd and starts it with other flags.
func restartWith(t *testing.T, b *bench, args []string) {
	t.Helper()
	b.restartPodexecd(t, func(p *devnode.Process) error {
		err := p.Stop()
		p.Args = args
		return err
	})
}
