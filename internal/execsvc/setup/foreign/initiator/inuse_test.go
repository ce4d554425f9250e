package initiator

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestManyFiles: it takes long, and is no error, that the machine's processes have many open files. A disk is found among them.
func TestManyFiles(t *testing.T) {
	roottest.Need(t, "mknod")
	h := &Host{Sys: t.TempDir(), Dev: t.TempDir(), Proc: t.TempDir()}
	disks := []device{{"sda", "511:0", ""}}
	must(t, unix.Mknod(h.dev("sda"), unix.S_IFBLK|0o600, int(unix.Mkdev(511, 0))))
	dir(t, h.proc("7/fd"))
	for n := range 3 * filesAtOnce {
		must(t, os.Symlink("/dev/null", h.proc(fmt.Sprintf("7/fd/%d", n))))
	}
	if of, pid, err := h.openedBy(unix.S_IFBLK, disks); of != "" || pid != "" || err != nil {
		t.Errorf("%s, %s, %v", of, pid, err)
	}
	dir(t, h.proc("8/fd"))
	must(t, os.Symlink(h.dev("sda"), h.proc("8/fd/3")))
	if of, pid, err := h.openedBy(unix.S_IFBLK, disks); of != "sda" || pid != "8" || err != nil {
		t.Errorf("%s, %s, %v", of, pid, err)
	}
	was := filesLimit
	filesLimit = 0
	defer func() { filesLimit = was }()
	if _, _, err := h.openedBy(unix.S_IFBLK, disks); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("error %v", err)
	}
}
