package systemd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nfsShare is what the helpers of the server's share are named after.
const nfsShare = nfsServer + ":/"

// TestNFSPacketsDropped: a server's packets are dropped, while a pod has its share and before other pods get it. Other pods start and
// end as before, also after a restart of podexecd; the pods of the share can be deleted; its helpers stay few. When the packets
// pass again, a pod that waited gets the share with all that was written, and at the end nothing is left.
func TestNFSPacketsDropped(t *testing.T) {
	startNFS(t)
	dropIn(t, podconfigd, `Environment="PODCONFIGD_FLAGS=--applied"`)
	must(t, "systemctl", "restart", podconfigd)
	awaitActive(t, podconfigd, podexecd)
	bystanders(t, "that warm up")
	census := takeCensus(t) // It takes some of the guest's processor, which the bystanders of before must lack too.
	usual := bystanders(t, "before")

	apply(t, "mounted")
	awaitRunning(t, "mounted")
	awaitShare(t, "mounted\n")
	dropPackets(t)
	was := startOf(t, podexecd)
	apply(t, "waiting")
	apply(t, "deleted")
	eventually(t, "a helper waits for the server", func() error {
		if n := census.mostOf(nfsShare); n == 0 {
			return fmt.Errorf("the helpers are %v", helpersNow())
		}
		return nil
	})
	// Data that isn't written yet keeps a process, and so its container, from ending.
	inBackground(t, "podctl", "exec", "mounted", "--", "/sample", "grow", "/data/unwritten", "4")
	wantUsual(t, "while the server is silent", usual)
	if now := startOf(t, podexecd); now != was {
		t.Errorf("podexecd is the start %v; want %v still", now, was)
	}
	must(t, "systemctl", "restart", podexecd)
	awaitActive(t, podexecd)
	wantUsual(t, "after a restart of podexecd", usual)
	for _, pod := range []string{"waiting", "deleted"} {
		if all, err := containers(t, pod); err != nil || len(all) > 0 {
			t.Errorf("the pod %s has the containers %v, %v, without its share", pod, all, err)
		}
	}

	began := time.Now()
	must(t, "podctl", "delete", "mounted", "deleted")
	gone(t, "deleted")
	t.Logf("without its share, a pod was gone after %v", time.Since(began).Round(time.Millisecond))
	wantUsual(t, "after the deletion", usual)
	t.Logf("the pod with the share: %s", shell("podctl pods; podctl describe mounted; mount -t nfs4; ps -eo pid,stat,wchan:32,args | awk '$2 ~ /^D/'"))

	passPackets(t)
	began = time.Now()
	gone(t, "mounted")
	awaitRunning(t, "waiting")
	awaitShare(t, "mounted\nwaiting\n")
	t.Logf("all was well %v after the server's return", time.Since(began).Round(time.Millisecond))
	must(t, "podctl", "delete", "waiting")
	gone(t, "waiting")
	eventually(t, "nothing is left of the share", nothingOfNFS)
	for volume, n := range census.all() {
		if n > maxHelpers {
			t.Errorf("%s had %d helpers at once; want at most %d", volume, n, maxHelpers)
		}
	}
	awaitShare(t, "mounted\nwaiting\n")
}

// apply applies a pod that adds its name to the file "lines" of the share, until the test ends.
func apply(t *testing.T, name string) {
	t.Helper()
	content := strings.Replace(manifest(name, "volumeMounts: [{name: data, mountPath: /data}]}], "+
		"volumes: [{name: data, nfs: {server: "+nfsServer+", path: /}}]}}\n"),
		"args: [sleep]", "args: [seq, append, /data/lines, "+name+", ;, sleep]", 1)
	path := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "podctl", "apply", "-f", path)
	t.Cleanup(func() { must(t, "podctl", "delete", "--ignore-not-found", name) })
}

// gone waits until containerd has nothing of a pod, and podexecd neither.
func gone(t *testing.T, pod string) {
	t.Helper()
	eventuallyWithin(t, 5*patience, "the pod "+pod+" is gone", func() error {
		if all, err := containers(t, pod); err != nil || len(all) > 0 {
			return fmt.Errorf("it has %d containers, %w", len(all), err)
		}
		if out, err := run("podctl", "pods"); err != nil || strings.Contains(out, pod) {
			return fmt.Errorf("podctl pods: %w\n%s", err, out)
		}
		return nil
	})
}

// awaitShare waits until the server's file has this content.
func awaitShare(t *testing.T, want string) {
	t.Helper()
	eventually(t, "the server has the data", func() error {
		if got, err := os.ReadFile(nfsExports + "/lines"); err != nil || string(got) != want {
			return fmt.Errorf("it has %q, %w; want %q", got, err, want)
		}
		return nil
	})
}

// nothingOfNFS returns what is left of the volumes of NFS: mounts, processes, records, directories.
func nothingOfNFS() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), nfsShare) {
		return fmt.Errorf("the mounts: %w\n%s", err, mounts)
	}
	if all := helpersNow(); len(all) > 0 {
		return fmt.Errorf("the helpers are %v", all)
	}
	if out := shell("ps -eo pid,stat,args | grep -E '[m]ount\\.nfs|[u]mount'"); strings.Contains(out, "mount") {
		return fmt.Errorf("processes are left:\n%s", out)
	}
	for _, at := range []string{volumeRecords + "/*", kubeletDir + "/pods/*"} {
		if left, err := filepath.Glob(at); err != nil || len(left) > 0 {
			return fmt.Errorf("%v are left: %w", left, err)
		}
	}
	return nil
}
