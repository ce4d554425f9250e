package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/devnode"
)

// setKubeletDir restarts podexecd with another --kubelet-dir.
func (b *bench) setKubeletDir(t *testing.T, dir string) {
	t.Helper()
	// Before that, it has no handler of SIGTERM.
	check(t, devnode.WaitServing(t.Context(), b.Podexecd, "unix://"+b.ExecSocket()))
	check(t, b.Podexecd.Stop())
	args := slices.Clone(b.Podexecd.Args)
	args[slices.Index(args, "--kubelet-dir")+1] = dir
	b.Podexecd.Args = args
	check(t, b.Podexecd.Start())
	check(t, devnode.WaitServing(t.Context(), b.Podexecd, "unix://"+b.ExecSocket()))
}

// TestUpgradeOfKubeletDir: a pod that has its directory beneath --root-dir, as podexecd had them before --kubelet-dir, keeps that
// over an upgrade, also for containers that start later in it. At its end the directory is removed, and at its next start the pod
// is in --kubelet-dir, where new pods are at once.
func TestUpgradeOfKubeletDir(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		before, after := b.Path("podexecd", "pods"), b.KubeletDir("pods")
		// With one directory for both, the pods are where the earlier version had them.
		b.setKubeletDir(t, b.Path("podexecd"))
		const spec = `
containers:
- name: main
  args: [sleep]
  volumeMounts: [{name: data, mountPath: /data}]
- name: other
  args: [sleep]
  volumeMounts: [{name: data, mountPath: /data}]
volumes: [{name: data, emptyDir: {}}]`
		old := b.run(t, spec)
		ran := old.awaitReady()
		kept := filepath.Join(before, ran.uid, "volumes", "kubernetes.io~empty-dir", "data", "canary")
		check(t, os.WriteFile(kept, []byte("kept"), 0o644))

		b.setKubeletDir(t, b.KubeletDir())
		fresh := b.run(t, "containers:\n- {name: main, args: [sleep]}")
		wantDirectories(t, after, fresh.awaitReady().uid)
		wantDirectories(t, before, ran.uid)
		wantUnchanged(old, &ran, "main", "other")

		// A container that starts now has the old volume, and its own files beside those of the others.
		b.kill(t, ran.of("other"))
		again := old.await("other runs again", func(s *state) bool {
			return s.of("other").RestartCount == 1 && s.of("other").State.Running != nil
		})
		if data, err := os.ReadFile(kept); err != nil || string(data) != "kept" {
			t.Errorf("the file in the volume is %q now, %v", data, err)
		}
		_, id, _ := strings.Cut(again.of("other").ContainerID, "://")
		status, err := b.CRI.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		check(t, err)
		// The volume, the hosts file and the file of the termination message. The simulated runtime reports no mounts.
		mounts := map[string]string{}
		for _, m := range status.GetStatus().GetMounts() {
			mounts[m.GetContainerPath()] = m.GetHostPath()
		}
		for _, inside := range []string{"/data", "/etc/hosts", "/dev/termination-log"} {
			if path := mounts[inside]; b.runtime != devnode.Sim && !strings.HasPrefix(path, before+"/") {
				t.Errorf("a container of the old pod has %s from %q; want it from the pod's old directory", inside, path)
			}
		}
		if messages, err := os.ReadDir(filepath.Join(before, ran.uid, "containers", "other")); err != nil || len(messages) == 0 {
			t.Errorf("its files of termination messages are %v, %v", messages, err)
		}

		// The same pod, with the same UID, at its next start.
		manifest, err := os.ReadFile(filepath.Join(b.Manifests, old.file()))
		check(t, err)
		old.remove()
		old.awaitGone()
		eventually(t, "the old directory is removed", func() error { return empty(before) })
		check(t, b.Write(old.file(), string(manifest)))
		next := old.awaitNow("it runs again", func(s *state) bool { return !s.gone && s.of("main").State.Running != nil })
		if next.uid != ran.uid {
			t.Errorf("the pod's UID was %s, and is %s now", ran.uid, next.uid)
		}
		wantDirectories(t, after, fresh.now().uid, ran.uid)

		// A restart finds nothing of the earlier version.
		b.restartPodexecd(t, (*devnode.Process).Kill)
		eventually(t, "the place of the earlier version is gone", func() error {
			if _, err := os.Lstat(before); !os.IsNotExist(err) {
				return fmt.Errorf("%s: %w", before, err)
			}
			return nil
		})
		wantUnchanged(fresh, new(fresh.now()), "main")
	})
}

// TestEndOfOldPod: the directory of a pod that ended while podexecd was upgraded is removed from the earlier version's place.
func TestEndOfOldPod(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		before := b.Path("podexecd", "pods")
		b.setKubeletDir(t, b.Path("podexecd"))
		p := b.run(t, `
containers:
- {name: main, args: [sleep], volumeMounts: [{name: data, mountPath: /data}]}
volumes: [{name: data, emptyDir: {medium: Memory}}]`)
		wantDirectories(t, before, p.awaitReady().uid)
		check(t, b.Podexecd.Kill())
		p.remove()
		args := slices.Clone(b.Podexecd.Args)
		args[slices.Index(args, "--kubelet-dir")+1] = b.KubeletDir()
		b.Podexecd.Args = args
		check(t, b.Podexecd.Start())
		p.awaitGone()
		eventually(t, "its directory is removed", func() error { return empty(before) })
	})
}

// wantDirectories checks that the pods, and no others, have directories there.
func wantDirectories(t *testing.T, dir string, uids ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(uids)
	if !slices.Equal(names, uids) {
		t.Errorf("%s has %q; want the directories of %q", dir, names, uids)
	}
}

// empty returns an error if the directory has an entry.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s has %s", dir, entries[0].Name())
	}
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
