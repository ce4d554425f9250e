package inside

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLook compares the report of this process with what the test finds in other ways.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("INSIDE_TEST", "a=b")
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := Look(dir, "/no/such/file")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if r.UID != os.Getuid() || r.Hostname != host || r.Env["INSIDE_TEST"] != "a=b" || r.Namespaces["net"] == "" || r.Processes[os.Getpid()] == "" {
		t.Errorf("it found %+v", r)
	}
	for path, want := range map[string]File{
		filepath.Join(dir, "file"): {Kind: "file", Mode: "0640", UID: r.UID, GID: os.Getgid(), Size: 4, Content: "text", Writable: true},
		filepath.Join(dir, "link"): {Kind: "link", Mode: "0777", UID: r.UID, GID: os.Getgid(), Size: 4, Link: "file", Content: "text"},
		"/no/such/file":            {Kind: "missing"},
	} {
		if got := r.Files[path]; got != want {
			t.Errorf("%s is %+v; want %+v", path, got, want)
		}
	}
	if m := r.Mount("/proc"); m == nil || m.Type != "proc" || len(m.Options) == 0 {
		t.Errorf("/proc is %+v", m)
	}
	if _, ok := r.Interfaces["lo"]; !ok || len(r.Cgroup) == 0 {
		t.Errorf("interfaces %v, cgroups %v", r.Interfaces, r.Cgroup)
	}
}

func TestParseMount(t *testing.T) {
	got, err := parseMount(`36 35 98:0 /mnt1 /mnt\0402 rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue`)
	if err != nil || got.Point != "/mnt 2" || got.Root != "/mnt1" || got.Type != "ext3" || got.Propagation != "shared,master" ||
		!slices.Equal(got.Options, []string{"rw", "noatime"}) || !slices.Equal(got.Super, []string{"rw", "errors=continue"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseMount("36 35 98:0 / /"); err == nil || !strings.Contains(err.Error(), "isn't a mount") {
		t.Errorf("half a line: %v", err)
	}
}

func TestCapabilities(t *testing.T) {
	l := &looker{}
	if got := l.capabilities("0000020000000401"); !slices.Equal(got, []string{"41", "CHOWN", "NET_BIND_SERVICE"}) {
		t.Errorf("%v", got)
	}
	if l.capabilities("x"); len(l.Errors) == 0 {
		t.Error("no error for an invalid set")
	}
}
