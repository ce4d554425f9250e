package iscsi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// mounter puts a mount(8) first in PATH that runs the script instead. $MOUNT is the real one.
func mounter(t *testing.T, script string) {
	t.Helper()
	mount, err := exec.LookPath("mount")
	must(t, err)
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "mount"), []byte("#!/bin/sh\nMOUNT="+mount+"\n"+script+"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// TestNodesFileSystem: a pod never gets a file system of the node by its fsType, for which the kernel ignores the disk.
func TestNodesFileSystem(t *testing.T) {
	b := newBench(t, 1)
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", b.luns[1]).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	for _, readOnly := range []bool{false, true} {
		for _, fsType := range []string{"proc", "sysfs", "devtmpfs", "debugfs", "tmpfs", "mqueue", "cgroup2", "xfs", "nonesuch"} {
			v := b.persistent("u1", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.FSType = fsType }), readOnly)
			err := b.Stage(t.Context(), v.Staging)
			if storage.OutcomeOf(err) != storage.Final ||
				!strings.Contains(err.Error(), "isn't on a disk") && !strings.Contains(err.Error(), `the disk is "ext4"`) {
				t.Errorf("%s, read-only %v: %v (outcome %d)", fsType, readOnly, err, storage.OutcomeOf(err))
			}
			b.nothing()
		}
	}
	// One driver mounts ext2 to ext4.
	if out, err := exec.Command("mkfs.ext2", "-q", "-F", b.luns[1]).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	for _, fsType := range []string{"", "auto"} {
		v := b.persistent("u1", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.FSType = fsType }), false)
		b.up(v)
		b.down(v)
		b.nothing()
	}
}

// TestOtherMount: what is mounted must be the disk, whatever mount(8) has mounted. It is unmounted otherwise, and no pod gets it.
func TestOtherMount(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	mounter(t, `for at; do :; done; $MOUNT -t proc "`+b.path("dev/sda")+`" "$at"`)
	if err := b.Stage(t.Context(), v.Staging); storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), "and not the disk") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	b.nothing()
	// One that follows the disk's.
	t.Setenv("PATH", strings.SplitN(os.Getenv("PATH"), ":", 2)[1])
	must(t, b.Stage(t.Context(), v.Staging))
	if out, err := exec.Command("mount", "-t", "proc", b.path("dev/sda"), args.target()).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	for _, err := range []error{b.Stage(t.Context(), v.Staging), b.Publish(t.Context(), v.pub)} {
		if err == nil || !strings.Contains(err.Error(), "and not the disk") {
			t.Errorf("error %v", err)
		}
	}
	b.down(v)
	b.nothing()
}

// TestSessionEndsDuringMount: a disk whose session ends while it is mounted isn't the volume's any more, and is unmounted.
func TestSessionEndsDuringMount(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	away := b.path("away")
	session := b.path("sys/class/iscsi_session/session1")
	mounter(t, `$MOUNT "$@" && mv "`+session+`" "`+away+`"`)
	err := b.Stage(t.Context(), v.Staging)
	if err == nil || !strings.Contains(err.Error(), "isn't logical unit 1 of the sessions") {
		t.Errorf("error %v", err)
	}
	table, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	if strings.Contains(string(table), args.target()) {
		t.Error("it is mounted")
	}
	must(t, os.Rename(away, session))
	_ = b.Unstage(t.Context(), v.Staging)
}
