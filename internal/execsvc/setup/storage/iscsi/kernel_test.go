package iscsi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
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
	begin            string
	reported         bool
}

// newNode returns a node. At the test's end it has to be as it was.
func newNode(t *testing.T) *node {
	t.Helper()
	if os.Getenv("PODSTREAM_ISCSI_GUEST") == "" {
		t.Skip("this isn't the guest of hack/vm/iscsi.sh")
	}
	n := &node{t: t, kubelet: t.TempDir(), records: filepath.Join(t.TempDir(), "iscsi"), secrets: secrets{}}
	// These directories of all volumes stay.
	must(t, os.MkdirAll(filepath.Join(kubeletdir.Plugins(n.kubelet), "kubernetes.io/iscsi/iface-default"), 0o750))
	must(t, os.MkdirAll(filepath.Join(kubeletdir.Plugins(n.kubelet), "kubernetes.io/iscsi/volumeDevices/iface-default"), 0o750))
	n.start()
	n.begin = n.state()
	t.Cleanup(n.stop)
	return n
}

func (n *node) start() {
	n.t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(n.t, err)
	n.helpers = foreign.New(foreign.Config{Limit: time.Minute})
	n.Backend, err = iscsi.New(iscsi.Config{
		Dir: n.records, Agent: "agent", Boot: strings.TrimSpace(string(boot)), Helpers: n.helpers, Secrets: n.secrets,
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

// state is what volumes make on a node: sessions, disks, links of udev, mounts, open-iscsi's records, directories, the
// records of podexecd.
func (n *node) state() string {
	n.t.Helper()
	command(n.t, "udevadm", "settle", "--timeout=30")
	var lines []string
	for _, pattern := range []string{
		"/sys/class/iscsi_session/*", "/sys/class/iscsi_connection/*", "/sys/class/scsi_device/*", "/sys/class/block/sd*", "/dev/sd*",
		"/dev/disk/by-path/*", "/dev/mapper/*", "/sys/class/block/loop*/loop",
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

// volume is a volume for one pod.
type volume struct {
	n       *node
	stage   storage.Staging
	publish storage.Publishing
	ended   bool
}

// readOnly is the annotation of a PersistentVolume whose claims are read-only.
const readOnly = "read-only"

// pv returns a PersistentVolume of a LUN.
func pv(name string, g *target, lun int32) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.ISCSI = &v1.ISCSIPersistentVolumeSource{TargetPortal: g.portals[0], IQN: g.iqn, Lun: lun}
	return v
}

// volume returns the calls' arguments for a pod. At the test's end it is unpublished and unstaged.
func (n *node) volume(uid types.UID, v *v1.PersistentVolume) *volume {
	n.t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid}}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4711)}
	resolved, err := iscsi.Persistent(n.kubelet, pod, &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: metav1.HasAnnotation(v.ObjectMeta, readOnly)},
	}}, v)
	must(n.t, err)
	dir := filepath.Join(kubeletdir.PodsDir(n.kubelet), string(uid))
	must(n.t, os.MkdirAll(dir, 0o750))
	kind := "volumes"
	if resolved.Device {
		kind = "volumeDevices"
	}
	staging := storage.Staging{Key: resolved.Key, Args: resolved.StageArgs}
	vol := &volume{n: n, stage: staging, publish: storage.Publishing{
		Staging: staging, Staged: true, UID: uid, Plugin: resolved.Plugin, Name: resolved.Name, ReadOnly: resolved.ReadOnly,
		Device: resolved.Device, Args: resolved.PublishArgs, Dir: filepath.Join(dir, kind, "kubernetes.io~iscsi", resolved.Name),
	}}
	n.t.Cleanup(func() {
		if n.t.Failed() && !n.reported {
			n.report()
		}
		if !vol.ended {
			check(n.t, vol.down())
		}
	})
	return vol
}

// limited returns the context of a call.
func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Minute)
}

// up stages and publishes the volume.
func (v *volume) up() error {
	ctx, cancel := limited()
	defer cancel()
	if err := v.n.Stage(ctx, v.stage); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	if err := v.n.Publish(ctx, v.publish); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// down unpublishes and unstages it.
func (v *volume) down() error {
	ctx, cancel := limited()
	defer cancel()
	if err := v.n.Unpublish(ctx, v.publish); err != nil {
		return fmt.Errorf("unpublish: %w", err)
	}
	if err := v.n.Unstage(ctx, v.stage); err != nil {
		return fmt.Errorf("unstage: %w", err)
	}
	v.ended = true
	return nil
}

// write writes a file of the volume, to the disk.
func (v *volume) write(name, text string) {
	v.n.t.Helper()
	f, err := os.Create(filepath.Join(v.publish.Dir, name))
	must(v.n.t, err)
	_, err = f.WriteString(text)
	must(v.n.t, errors.Join(err, f.Sync(), f.Close()))
}

// has fails the test if a file of the volume hasn't the text.
func (v *volume) has(name, text string) {
	v.n.t.Helper()
	if data, err := os.ReadFile(filepath.Join(v.publish.Dir, name)); err != nil || string(data) != text {
		v.n.t.Errorf("%s has %q: %v", name, data, err)
	}
}

// disks returns the kernel's SCSI disks.
func disks(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/sys/class/block/sd*")
	must(t, err)
	return found
}

// TestKernelVolume: a LUN without content is formatted, mounted for two pods, and leaves nothing; its files are there the next time.
func TestKernelVolume(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "volume", []string{portal1}, newDisk(t, "volume"))
	first, second := n.volume("u1", pv("pv", g, 0)), n.volume("u2", pv("pv", g, 0))
	for range 2 { // A repeated call has the same effect.
		must(t, first.up())
	}
	must(t, second.up())
	var stat unix.Statfs_t
	must(t, unix.Statfs(first.publish.Dir, &stat))
	if stat.Type != unix.EXT4_SUPER_MAGIC {
		t.Errorf("the file system is %x", stat.Type)
	}
	first.write("file", "data")
	second.has("file", "data")
	info, err := os.Stat(first.publish.Dir)
	must(t, err)
	if got := info.Sys().(*syscall.Stat_t).Gid; got != 4711 {
		t.Errorf("the group is %d", got)
	}
	stats, err := n.Stats(t.Context(), first.publish)
	if err != nil || stats.Capacity < 16<<20 || stats.Capacity > 48<<20 {
		t.Errorf("%+v, %v", stats, err)
	}
	if got := len(disks(t)); got != 1 || g.sessions() != 1 {
		t.Errorf("%d disks, %d sessions", got, g.sessions())
	}
	ctx, cancel := limited()
	defer cancel()
	must(t, n.Unpublish(ctx, first.publish))
	second.has("file", "data")
	must(t, second.down())
	n.same(n.begin)
	if g.sessions() != 0 {
		t.Error("the target has a session")
	}
	must(t, second.down())

	must(t, first.up())
	first.has("file", "data")
	must(t, first.down())
	n.same(n.begin)
}

// TestKernelReadOnly: nothing can be written to a volume that is read-only.
func TestKernelReadOnly(t *testing.T) {
	n := newNode(t)
	d := newDisk(t, "readonly")
	command(t, "mkfs.ext4", "-q", "-F", d.file)
	g := newTarget(t, "readonly", []string{portal1}, d)
	v := pv("pv", g, 0)
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, readOnly, "")
	vol := n.volume("u1", v)
	must(t, vol.up())
	if err := os.WriteFile(filepath.Join(vol.publish.Dir, "file"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("a write: %v", err)
	}
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelTwoLUNs: two LUNs of a target share a session. It stays until the last of them is let go, and the disk of the first is deleted.
func TestKernelTwoLUNs(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "luns", []string{portal1}, newDisk(t, "luns-a"), newDisk(t, "luns-b"), newDisk(t, "luns-c"))
	first, second := n.volume("u1", pv("pv0", g, 0)), n.volume("u2", pv("pv1", g, 1))
	must(t, first.up())
	one := n.state()
	if got := len(disks(t)); got != 1 {
		t.Errorf("%d disks for one volume of a target with three", got)
	}
	must(t, second.up())
	first.write("file", "first")
	second.write("file", "second")
	first.has("file", "first")
	if got := len(disks(t)); got != 2 || g.sessions() != 1 {
		t.Errorf("%d disks, %d sessions", got, g.sessions())
	}
	must(t, second.down())
	n.same(one)
	first.write("file", "first again")
	must(t, second.up())
	must(t, first.down())
	if got := len(disks(t)); got != 1 || g.sessions() != 1 {
		t.Errorf("%d disks, %d sessions", got, g.sessions())
	}
	second.has("file", "second")
	must(t, second.down())
	n.same(n.begin)
	if g.sessions() != 0 {
		t.Error("the target has a session")
	}
}

// TestKernelNoLUN: a volume whose LUN the target doesn't have is an error, and leaves nothing.
func TestKernelNoLUN(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "nolun", []string{portal1}, newDisk(t, "nolun"))
	vol := n.volume("u1", pv("pv", g, 7))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.Stage(ctx, vol.stage); err == nil {
		t.Error("it is staged")
	} else {
		t.Log(err)
	}
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelCHAP: a target that asks for a secret, and one that gives one too. The error of a wrong one, and podexecd's records, have no secret.
func TestKernelCHAP(t *testing.T) {
	for name, mutual := range map[string]bool{"one-way": false, "mutual": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			g := newTarget(t, "chap", []string{portal2}, newDisk(t, "chap"))
			data := map[string]string{"node.session.auth.username": "initiator", "node.session.auth.password": "rightsecret123"}
			nameIn, secretIn := "", ""
			if mutual {
				nameIn, secretIn = "target", "mutualsecret12"
				data["node.session.auth.username_in"], data["node.session.auth.password_in"] = nameIn, secretIn
			}
			g.chap("initiator", "rightsecret123", nameIn, secretIn)
			n.secrets["right"] = data
			wrong := map[string]string{}
			for key, value := range data {
				wrong[key] = value
			}
			key := "node.session.auth.password"
			if mutual {
				key += "_in"
			}
			wrong[key] = "wrongsecret456"
			n.secrets["wrong"] = wrong
			of := func(secret string) *volume {
				v := pv("pv", g, 0)
				v.Spec.ISCSI.SessionCHAPAuth = true
				v.Spec.ISCSI.SecretRef = &v1.SecretReference{Namespace: "ns", Name: secret}
				return n.volume("u1", v)
			}
			refused := of("wrong")
			err := refused.up()
			if err == nil {
				t.Fatal("it is staged with a wrong secret")
			}
			t.Log(err)
			for _, text := range []string{"rightsecret", "wrongsecret", "mutualsecret"} {
				if strings.Contains(err.Error(), text) {
					t.Errorf("a secret is in the error: %v", err)
				}
			}
			must(t, refused.down())
			n.same(n.begin)

			unnamed := n.volume("u1", pv("pv", g, 0))
			if err := unnamed.up(); err == nil {
				t.Fatal("it is staged without a secret")
			}
			must(t, unnamed.down())
			n.same(n.begin)

			vol := of("right")
			must(t, vol.up())
			vol.write("file", "data")
			must(t, filepath.WalkDir(n.records, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				content, err := os.ReadFile(path)
				if bytes.Contains(content, []byte("secret123")) || bytes.Contains(content, []byte("mutualsecret")) {
					t.Errorf("%s has a secret", path)
				}
				return err
			}))
			must(t, vol.down())
			n.same(n.begin)
		})
	}
}

// TestKernelForeignSession: a session that the host has made isn't used, changed or ended, nor its record.
func TestKernelForeignSession(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "host", []string{portal1}, newDisk(t, "host-a"), newDisk(t, "host-b"))
	other := newTarget(t, "other", []string{portal2}, newDisk(t, "other"))
	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-o", "new")
	t.Cleanup(func() { command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-o", "delete") })
	recorded := n.state()
	// A record of the host's without a session.
	refused := n.volume("u1", pv("pv", g, 1))
	if err := refused.up(); err == nil {
		t.Error("the host's record is used")
	} else {
		t.Log(err)
	}
	must(t, refused.down())
	n.same(recorded)

	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--login")
	t.Cleanup(func() { command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--logout") })
	loggedIn := n.state()
	if got := len(disks(t)); got != 2 {
		t.Errorf("the host has %d disks", got)
	}
	for lun := range int32(2) {
		refused := n.volume("u1", pv("pv", g, lun))
		if err := refused.up(); err == nil {
			t.Error("the host's session is used")
		} else {
			t.Log(err)
		}
		n.restart()
		must(t, refused.down())
		n.same(loggedIn)
	}
	vol := n.volume("u2", pv("other", other, 0))
	must(t, vol.up())
	vol.write("file", "data")
	must(t, vol.down())
	n.same(loggedIn)
	if g.sessions() != 1 {
		t.Errorf("%d sessions", g.sessions())
	}
}

// TestKernelDeadTarget: a target whose packets are dropped delays its own volume only, and each call ends with its context. When
// it answers again, everything goes.
func TestKernelDeadTarget(t *testing.T) {
	n := newNode(t)
	dead := newTarget(t, "dead", []string{portal2}, newDisk(t, "dead-a"), newDisk(t, "dead-b"))
	alive := newTarget(t, "alive", []string{portal1}, newDisk(t, "alive"))
	vol, next, well := n.volume("u1", pv("pv0", dead, 0)), n.volume("u2", pv("pv1", dead, 1)), n.volume("u3", pv("pv2", alive, 0))
	must(t, vol.up())
	vol.write("file", "data")
	restore := drop(t, portal2)

	// bounded makes a call that the target must answer, and fails the test if it lasts longer than its context.
	bounded := func(name string, call func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		err := call(ctx)
		took := time.Since(begin)
		t.Logf("%s: %v, %s", name, err, took)
		if err == nil {
			t.Errorf("%s: the target has answered", name)
		}
		if took > 20*time.Second {
			t.Errorf("%s has taken %s", name, took)
		}
	}
	bounded("stage", func(ctx context.Context) error { return n.Stage(ctx, next.stage) })
	begin := time.Now()
	must(t, well.up())
	well.write("file", "data")
	must(t, well.down())
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("a volume of another target has taken %s", took)
	}
	// Something that has to be written makes the unmount wait.
	must(t, os.WriteFile(filepath.Join(vol.publish.Dir, "late"), []byte("late"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	err := n.Unpublish(ctx, vol.publish)
	cancel()
	t.Logf("unpublish: %v", err) // The bind mount of the pod needs no answer.
	bounded("unstage", func(ctx context.Context) error { return n.Unstage(ctx, vol.stage) })

	restore()
	for _, v := range []*volume{next, vol} {
		eventually(t, 2*time.Minute, v.down)
	}
	n.same(n.begin)
	// Nothing is lost.
	must(t, vol.up())
	vol.has("file", "data")
	vol.has("late", "late")
	must(t, vol.down())
	n.same(n.begin)
}

// eventually repeats a call, as package storage does, until it succeeds.
func eventually(t *testing.T, limit time.Duration, call func() error) {
	t.Helper()
	begin := time.Now()
	for {
		err := call()
		if err == nil {
			return
		}
		if time.Since(begin) > limit {
			t.Fatal(err)
		}
		t.Logf("after %s: %v", time.Since(begin), err)
		time.Sleep(time.Second) // The next attempt.
	}
}

// TestKernelDisabledTarget: a target that refuses logins, and ends its session, is an error. When it is enabled again the volume is
// usable, and goes.
func TestKernelDisabledTarget(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "disabled", []string{portal2}, newDisk(t, "disabled"))
	g.enable(false)
	vol := n.volume("u1", pv("pv", g, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	begin := time.Now()
	err := n.Stage(ctx, vol.stage)
	cancel()
	t.Logf("stage: %v, %s", err, time.Since(begin))
	if err == nil || time.Since(begin) > 30*time.Second {
		t.Errorf("stage: %v, %s", err, time.Since(begin))
	}
	eventually(t, time.Minute, vol.down)
	n.same(n.begin)

	g.enable(true)
	must(t, vol.up())
	vol.write("file", "data")
	g.enable(false)
	g.enable(true)
	eventually(t, time.Minute, func() error {
		return os.WriteFile(filepath.Join(vol.publish.Dir, "again"), []byte("data"), 0o600)
	})
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelRestart: a new podexecd finds what the one before it has made in its records, and lets it go.
func TestKernelRestart(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "restart", []string{portal1}, newDisk(t, "restart-a"), newDisk(t, "restart-b"))
	first, second := n.volume("u1", pv("pv0", g, 0)), n.volume("u2", pv("pv1", g, 1))
	must(t, first.up())
	must(t, second.up())
	all := n.state()
	n.restart()
	n.same(all)
	first.write("file", "data")
	must(t, first.up()) // as package storage repeats a call that had no answer
	n.same(all)
	must(t, second.down())
	if got := len(disks(t)); got != 1 || g.sessions() != 1 {
		t.Errorf("%d disks, %d sessions", got, g.sessions())
	}
	n.restart()
	first.has("file", "data")
	must(t, first.down())
	n.same(n.begin)

	// A restart with its session ended by hand meanwhile.
	must(t, first.up())
	ctx, cancel := limited()
	defer cancel()
	must(t, n.Unpublish(ctx, first.publish))
	command(t, "umount", "--all-targets", disk0(t))
	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--logout")
	n.restart()
	must(t, first.down())
	n.same(n.begin)
	must(t, first.up())
	first.has("file", "data")
	must(t, first.down())
	n.same(n.begin)
}

// disk0 returns the device of the only SCSI disk.
func disk0(t *testing.T) string {
	t.Helper()
	found := disks(t)
	if len(found) != 1 {
		t.Fatalf("the disks are %v", found)
	}
	return filepath.Join("/dev", filepath.Base(found[0]))
}

// TestKernelDaemon: a restart of iscsid doesn't change a volume.
func TestKernelDaemon(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "daemon", []string{portal1}, newDisk(t, "daemon"))
	vol := n.volume("u1", pv("pv", g, 0))
	must(t, vol.up())
	vol.write("file", "data")
	command(t, "iscsiadm", "-k", "0")
	command(t, "iscsid")
	vol.has("file", "data")
	eventually(t, time.Minute, vol.down)
	n.same(n.begin)
}

// TestKernelNotBlank: a LUN that has another file system, or partitions, isn't formatted.
func TestKernelNotBlank(t *testing.T) {
	for name, fill := range map[string]func(t *testing.T, file string){
		"another file system": func(t *testing.T, file string) {
			must(t, os.Truncate(file, 320<<20)) // mkfs.xfs wants 300 MB.
			command(t, "mkfs.xfs", "-q", file)
		},
		"partitions": func(t *testing.T, file string) {
			command(t, "bash", "-c", "echo ',,L' | sfdisk --quiet '"+file+"'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			file := filepath.Join(t.TempDir(), "filled")
			must(t, os.WriteFile(file, nil, 0o600))
			must(t, os.Truncate(file, 48<<20))
			fill(t, file)
			d := diskOf(t, "notblank", file)
			before := sum(t, d.file)
			g := newTarget(t, "notblank", []string{portal1}, d)
			vol := n.volume("u1", pv("pv", g, 0))
			err := vol.up()
			if err == nil {
				t.Error("it is mounted")
			}
			t.Log(err)
			must(t, vol.down())
			n.same(n.begin)
			if sum(t, d.file) != before {
				t.Error("its content has changed")
			}
		})
	}
}

func sum(t *testing.T, file string) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return sha256.Sum256(data)
}

// TestKernelBlock: a pod gets a LUN as a block device.
func TestKernelBlock(t *testing.T) {
	n := newNode(t)
	d := newDisk(t, "block")
	g := newTarget(t, "block", []string{portal1}, d)
	v := pv("pv", g, 0)
	v.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	vol := n.volume("u1", v)
	if !vol.publish.Device {
		t.Fatal("it isn't a device")
	}
	must(t, vol.up())
	must(t, n.CheckDevice(vol.publish))
	device, err := os.OpenFile(vol.publish.Dir, os.O_RDWR, 0)
	must(t, err)
	_, err = device.WriteAt([]byte("data of the pod"), 4096)
	must(t, errors.Join(err, device.Sync(), device.Close()))
	content, err := os.ReadFile(d.file)
	must(t, err)
	if !bytes.Equal(content[4096:4111], []byte("data of the pod")) {
		t.Error("the target hasn't what was written")
	}
	n.restart()
	must(t, n.CheckDevice(vol.publish))
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelMultipath: with multipathd, a volume with two portals has a session for each, and one device.
func TestKernelMultipath(t *testing.T) {
	n := newNode(t)
	must(t, os.WriteFile("/etc/multipath.conf", []byte("defaults {\n\tfind_multipaths no\n\tuser_friendly_names no\n\tdetect_prio no\n"+
		"\tpath_grouping_policy multibus\n\thardware_handler \"0\"\n\tdetect_checker no\n\tpath_checker readsector0\n}\n"), 0o600))
	t.Cleanup(func() { check(t, os.Remove("/etc/multipath.conf")) })
	g := newTarget(t, "paths", []string{portal1, portal3}, newDisk(t, "paths"))
	command(t, "multipathd")
	t.Cleanup(func() { command(t, "multipathd", "shutdown") })
	v := pv("pv", g, 0)
	v.Spec.ISCSI.Portals = []string{portal3}
	vol := n.volume("u1", v)
	must(t, vol.up())
	vol.write("file", "data")
	out, _ := try("multipath", "-ll")
	t.Log(out)
	if got := len(disks(t)); got != 2 {
		t.Errorf("%d disks", got)
	}
	must(t, vol.down())
	n.same(n.begin)
}
