//go:build iscsiguest

package iscsi_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lio is the directory of the kernel's target.
const lio = "/sys/kernel/config/target"

// disk is a LUN's backstore: a file.
type disk struct{ name, file string }

// newDisk makes a backstore without content, until the test's end.
func newDisk(t *testing.T, name string) *disk {
	t.Helper()
	return diskOf(t, name, newFile(t, 48<<20))
}

// newFile returns a file without content.
func newFile(t *testing.T, size int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, size))
	return file
}

// diskOf makes a backstore of a file.
func diskOf(t *testing.T, name, file string) *disk {
	t.Helper()
	info, err := os.Stat(file)
	must(t, err)
	d := &disk{name: name, file: file}
	dir := d.dir()
	must(t, os.MkdirAll(dir, 0o755))
	t.Cleanup(func() { check(t, os.Remove(dir)) })
	set(t, filepath.Join(dir, "control"), fmt.Sprintf("fd_dev_name=%s,fd_dev_size=%d", file, info.Size()))
	set(t, filepath.Join(dir, "wwn/vpd_unit_serial"), fmt.Sprintf("%x", name))
	set(t, filepath.Join(dir, "enable"), "1")
	return d
}

func (d *disk) dir() string { return filepath.Join(lio, "core/fileio_0", d.name) }

// target is a target with disks as its LUNs 0, 1 and so on.
type target struct {
	t       *testing.T
	iqn     string
	portals []string
}

// newTarget makes a target that everyone may log in to, until the test's end.
func newTarget(t *testing.T, name string, portals []string, disks ...*disk) *target {
	t.Helper()
	g := &target{t: t, iqn: "iqn.2026-11.example:" + name, portals: portals}
	group := g.group()
	must(t, os.MkdirAll(group, 0o755))
	t.Cleanup(func() {
		check(t, os.Remove(group))
		check(t, os.Remove(filepath.Dir(group)))
	})
	for i, d := range disks {
		lun := filepath.Join(group, "lun", fmt.Sprintf("lun_%d", i))
		must(t, os.Mkdir(lun, 0o755))
		must(t, os.Symlink(d.dir(), filepath.Join(lun, d.name)))
		t.Cleanup(func() {
			check(t, os.Remove(filepath.Join(lun, d.name)))
			check(t, os.Remove(lun))
		})
	}
	for _, portal := range portals {
		at := filepath.Join(group, "np", portal)
		must(t, os.Mkdir(at, 0o755))
		t.Cleanup(func() { check(t, os.Remove(at)) })
	}
	for name, value := range map[string]string{
		"authentication": "0", "generate_node_acls": "1", "cache_dynamic_acls": "1", "demo_mode_write_protect": "0",
	} {
		set(t, filepath.Join(group, "attrib", name), value)
	}
	g.enable(true)
	// This ends its sessions.
	t.Cleanup(func() { g.enable(false) })
	return g
}

func (g *target) group() string { return filepath.Join(lio, "iscsi", g.iqn, "tpgt_1") }

// enable lets the target accept logins, or ends its sessions and refuses logins.
func (g *target) enable(on bool) {
	g.t.Helper()
	value := "0"
	if on {
		value = "1"
	}
	set(g.t, filepath.Join(g.group(), "enable"), value)
}

// chap lets in only initiators with this name and secret. With nameIn, they ask for the target's too.
func (g *target) chap(name, secret, nameIn, secretIn string) {
	g.t.Helper()
	set(g.t, filepath.Join(g.group(), "attrib/authentication"), "1")
	auth := filepath.Join(g.group(), "auth")
	set(g.t, filepath.Join(auth, "userid"), name)
	set(g.t, filepath.Join(auth, "password"), secret)
	if nameIn != "" {
		set(g.t, filepath.Join(auth, "userid_mutual"), nameIn)
		set(g.t, filepath.Join(auth, "password_mutual"), secretIn)
	}
}

// only lets in the initiator of that name, and no other.
func (g *target) only(initiator string) {
	g.t.Helper()
	set(g.t, filepath.Join(g.group(), "attrib/generate_node_acls"), "0")
	acl := filepath.Join(g.group(), "acls", initiator)
	must(g.t, os.Mkdir(acl, 0o755))
	g.t.Cleanup(func() { check(g.t, os.Remove(acl)) })
	luns, err := filepath.Glob(filepath.Join(g.group(), "lun/lun_*"))
	must(g.t, err)
	for _, lun := range luns {
		mapped := filepath.Join(acl, filepath.Base(lun))
		must(g.t, os.Mkdir(mapped, 0o755))
		must(g.t, os.Symlink(lun, filepath.Join(mapped, "lun")))
		g.t.Cleanup(func() {
			check(g.t, os.Remove(filepath.Join(mapped, "lun")))
			check(g.t, os.Remove(mapped))
		})
	}
}

// sessions returns the number of sessions of the target's dynamic initiators.
func (g *target) sessions() int {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.group(), "dynamic_sessions"))
	must(g.t, err)
	return len(strings.Fields(strings.ReplaceAll(string(data), "\x00", " ")))
}

// drop makes packets to and from a portal disappear, until the test's end or until the returned function is called.
func drop(t *testing.T, portal string) (restore func()) {
	t.Helper()
	host, port, _ := strings.Cut(portal, ":")
	command(t, "nft", "add table ip dropped; "+
		"add chain ip dropped in { type filter hook input priority 0; }; "+
		fmt.Sprintf("add rule ip dropped in ip daddr %s tcp dport %s drop; ", host, port)+
		fmt.Sprintf("add rule ip dropped in ip saddr %s tcp sport %s drop", host, port))
	done := false
	restore = func() {
		if !done {
			done = true
			command(t, "nft", "delete table ip dropped")
		}
	}
	t.Cleanup(restore)
	return restore
}

// set writes a file of configfs. A line's end would be part of a name or a secret.
func set(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Errorf("%s in %s: %v", value, path, err)
	}
}

// command runs a program, and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// try is command for a program that may fail. It also runs when the test's context has ended.
func try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
