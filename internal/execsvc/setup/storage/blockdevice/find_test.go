package blockdevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// loops are the attributes of loop devices in use, which take the place of this machine's. They have no files in /dev.
func loops(t *testing.T, all ...map[string]string) {
	t.Helper()
	wasDev, wasSys := devDir, sysBlock
	devDir, sysBlock = t.TempDir(), t.TempDir()
	t.Cleanup(func() { devDir, sysBlock = wasDev, wasSys })
	for n, attributes := range all {
		for name, value := range map[string]string{
			"ro": "1", "loop/autoclear": "0", "loop/offset": "0", "loop/sizelimit": "0", "loop/backing_file": "/mnt/share/image",
		} {
			if v, ok := attributes[name]; ok {
				value = v
			}
			file := filepath.Join(sysBlock, fmt.Sprintf("loop%d", n), name)
			must(t, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value+"\n"), 0o600))
		}
	}
}

// TestOthersLoopDevices: a loop device of another program isn't asked: its file may be on a server that doesn't answer, or is gone.
// It keeps no device from being held, found and released.
func TestOthersLoopDevices(t *testing.T) {
	const tag = "podstream-tag"
	mark := strconv.FormatUint(markOf(tag), 10)
	for name, attributes := range map[string]map[string]string{
		"a file on a share":          {},
		"writable":                   {"ro": "0", "loop/sizelimit": mark},
		"it goes with its last user": {"loop/autoclear": "1", "loop/sizelimit": mark},
		"a part of a file":           {"loop/offset": "512", "loop/sizelimit": mark},
		"another tag":                {"loop/sizelimit": strconv.FormatUint(markOf("podstream-other"), 10)},
		"the limit of a program":     {"loop/sizelimit": "4096"},
		"it has just been released":  {"loop/sizelimit": ""},
		"it can't be asked":          {"loop/backing_file": "/k/volumeDevices/publish/pv/u"},
	} {
		loops(t, attributes)
		own, earlier, err := mayHave(filepath.Join(sysBlock, "loop0"), tag)
		if err != nil || own || earlier && attributes["loop/backing_file"] == "" {
			t.Errorf("%s: it is asked for its tag: %v, %v, %v", name, own, earlier, err)
		}
		if n, is, err := Held(tag); is || err != nil {
			t.Errorf("%s: held: %v, %v, %v", name, n, is, err)
		}
		must(t, Release(tag))
	}
	loops(t, nil, map[string]string{"loop/sizelimit": mark})
	if _, is, err := Held(tag); is || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that has the mark, and can't be asked: %v, %v", is, err)
	}
	if err := Release(tag); err == nil {
		t.Error("what can't be asked counts as released")
	}
}

// TestUnreadableAttributes: a loop device of which nothing can be read may be the held one.
func TestUnreadableAttributes(t *testing.T) {
	loops(t, nil)
	limit := filepath.Join(sysBlock, "loop0", "loop", "sizelimit")
	must(t, os.Remove(limit), os.Mkdir(limit, 0o700)) // EISDIR
	if _, is, err := Held("podstream-tag"); is || err == nil {
		t.Errorf("held: %v, %v", is, err)
	}
	if err := Release("podstream-tag"); err == nil {
		t.Error("what can't be read counts as released")
	}
}

// TestMarks: a mark is a size limit that the kernel accepts, is larger than a device, and differs with the tag.
func TestMarks(t *testing.T) {
	a, b := markOf("podstream-a"), markOf("podstream-b")
	if a == b || a>>62 != 1 || b>>62 != 1 {
		t.Errorf("the marks are %x and %x", a, b)
	}
}

// TestHoldOfEarlierVersion: a device that an earlier podexecd holds, without a mark, is found and released.
func TestHoldOfEarlierVersion(t *testing.T) {
	device := roottest.LoopDevice(t)
	tag := fmt.Sprintf("earlier-%d", os.Getpid())
	backing, err := os.Open(device)
	must(t, err)
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	must(t, err)
	defer control.Close()
	t.Cleanup(func() { _ = Release(tag) })
	for n := 0; ; n++ {
		free, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		must(t, err)
		loop, err := os.Open(fmt.Sprintf("/dev/loop%d", free))
		must(t, err)
		config := unix.LoopConfig{Fd: uint32(backing.Fd())}
		config.Info.Flags = unix.LO_FLAGS_READ_ONLY
		copy(config.Info.File_name[:], tag)
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		must(t, loop.Close())
		if errors.Is(err, unix.EBUSY) && n < maxAttempts {
			continue // Another test has taken it.
		}
		must(t, err)
		break
	}
	var st unix.Stat_t
	must(t, unix.Stat(device, &st))
	if n, is, err := Held(tag); err != nil || !is || n != (Number{unix.Major(st.Rdev), unix.Minor(st.Rdev)}) {
		t.Errorf("held: %v, %v, %v", n, is, err)
	}
	must(t, Release(tag))
	if _, is, err := Held(tag); is || err != nil {
		t.Errorf("held after Release: %v, %v", is, err)
	}
}
