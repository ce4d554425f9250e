package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// faults plants the faults of podexecd one by one, and expects that the view of the node shows each.
func (k *killer) faults(t *testing.T) {
	n := k.space.node
	for _, c := range []struct {
		fault failpoint.Name
		life  life
		says  string
	}{
		{failpoint.UntoldEnd, lives[0], "podexecd shows"},
		{failpoint.UncompletedDeletion, lives[0], "is being deleted"},
		{failpoint.LeaveMirror, lives[1], "has no static pod"},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			rig.Must(t, n.Podexecd.Kill())
			t.Setenv(failpoint.Variable, string(c.fault))
			rig.Must(t, n.Podexecd.Start())
			var noticed error
			for at, step := range c.life.steps {
				step.do(t, k.space)
				if err := k.restAfter(t, c.life, at, faultPatience, nil); err != nil {
					v := rig.Get(k.look(t.Context()))(t)
					noticed = errors.Join(v.differences()...)
					break
				}
			}
			if noticed == nil || !strings.Contains(noticed.Error(), c.says) {
				t.Errorf("with the fault %s there is %v; want that something %s", c.fault, noticed, c.says)
			} else {
				t.Logf("with the fault %s: %.300v", c.fault, noticed)
			}
			rig.Must(t, os.Unsetenv(failpoint.Variable))
			restart(t, n.Podexecd)
			for _, pod := range []string{"box", "job"} {
				s := k.space
				s.kubectl(t, "delete", "pod", pod, "--ignore-not-found", "--wait=false")
			}
			if _, err := os.Stat(filepath.Join(n.Manifests, "static.yaml")); err == nil {
				n.removeManifest(t, "static")
			}
			rig.Must(t, k.rest(t, killPatience))
		})
	}
}

// startToDie starts a daemon that dies at the point.
func startToDie(t *testing.T, daemon *devnode.Process, d death) {
	t.Helper()
	rig.Must(t, daemon.StartWith(fmt.Sprintf("%s=%s:%d", failpoint.DieAt, d.point, d.times)))
}

// diedAt returns nil if the daemon killed itself at the point.
func diedAt(daemon *devnode.Process, point failpoint.Point) error {
	err := daemon.Wait(context.Background())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL ||
		!strings.Contains(daemon.LogTail(), "failpoint: dying at "+string(point)) {
		return fmt.Errorf("%s ended otherwise: %w; its output ends with:\n%s", daemon.Name, err, daemon.LogTail())
	}
	return nil
}

// buildWithFailpoints builds the daemons with failpoints, and returns their directory.
func buildWithFailpoints(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(here.dir, "failpoints")
	if output, err := exec.Command("go", "build", "-tags=failpoints", "-o", dir+"/", "./cmd/podconfigd", "./cmd/podexecd").CombinedOutput(); err != nil {
		t.Fatalf("build the daemons with failpoints: %v\n%s", err, output)
	}
	return dir
}
