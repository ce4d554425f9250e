package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/devnode"
)

// mountScript takes the place of mount(8) for NFS. The server hung.invalid doesn't answer until the file is there; all others
// have a file system in memory.
const mountScript = `#!/bin/sh
for target; do :; done
case "$*" in
"-t nfs "*hung.invalid:*) echo "$target" >> %[1]s.asked; until [ -e %[1]s ]; do sleep 0.1; done; exit 32 ;;
"-t nfs "*) exec /bin/mount -t tmpfs share "$target" ;;
*) exec /bin/mount "$@" ;;
esac
`

// TestNFS: a pod's share is mounted for it, its containers see it, also by a subPath, and it stays over a restart of podexecd and
// is unmounted at the pod's end. A server that doesn't answer delays only its own pods. One of them is removed
// meanwhile, and another one after the server's answer.
func TestNFS(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		bin, answer := b.Path("bin"), b.Path("answer")
		check(t, os.MkdirAll(bin, 0o755))
		check(t, os.WriteFile(filepath.Join(bin, "mount"), fmt.Appendf(nil, mountScript, answer), 0o755))
		path := "PATH=" + bin + ":" + os.Getenv("PATH")
		restart := func() {
			t.Helper()
			check(t, devnode.WaitServing(t.Context(), b.Podexecd, "unix://"+b.ExecSocket()))
			check(t, b.Podexecd.Kill())
			check(t, b.Podexecd.StartWith(path))
		}
		restart()
		const spec = `
containers:
- {name: main, args: [sleep], volumeMounts: [{name: data, mountPath: /data}, {name: data, mountPath: /part, subPath: a/b}]}
volumes:
- {name: data, nfs: {server: %s.invalid, path: /share}}`
		hung := b.run(t, fmt.Sprintf(spec, "hung"))
		p := b.run(t, fmt.Sprintf(spec, "good"))
		ran := p.awaitReady()
		dir := b.KubeletDir("pods", ran.uid, "volumes", "kubernetes.io~nfs", "data")
		if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || !info.IsDir() {
			t.Errorf("the subPath in the share: %v", err)
		}
		if n := mountsAt(t, dir); n != 1 {
			t.Errorf("%d mounts at the volume's directory", n)
		}
		if s := hung.now(); s.of("main").State.Running != nil {
			t.Error("a pod runs without its share")
		}

		restart()
		check(t, devnode.WaitServing(t.Context(), b.Podexecd, "unix://"+b.ExecSocket()))
		if n := mountsAt(t, dir); n != 1 {
			t.Errorf("%d mounts at the volume's directory after a restart", n)
		}
		p.remove()
		p.awaitGone()
		// Until the runtime has answered, podexecd doesn't know the container.
		for _, s := range p.states() {
			if now := s.of("main"); now.ContainerID != "" && now.ContainerID != ran.of("main").ContainerID || now.RestartCount > 0 {
				t.Errorf("main was %+v, and became %+v", ran.of("main"), now)
			}
		}
		eventually(t, "the share is unmounted", func() error {
			if n := mountsAt(t, dir); n > 0 {
				return fmt.Errorf("%d mounts", n)
			}
			return nil
		})

		leaves := b.run(t, fmt.Sprintf(spec, "hung"))
		eventually(t, "the share is asked for", func() error {
			asked, err := os.ReadFile(answer + ".asked")
			if uid := leaves.now().uid; err != nil || uid == "" || !strings.Contains(string(asked), uid) {
				return fmt.Errorf("pod %q isn't among %s, %w", uid, asked, err)
			}
			return nil
		})
		leaves.remove()
		leaves.awaitGone()
		check(t, os.WriteFile(answer, nil, 0o644))
		hung.awaitEvent("FailedMount", `MountVolume.SetUp failed for volume "data" : `, "exit status 32")
		hung.remove()
		hung.awaitGone()
	})
}

// mountsAt returns the number of mounts at a path.
func mountsAt(t *testing.T, path string) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mounts")
	check(t, err)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == path {
			n++
		}
	}
	return n
}
