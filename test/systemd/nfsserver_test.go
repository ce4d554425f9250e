package systemd_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// nfsNetns is the server's network namespace, and nfsServer its address there.
	nfsNetns   = "nfs"
	nfsServer  = "10.98.0.2"
	nfsMAC     = "02:00:00:00:00:02"
	nfsUnit    = "nfs-of-test.service"
	nfsExports = "/srv/share"
	// maxHelpers is package foreign's maximum for one volume.
	maxHelpers = 4
)

// nfsScript serves nfsExports. Its own mount of nfsd is that of its network namespace. The periods are short, as a server that
// has just started waits for its former clients.
//
//nolint:misspell // exportfs is a program.
const nfsScript = `set -e
mount -t nfsd nfsd /proc/fs/nfsd
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
exportfs -o rw,no_root_squash,no_subtree_check,fsid=0 10.98.0.0/24:` + nfsExports + `
rpc.nfsd --no-nfs-version 3 4
exec rpc.mountd --foreground --no-nfs-version 3`

// startNFS starts a server of NFS in a network namespace of its own, until the test ends.
func startNFS(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		passPackets(t)
		_, _ = run("ip", "netns", "exec", nfsNetns, "sh", "-c", "mount -t nfsd nfsd /proc/fs/nfsd && rpc.nfsd 0")
		_, _ = run("systemctl", "stop", nfsUnit)
		_, _ = run("ip", "netns", "delete", nfsNetns)
	})
	must(t, "mkdir", "-p", nfsExports)
	must(t, "modprobe", "-a", "nfsd", "nfsv4")
	must(t, "ip", "netns", "add", nfsNetns)
	must(t, "ip", "link", "add", "nfs0", "type", "veth", "peer", "name", "eth0", "netns", nfsNetns)
	must(t, "ip", "address", "add", "10.98.0.1/24", "dev", "nfs0")
	must(t, "ip", "link", "set", "nfs0", "up")
	inside := []string{"ip", "-n", nfsNetns}
	must(t, append(inside, "link", "set", "lo", "up")...)
	must(t, append(inside, "address", "add", nfsServer+"/24", "dev", "eth0")...)
	must(t, append(inside, "link", "set", "eth0", "address", nfsMAC, "up")...)
	must(t, "ip", "neighbour", "replace", nfsServer, "lladdr", nfsMAC, "dev", "nfs0", "nud", "permanent")
	must(t, "systemd-run", "--unit="+nfsUnit, "--property=NetworkNamespacePath=/run/netns/"+nfsNetns, "--property=PrivateMounts=yes",
		"sh", "-c", nfsScript)
	eventually(t, "the server of NFS answers", func() error {
		dir := t.TempDir()
		if _, err := run("timeout", "10", "mount", "-t", "nfs", "-o", "soft,retry=0", nfsServer+":/", dir); err != nil {
			return fmt.Errorf("%w\n%s", err, shell("systemctl status "+nfsUnit))
		}
		must(t, "umount", dir)
		return nil
	})
}

// dropPackets has all packets from and to the server dropped: its end of the link is down. Nothing tells the client, which has the
// server's hardware address. User-Mode Linux has no packet filter.
func dropPackets(t *testing.T) {
	t.Helper()
	must(t, "ip", "-n", nfsNetns, "link", "set", "eth0", "down")
}

// passPackets undoes dropPackets.
func passPackets(t *testing.T) {
	t.Helper()
	_, _ = run("ip", "-n", nfsNetns, "link", "set", "eth0", "up")
}

// helper is a process of podexecd for a volume, or one that such a process has started.
type helper struct {
	pid, state, job, volume string
}

// helpersNow returns podexecd's helper processes.
func helpersNow() (all []helper) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if err != nil || len(args) != 3 || args[0] != "podexecd-foreign" {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		_, fields, _ := strings.Cut(string(stat), ") ")
		state, _, _ := strings.Cut(fields, " ")
		if state != "Z" {
			all = append(all, helper{filepath.Base(dir), state, strings.TrimPrefix(args[1], "--foreign-job="), args[2]})
		}
	}
	return all
}

// census counts the helpers all the time.
type census struct {
	mu sync.Mutex
	// most is the largest number of helpers of a volume at once, by volume; jobs are those that were seen; stuck those in state D.
	most, jobs, stuck map[string]int
}

// takeCensus counts helpers until the test ends.
func takeCensus(t *testing.T) *census {
	t.Helper()
	c := &census{most: map[string]int{}, jobs: map[string]int{}, stuck: map[string]int{}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		seen := map[string]bool{}
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				c.count(helpersNow(), seen)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		t.Logf("helpers of a volume at once: %v; all: %v; in state D: %v", c.most, c.jobs, c.stuck)
	})
	return c
}

func (c *census) count(now []helper, seen map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := map[string]int{}
	for _, h := range now {
		of[h.volume]++
		c.most[h.volume] = max(c.most[h.volume], of[h.volume])
		if !seen[h.pid] {
			seen[h.pid] = true
			c.jobs[h.job]++
		}
		if h.state == "D" && !seen[h.pid+"D"] {
			seen[h.pid+"D"] = true
			c.stuck[h.job]++
		}
	}
}

// mostOf returns the largest number of helpers that a volume had at once.
func (c *census) mostOf(volume string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[volume]
}

// all returns mostOf each volume.
func (c *census) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.most)
}

// lifetime is how long a pod took from its manifest to its running container, and from the manifest's end to that of its containers.
type lifetime struct{ start, end time.Duration }

func (l lifetime) String() string {
	return fmt.Sprintf("start %v, end %v", l.start.Round(time.Millisecond), l.end.Round(time.Millisecond))
}

// bystanders has some pods without volumes start and end, one after the other, and returns how long each took.
func bystanders(t *testing.T, when string) (all []lifetime) {
	t.Helper()
	for i := range 3 {
		name := "bystander-" + strconv.Itoa(i)
		path := filepath.Join(manifests, name+".yaml")
		began := time.Now()
		if err := os.WriteFile(path, []byte(manifest(name, plain)), 0o644); err != nil {
			t.Fatal(err)
		}
		awaitRunning(t, name)
		l := lifetime{start: time.Since(began)}
		began = time.Now()
		remove(t, name)
		l.end = time.Since(began)
		all = append(all, l)
	}
	t.Logf("bystanders %s: %v", when, all)
	return all
}

// wantUsual checks that pods start and end as they did before. The fastest counts, as this machine may be busy. A pod that waited for
// the server would take ten times as long: a helper has 30 s, and a mount two minutes.
func wantUsual(t *testing.T, when string, usual []lifetime) {
	t.Helper()
	const ratio = 3
	extreme := func(all []lifetime, of func(a, b time.Duration) time.Duration) lifetime {
		l := all[0]
		for _, next := range all[1:] {
			l.start, l.end = of(l.start, next.start), of(l.end, next.end)
		}
		return l
	}
	least := func(a, b time.Duration) time.Duration { return min(a, b) }
	most := func(a, b time.Duration) time.Duration { return max(a, b) }
	now, bound := extreme(bystanders(t, when), least), extreme(usual, most)
	if now.start > ratio*bound.start || now.end > ratio*bound.end {
		t.Errorf("%s, other pods take at least %v; before at most %v", when, now, bound)
	}
}

// inBackground starts a command that may hang, and ends it with the test.
func inBackground(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}
