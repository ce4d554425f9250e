package iscsi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// offers has the target of the first portal offer another logical unit than a disk: a CD-ROM, or one without a block device. It
// appears with the session.
func (m *machine) offers(lun int, kind, block string, number uint64) (unit string) {
	m.t.Helper()
	at := fmt.Sprintf("session1/target1:0:0/1:0:0:%d", lun)
	unit = m.path("down", portal1, at)
	char := filepath.Join(unit, "scsi_generic", "sg7")
	for _, dir := range []string{char, filepath.Join(unit, "block")} {
		must(m.t, os.MkdirAll(dir, 0o750))
	}
	must(m.t, os.WriteFile(filepath.Join(unit, "type"), []byte(kind+"\n"), 0o600))
	// The number of /dev/null.
	must(m.t, os.WriteFile(filepath.Join(char, "dev"), []byte("1:3\n"), 0o600))
	if block != "" {
		dir := filepath.Join(unit, "block", block)
		must(m.t, os.MkdirAll(dir, 0o750))
		must(m.t, os.WriteFile(filepath.Join(dir, "dev"), fmt.Appendf(nil, "%d:%d\n", unix.Major(number), unix.Minor(number)), 0o600))
		must(m.t, os.Symlink(m.path("sys/devices/host1", at, "block", block), m.path("sys/block", block)))
		must(m.t, unix.Mknod(m.path("dev", block), unix.S_IFBLK|0o600, int(number)))
	}
	m.attribute(filepath.Join(unit, "delete"), func(string) {
		m.deletes = append(m.deletes, block)
		if block != "" {
			os.Remove(m.path("sys/block", block))
			os.Remove(m.path("dev", block))
		}
		os.RemoveAll(m.path("sys/devices/host1", at))
	})
	return m.path("sys/devices/host1", at)
}

// TestNoDisk: a logical unit that isn't a disk is refused, and removed with its session.
func TestNoDisk(t *testing.T) {
	for _, tc := range []struct{ name, kind, block, want string }{
		{"a CD-ROM", "5", "sr0", "the SCSI type 5"},
		{"a disk of another name", "0", "vdz", "not one disk"},
		{"a tape", "1", "", "the SCSI type 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 1)
			var st unix.Stat_t
			must(t, unix.Stat(b.luns[1], &st))
			// No process of this machine has this device.
			number := filepath.Join(b.offers(5, tc.kind, tc.block, st.Rdev), "scsi_generic/sg7/dev")
			must(t, os.WriteFile(b.path("down", portal1, "session1/target1:0:0/1:0:0:5/scsi_generic/sg7/dev"), []byte("250:77\n"), 0o600))
			v := b.persistent("u1", pv(5), false)
			err := b.Stage(t.Context(), v.Staging)
			if storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), tc.want) || exists(number) {
				t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
			}
			b.nothing()
		})
	}
}

// TestUnitInUse: a logical unit of which a process has a character device open stays.
func TestUnitInUse(t *testing.T) {
	b := newBench(t, 1)
	var st unix.Stat_t
	must(t, unix.Stat(b.luns[1], &st))
	unit := b.offers(5, "5", "sr0", st.Rdev)
	null, err := os.Open(os.DevNull) // The process of this test isn't the helper.
	must(t, err)
	defer null.Close()
	v := b.persistent("u1", pv(5), false)
	err = b.Stage(t.Context(), v.Staging)
	if storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), "the disk sg7 is in use") || !exists(unit) {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	if err := b.Unstage(t.Context(), v.Staging); err == nil || !exists(unit) || !b.hasSession(portal1) {
		t.Errorf("error %v", err)
	}
	must(t, os.WriteFile(filepath.Join(unit, "scsi_generic/sg7/dev"), []byte("250:77\n"), 0o600))
	must(t, b.Unstage(t.Context(), v.Staging))
	b.nothing()
}

// TestSweep: a session that was left, as the machine used it, ends when it doesn't, also after a restart.
func TestSweep(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBench(t, 1)
		v := b.persistent("u1", pv(1), false)
		unit := b.offers(6, "1", "", 0)
		b.up(v)
		b.down(v)
		if !b.hasSession(portal1) || !b.hasNode(portal1) {
			t.Fatal("the session of a tape that may be in use is ended")
		}
		must(t, os.RemoveAll(unit))
		if restart {
			b.start("boot")
		} else {
			b.sweepOnce(t.Context())
		}
		waitFor(t, func() bool { all, _ := b.records.list(); return len(all) == 0 })
		b.nothing()
	}
}
