package kubeletapi

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// logTree returns a directory of logs, with a secret outside of it and links to the secret.
func logTree(t *testing.T) string {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "log")
	for path, text := range map[string]string{
		"secret": "secret", "log/syslog": "from syslog\n", "log/pods/ns_web_1/main/0.log": "from main\n", "log/kubelet.log": "from a file\n",
		"log/crio/crio.log": "from its directory\n", "log/..odd": "odd\n",
	} {
		at := filepath.Join(outer, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, at, text)
	}
	for link, target := range map[string]string{
		"containers/web.log": dir + "/pods/ns_web_1/main/0.log", "again": dir + "/containers/web.log", "relative": "syslog",
		"out": "../secret", "out-absolute": outer + "/secret", "out-dir": "..", "loop": dir + "/loop", "tricky": dir + "/../secret",
		"pods/out": "../../secret", "sibling": dir + "-other/secret", "root": "/",
	} {
		at := filepath.Join(dir, link)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLogFiles(t *testing.T) {
	dir := logTree(t)
	n := start(t, func(c *Config) { c.Debug.SystemLogs, c.Debug.LogDir = true, dir })
	for path, want := range map[string]string{
		"/logs/syslog": "from syslog\n", "/logs/relative": "from syslog\n", "/logs/containers/web.log": "from main\n", "/logs/again": "from main\n",
		"/logs/..odd": "odd\n",
	} {
		if status, text := n.get(path); status != http.StatusOK || text != want {
			t.Errorf("%s: %d %q; want %q", path, status, text, want)
		}
	}
	if status, text := n.get("/logs/"); status != http.StatusOK || !strings.Contains(text, `<a href="syslog">`) {
		t.Errorf("/logs/: %d %q", status, text)
	}
	if status, text := n.get("/logs/pods/"); status != http.StatusOK || !strings.Contains(text, `<a href="ns_web_1/">`) {
		t.Errorf("/logs/pods/: %d %q", status, text)
	}
	for _, path := range []string{
		"/logs/out", "/logs/out-absolute", "/logs/out-dir/secret", "/logs/loop", "/logs/tricky", "/logs/pods/out", "/logs/sibling", "/logs/pipe",
		"/logs/root/etc/passwd", "/logs/root", "/logs/nothing", "/logs/syslog/x", "/logs/..%2fsecret", "/logs/../secret", "/logs/%2e%2e/secret",
		"/logs/..%5csecret", "/logs/syslog%00",
	} {
		if status, text := n.get(path); status < 400 || strings.Contains(text, "secret") && !strings.Contains(text, "404") {
			t.Errorf("%s: %d %q", path, status, text)
		}
	}
	// If queries are disabled, their parameters are ignored.
	if status, text := n.get("/logs/syslog?query=kubelet"); status != http.StatusOK || text != "from syslog\n" {
		t.Errorf("a query of a file: %d %q", status, text)
	}
}

// A directory is listed in bounded memory: of a large one only the first entries, with a note. A small one is
// sorted.
func TestLogDirectories(t *testing.T) {
	dir := logTree(t)
	for _, name := range []string{"b:c", "a&<", "d e"} {
		if err := os.MkdirAll(filepath.Join(dir, "odd", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "large"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range maxListed + 1 {
		write(t, filepath.Join(dir, "large", fmt.Sprint(i)), "")
	}
	n := start(t, func(c *Config) { c.Debug.SystemLogs, c.Debug.LogDir = true, dir })
	want := "<a href=\"a&%3C/\">a&amp;&lt;/</a>\n<a href=\"./b:c/\">b:c/</a>\n<a href=\"d%20e/\">d e/</a>\n</pre>\n"
	if status, text := n.get("/logs/odd/"); status != http.StatusOK || !strings.HasSuffix(text, want) {
		t.Errorf("%d %q; want %q", status, text, want)
	}
	note := fmt.Sprintf("<p>Only %d entries are listed.</p>\n", maxListed)
	if status, text := n.get("/logs/large/"); status != http.StatusOK || strings.Count(text, "<a href=") != maxListed || !strings.HasSuffix(text, note) {
		t.Errorf("%d, %d entries; want %d and a note", status, strings.Count(text, "<a href="), maxListed)
	}
	if err := os.Remove(filepath.Join(dir, "large", "0")); err != nil {
		t.Fatal(err)
	}
	if _, text := n.get("/logs/large/"); strings.Count(text, "<a href=") != maxListed || strings.Contains(text, "Only") {
		t.Errorf("%d entries; want %d and no note", strings.Count(text, "<a href="), maxListed)
	}
	// Only the listing reads directories.
	f, err := logDir(dir).Open("large")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if entries, err := f.(fs.ReadDirFile).ReadDir(-1); err == nil {
		t.Errorf("%d entries are read at once", len(entries))
	}
}

// A file on which a container holds a lease doesn't block.
func TestLeasedLogFile(t *testing.T) {
	dir := logTree(t)
	n := start(t, func(c *Config) { c.Debug.SystemLogs, c.Debug.LogDir = true, dir })
	f, err := os.OpenFile(filepath.Join(dir, "syslog"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	if status, text := n.get("/logs/syslog"); status < 400 {
		t.Errorf("%d %q", status, text)
	}
}
