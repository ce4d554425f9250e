package podctl

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podstream/podstream/internal/podctl/web/webtest"
	"github.com/podstream/podstream/internal/roottest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestWeb: the command prints the file with the link, serves the page, and ends with its terminal.
func TestWeb(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{version: &podconfigv1.GetVersionResponse{Version: "v1"}})
	end := n.start("web")
	var link webtest.Link
	webtest.Await(t, "the link", nil, func() bool {
		_, path, _ := strings.Cut(n.stderr.String(), "file://")
		path, _, _ = strings.Cut(path, "\n")
		var ok bool
		link, ok = webtest.ReadLink(path)
		return ok
	})
	webtest.Open(t, link)
	if strings.Contains(n.stderr.String(), link.Ticket) {
		t.Errorf("the ticket is printed: %s", n.stderr.String())
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := end(); code != exitOK {
		t.Errorf("the exit code is %d", code)
	}
}

// TestWebUsage: mistakes in the flags.
func TestWebUsage(t *testing.T) {
	for args, want := range map[string]string{
		"web x": "takes flags only", "web --port=70000": "want a number from 0 to 65535", "web --idle-timeout=-1s": "want a time from 0",
		"web --recording=x --allow-exec": "nothing can be changed in a recording", "web -o json": "has no --output",
	} {
		if code, _, stderr := runAlone(strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %s; want %q", args, code, stderr, want)
		}
	}
	if code, _, stderr := runAlone("web", "--recording=/none"); code != exitFailed || !strings.Contains(stderr, "no such file") {
		t.Errorf("a recording that doesn't exist: %d, %s", code, stderr)
	}
}

// TestReadSourceFile: only regular files of the source's directory are read, without following links.
func TestReadSourceFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	source := filepath.Join(dir, "manifests")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := write("outside.yaml")
	if err := os.Symlink(outside, filepath.Join(source, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(source, "fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	inside := write("manifests/a.yaml")
	for path, want := range map[string]string{
		inside: "manifests/a.yaml", outside: "", filepath.Join(source, "link.yaml"): "", filepath.Join(source, "fifo.yaml"): "",
		source + "/../outside.yaml": "", "relative.yaml": "", "/etc/passwd": "",
	} {
		if got, err := readSourceFile(t.Context(), source, path); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if got, err := readSourceFile(t.Context(), inside, inside); err != nil || string(got) != "manifests/a.yaml" {
		t.Errorf("a source that is one file: %q, %v", got, err)
	}
}

// TestHandoverDirectory: the link is made in the user's own runtime directory, and not in that of another user.
func TestHandoverDirectory(t *testing.T) {
	roottest.Need(t, "a directory of another user")
	const user = 12345
	dir := t.TempDir()
	tool := newTool(Config{Getenv: func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[name] }})
	if got, owner := tool.handover(); got != dir || owner != -1 {
		t.Errorf("the directory is %s, of user %d; want %s", got, owner, dir)
	}
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	if got, owner := tool.handover(); got != os.TempDir() || owner != -1 {
		t.Errorf("with another user's runtime directory, the directory is %s, of user %d; want %s", got, owner, os.TempDir())
	}
}
