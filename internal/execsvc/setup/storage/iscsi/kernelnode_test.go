//go:build iscsiguest

package iscsi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/iscsi"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// The addresses of portals. All of 127.0.0.0/8 is the guest's.
const (
	portal1 = "127.0.0.1:3260"
	portal2 = "127.0.0.2:3260"
	portal3 = "127.0.0.3:3260"
)

// secrets are the Secrets of the tests, by name.
type secrets map[string]map[string]string

func (s secrets) Secret(_ context.Context, namespace, name string) (map[string]string, error) {
	if data, ok := s[name]; ok && namespace == "ns" {
		return data, nil
	}
	return nil, fmt.Errorf("no secret %s/%s", namespace, name)
}

// node is what podexecd has on a node: directories, and a Backend with the kernel's initiator.
type node struct {
	*iscsi.Backend
	t                *testing.T
	kubelet, records string
	secrets          secrets
	helpers          *foreign.Helpers
	// boot is the kernel's boot ID, or another one after reboot.
	boot, begin string
	reported    bool
}

// newNode returns a node. At the test's end it has to be as it was.
func newNode(t *testing.T) *node {
	t.Helper()
	if os.Getenv("PODSTREAM_ISCSI_GUEST") == "" {
		t.Fatal("this isn't the guest of hack/vm/iscsi.sh")
	}
	n := &node{t: t, kubelet: t.TempDir(), records: filepath.Join(t.TempDir(), "iscsi"), secrets: secrets{}}
	// These directories of all volumes stay.
	must(t, os.MkdirAll(filepath.Join(kubeletdir.Plugins(n.kubelet), "kubernetes.io/iscsi/iface-default"), 0o750))
	must(t, os.MkdirAll(filepath.Join(kubeletdir.Plugins(n.kubelet), "kubernetes.io/iscsi/volumeDevices/iface-default"), 0o750))
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	n.boot = strings.TrimSpace(string(boot))
	n.start()
	n.begin = n.state()
	t.Cleanup(n.stop)
	return n
}

func (n *node) start() {
	n.t.Helper()
	n.helpers = foreign.New(foreign.Config{Limit: time.Minute})
	var err error
	n.Backend, err = iscsi.New(iscsi.Config{
		Dir: n.records, Agent: "agent", Boot: n.boot, Helpers: n.helpers, Secrets: n.secrets,
	})
	must(n.t, err)
}

func (n *node) stop() {
	n.Close()
	n.helpers.Close()
}

// restart ends the Backend, and makes a new one with the same records.
func (n *node) restart() {
	n.t.Helper()
	n.stop()
	n.start()
}

// swept restarts, and returns when the sweep has removed all records.
func (n *node) swept() {
	n.t.Helper()
	n.restart()
	eventually(n.t, time.Minute, func() error {
		left, err := os.ReadDir(n.records)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d records are left", len(left))
		}
		return err
	})
}

// state is what volumes make on a node: sessions, disks, links of udev, mounts, open-iscsi's records, directories, the
// records of podexecd.
func (n *node) state() string {
	n.t.Helper()
	command(n.t, "udevadm", "settle", "--timeout=30")
	var lines []string
	for _, pattern := range []string{
		"/sys/class/iscsi_session/*", "/sys/class/iscsi_connection/*", "/sys/class/scsi_device/*", "/sys/class/block/sd*", "/dev/sd*",
		"/dev/disk/by-path/*", "/dev/mapper/*", "/sys/class/block/dm-*", "/sys/class/block/loop*/loop",
	} {
		found, err := filepath.Glob(pattern)
		must(n.t, err)
		lines = append(lines, found...)
	}
	var root unix.Stat_t
	must(n.t, unix.Stat(n.kubelet, &root))
	for _, dir := range []string{"/etc/iscsi", "/var/lib/iscsi", n.records, n.kubelet} {
		must(n.t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if strings.HasPrefix(path, kubeletdir.PodsDir(n.kubelet)) {
				return fs.SkipDir
			}
			var stat unix.Stat_t
			if err := unix.Stat(path, &stat); entry.IsDir() && strings.HasPrefix(path, n.kubelet) && (err != nil || stat.Dev != root.Dev) {
				return fs.SkipDir // a mount
			}
			line := path
			if entry.Type()&fs.ModeSymlink != 0 {
				to, err := os.Readlink(path)
				if err != nil {
					return err
				}
				line += " -> " + to
			}
			if entry.Type().IsRegular() {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" %x", sha256.Sum256(data))
			}
			lines = append(lines, line)
			return nil
		}))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(n.t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, n.kubelet) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// same fails the test if the node isn't in this state.
func (n *node) same(want string) {
	n.t.Helper()
	if got := n.state(); got != want {
		was, is := strings.Split(want, "\n"), strings.Split(got, "\n")
		for _, line := range was {
			if !slices.Contains(is, line) {
				n.t.Errorf("no longer there: %s", line)
			}
		}
		for _, line := range is {
			if !slices.Contains(was, line) {
				n.t.Errorf("left: %s", line)
			}
		}
	}
}

// report logs what open-iscsi and the kernel say.
func (n *node) report() {
	n.reported = true
	out, _ := try("iscsiadm", "-m", "session", "-P3")
	n.t.Logf("sessions: %s", out)
	out, _ = try("iscsiadm", "-m", "node")
	n.t.Logf("records: %s", out)
	n.t.Logf("now: %s", n.state())
}
