//go:build iscsiguest

package iscsi_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

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
			file := newFile(t, 48<<20)
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
