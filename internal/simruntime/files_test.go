package simruntime

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A path is resolved in its innermost mount, or in the container's own layer if no mount contains it.
func TestFiles(t *testing.T) {
	outer, inner := t.TempDir(), t.TempDir()
	f := newFiles([]*runtimeapi.Mount{
		{ContainerPath: "/data/inner/", HostPath: inner},
		{ContainerPath: "/data", HostPath: outer},
		{ContainerPath: "/config", HostPath: outer, Readonly: true},
		{ContainerPath: "/data/one", HostPath: filepath.Join(inner, "other-name")},
	})
	for name, host := range map[string]string{
		"/data/a":             filepath.Join(outer, "a"),
		"/data/inner/b":       filepath.Join(inner, "b"),
		"/data/one":           filepath.Join(inner, "other-name"),
		"/data/../data/c":     filepath.Join(outer, "c"),
		"data/inner/../../d/": "", // that is /d
		"/database":           "",
	} {
		if err := f.write(name, name); err != nil {
			t.Errorf("write %s: %v", name, err)
		}
		if content, err := f.read(name); err != nil || string(content) != name {
			t.Errorf("read %s: %q, %v", name, content, err)
		}
		if host == "" {
			continue
		}
		if content, err := os.ReadFile(host); err != nil || string(content) != name {
			t.Errorf("on the host: %q, %v", content, err)
		}
	}
	if content, err := f.read("/config/a"); err != nil || string(content) != "/data/a" {
		t.Errorf("the same file by another mount: %q, %v", content, err)
	}
	for err, want := range map[error]syscall.Errno{
		f.write("/config/a", "x"):         syscall.EROFS,
		f.write("/data/no/such/dir", "x"): syscall.ENOENT,
		second(f.read("/data/absent")):    syscall.ENOENT,
		second(f.read("/absent")):         syscall.ENOENT,
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		// The error doesn't contain a path of the host.
		if pathErr, ok := errors.AsType[*fs.PathError](err); !ok || strings.HasPrefix(pathErr.Path, outer) {
			t.Errorf("path in %v", err)
		}
	}
}

// Changes of a file have the same effect in a mount and in the container's own layer.
func TestFilesChange(t *testing.T) {
	f := newFiles([]*runtimeapi.Mount{
		{ContainerPath: "/data", HostPath: t.TempDir()},
		{ContainerPath: "/config", HostPath: t.TempDir(), Readonly: true},
	})
	for _, name := range []string{"/data/file", "/file"} {
		for i, step := range []struct {
			err  error
			want error
		}{
			{f.stat(name), syscall.ENOENT},
			{f.remove(name), syscall.ENOENT},
			{f.append(name, "one"), nil},
			{f.create(name), syscall.EEXIST},
			{f.append(name, " two"), nil},
			{f.stat(name), nil},
		} {
			if !errors.Is(step.err, step.want) {
				t.Errorf("%s, step %d: %v, want %v", name, i, step.err, step.want)
			}
		}
		if content, err := f.read(name); err != nil || string(content) != "one two" {
			t.Errorf("%s: %q, %v", name, content, err)
		}
		if err := errors.Join(f.write(name, "x"), f.remove(name), f.create(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if content, err := f.read(name); err != nil || len(content) > 0 {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
	for _, err := range []error{f.append("/config/x", "x"), f.create("/config/x"), f.remove("/config/x")} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("in a read-only mount: %v", err)
		}
	}
	if err := f.stat("/config"); err != nil {
		t.Errorf("a mounted directory: %v", err)
	}
}

func second(_ []byte, err error) error { return err }

// Logs are in the CRI format. A long line is split into parts, of which the last is marked full.
func TestContainerLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for range 2 { // the second one appends
		var l containerLog
		if err := l.open(path); err != nil {
			t.Fatal(err)
		}
		if err := l.write(now, runtimeapi.Stdout, "short", strings.Repeat("x", maxLogLine)+"yz"); err != nil {
			t.Error(err)
		}
		l.close()
		if err := l.write(now, runtimeapi.Stderr, "late"); err != nil {
			t.Errorf("write after close: %v", err)
		}
	}
	at := "2026-01-02T03:04:05.000000006Z stdout "
	once := at + "F short\n" + at + "P " + strings.Repeat("x", maxLogLine) + "\n" + at + "F yz\n"
	if content, err := os.ReadFile(path); err != nil || string(content) != once+once {
		t.Errorf("log %q, %v", content, err)
	}
}
