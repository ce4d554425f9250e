package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// An unreadable store is set aside, with an error in the log; pods are read again, and running ones are not affected.
func TestG6DamagedStoreIsSetAside(t *testing.T) {
	t.Parallel()
	for _, damage := range []struct {
		name, aside string
		do          func(path string) error
	}{
		{"truncated", "damaged", func(path string) error { return os.Truncate(path, 10_000) }},
		{"empty", "damaged", func(path string) error { return os.Truncate(path, 0) }},
		{"garbage", "damaged", func(path string) error {
			noise := make([]byte, 64<<10)
			_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
			return os.WriteFile(path, noise, 0o600)
		}},
		{"newer version", "version-99", claimVersion99},
	} {
		t.Run(damage.name, func(t *testing.T) {
			t.Parallel()
			k := newKeeping(t, startNode(t, devnode.Sim), nil, "web", "side")
			check(t, k.Podconfigd.Kill())
			check(t, damage.do(k.store()))
			check(t, k.Podconfigd.Start())
			k.resumes("the damage")
			k.unharmed("the damage", "web", "side")
			k.same("the damage", false, "web", "side")
			k.awaitStore(podconfigv1.StoreState_STORE_STATE_DURABLE)
			check(t, fileContains(k.Podconfigd.LogPath, `level=ERROR msg="the store can't be used and was set aside; a new one takes its place`))
			if aside, err := filepath.Glob(k.store() + "." + damage.aside + "-*"); err != nil || len(aside) != 1 {
				t.Errorf("set aside as %s: %v, %v; want one file", damage.aside, aside, err)
			}
			// The new store survives a restart like any other store.
			check(t, k.Podconfigd.Kill())
			check(t, k.Podconfigd.Start())
			k.resumes("a restart with the new store", "ADD")
			k.same("a restart with the new store", true, "web", "side")
		})
	}
}

// claimVersion99 marks the store as written by a later version.
func claimVersion99(path string) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bbolt.Tx) error {
		sum := crc32.Checksum([]byte("format99"), crc32.MakeTable(crc32.Castagnoli))
		return tx.Bucket([]byte("head")).Put([]byte("format"), append(binary.BigEndian.AppendUint32(nil, sum), "99"...))
	})
}

// If the store can't be written, from the start or later, podconfigd serves from memory and reports that
// everywhere; the pods are not affected. Once the store can be written, podconfigd writes it, under the former
// instance ID (G6).
func TestG6UnwritableStoreIsServedFromMemory(t *testing.T) {
	t.Parallel()
	needsRoot(t, "fill a disk of one's own", "TestG6")
	// The disk has room for the store and a few pods.
	disk := func(t *testing.T, dir string) {
		check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"))
		t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	}
	fill := func(t *testing.T, k *keeping) (mend func()) {
		path := k.Path("podconfigd", "filler")
		err := os.WriteFile(path, make([]byte, 4<<20), 0o600)
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("fill the disk: %v; want it full", err)
		}
		return func() { check(t, os.Remove(path)) }
	}
	protect := func(t *testing.T, k *keeping) (mend func()) {
		check(t, setImmutable(k.store(), true))
		mend = func() { check(t, setImmutable(k.store(), false)) }
		t.Cleanup(mend)
		return mend
	}
	remount := func(t *testing.T, k *keeping) (mend func()) {
		dir := k.Path("podconfigd")
		check(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		return func() { check(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "")) }
	}
	for _, trouble := range []struct {
		name    string
		running bool
		prepare func(*testing.T, string)
		begin   func(*testing.T, *keeping) (mend func())
	}{
		{"full at the start", false, disk, fill},
		{"full while running", true, disk, fill},
		{"read-only at the start", false, nil, protect},
		{"read-only while running", true, nil, protect},
		{"in a read-only directory at the start", false, disk, remount},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			var prepare func(string)
			if trouble.prepare != nil {
				prepare = func(dir string) { trouble.prepare(t, dir) }
			}
			k := newKeeping(t, startNode(t, devnode.Sim), prepare, "web", "side")
			k.awaitStore(podconfigv1.StoreState_STORE_STATE_DURABLE)
			if !trouble.running {
				check(t, k.Podconfigd.Kill())
			}
			mend := trouble.begin(t, k)
			// The store doesn't have this pod, and the disk has no room for it.
			k.write("large.yaml", strings.Replace(manifest("large", "main: sleep"), "metadata:\n",
				"metadata:\n  annotations: {ballast: "+strings.Repeat("x", 200<<10)+"}\n", 1))
			if !trouble.running {
				check(t, k.Podconfigd.Start())
			}
			k.awaitRunning("large")
			k.remove("large.yaml")
			k.awaitStore(podconfigv1.StoreState_STORE_STATE_TEMPORARY)
			k.eventually("the log reports it", func() error {
				return fileContains(k.Podconfigd.LogPath, `level=ERROR msg="the store can't be used; podconfigd serves from memory`)
			})
			k.unharmed("the trouble with the store", "web", "side")
			durable, before := k.cursor, k.held
			k.same("the trouble with the store", false, "web", "side")
			mend()
			k.awaitStore(podconfigv1.StoreState_STORE_STATE_DURABLE)
			// The consumer resumes from its state before the failure.
			k.cursor, k.held = durable, before
			k.same("the mending", true, "web", "side")
			check(t, k.Podconfigd.Kill())
			check(t, k.Podconfigd.Start())
			k.resumes("a restart with the mended store", "ADD")
			k.unharmed("a restart with the mended store", "web", "side")
			k.same("a restart with the mended store", true, "web", "side")
		})
	}
}

// setImmutable sets or clears the flag that forbids all writes to a file, also by processes that have it open.
func setImmutable(path string, on bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return fmt.Errorf("read the flags of %s: %w", path, err)
	}
	const immutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	flags &^= immutable
	if on {
		flags |= immutable
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
		return fmt.Errorf("set the flags of %s: %w", path, err)
	}
	return nil
}
