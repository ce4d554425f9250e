package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const example = `# The nodes of the lab.
apiVersion: podstream.io/v1alpha1
kind: PodctlConfig
currentContext: local # for now
credentials:
- name: ops
  certFile: ops.crt
  keyFile: /keys/ops.key
  caFile: ca.crt
contexts:
- name: local # this machine
  podconfigEndpoint: /run/podstream/podconfigd.sock
  podexecEndpoint: /run/podstream/podexecd.sock
- name: "1e3"
  podconfigEndpoint: tcp://n1:1
  podexecEndpoint: tcp://n1:2
  credentials: ops
  tlsServerName: n1.example
- {name: gateway, podconfigEndpoint: "tcp://gw:1", credentials: ops}
`

// endpoint refuses what has no slash.
func endpoint(s string) error {
	if !strings.Contains(s, "/") {
		return errors.New("not an endpoint")
	}
	return nil
}

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "podctl.yaml")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	path := write(t, example, 0o644)
	file, err := Load(t.Context(), path, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(file.Names(), " "); got != "local 1e3 gateway" || file.CurrentContext != "local" {
		t.Errorf("contexts %s, current %s", got, file.CurrentContext)
	}
	c, credential, err := file.Context("1e3")
	if err != nil || c.PodexecEndpoint != "tcp://n1:2" || c.TLSServerName != "n1.example" ||
		credential != (Credential{"ops", filepath.Join(filepath.Dir(path), "ops.crt"), "/keys/ops.key", filepath.Join(filepath.Dir(path), "ca.crt")}) {
		t.Errorf("%+v, %+v, %v", c, credential, err)
	}
	if _, credential, err = file.Context("local"); err != nil || credential != (Credential{}) {
		t.Errorf("%+v, %v", credential, err)
	}
	if _, _, err = file.Context("none"); err == nil || !strings.Contains(err.Error(), `there is no context "none" in `+path+"; it has local, 1e3, gateway") {
		t.Errorf("%v", err)
	}
}

// What others can change, or isn't a regular file, is refused.
func TestRefused(t *testing.T) {
	link := func(t *testing.T, to string) string {
		path := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct {
		path func(*testing.T) string
		want string
	}{
		"the group may write":    {func(t *testing.T) string { return write(t, example, 0o620) }, "a group or others may write to it"},
		"others may write":       {func(t *testing.T) string { return write(t, example, 0o602) }, "a group or others may write to it"},
		"a link to one that may": {func(t *testing.T) string { return link(t, write(t, example, 0o666)) }, "a group or others may write to it"},
		"a directory":            {func(t *testing.T) string { return t.TempDir() }, "directory"},
		"a pipe": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "pipe")
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "pipe"},
		"a device":    {func(*testing.T) string { return "/dev/null" }, "device"},
		"none":        {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, "no such file"},
		"a large one": {func(t *testing.T) string { return write(t, example+strings.Repeat("#", maxSize), 0o600) }, "at most"},
		"a gigabyte": {func(t *testing.T) string {
			path := write(t, example, 0o600)
			if err := os.Truncate(path, 1<<30); err != nil {
				t.Fatal(err)
			}
			return path
		}, "at most"},
		"others may replace it":       {func(t *testing.T) string { return openDir(t, 0o777) }, "any user may replace files in"},
		"others may replace its file": {func(t *testing.T) string { return link(t, openDir(t, 0o777)) }, "any user may replace files in"},
	} {
		if _, err := Load(t.Context(), tc.path(t), endpoint); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
	if _, err := Load(t.Context(), link(t, write(t, example, 0o600)), endpoint); err != nil {
		t.Errorf("a link to a good file: %v", err)
	}
	if _, err := Load(t.Context(), openDir(t, 0o777|os.ModeSticky), endpoint); err != nil {
		t.Errorf("a good file in a directory such as /tmp: %v", err)
	}
}

// openDir returns a good file in a directory with that mode.
func openDir(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := write(t, example, 0o600)
	if err := os.Chmod(filepath.Dir(path), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBombs: a file of at most 1 MiB that would need much more memory or time is an error, and needs little of both.
func TestBombs(t *testing.T) {
	const head = "apiVersion: podstream.io/v1alpha1\nkind: PodctlConfig\n"
	aliases := head + "x0: &x0 [a,a,a,a,a,a,a,a,a,a]\n"
	merges := head + "m0: &m0 {a: b}\n"
	for i := range 30 {
		aliases += fmt.Sprintf("x%d: &x%d [%s*x%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*x%d,", i), 9), i)
		merges += fmt.Sprintf("m%d: &m%d {<<: [%s*m%d]}\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*m%d,", i), 9), i)
	}
	for name, text := range map[string]string{
		"aliases": aliases, "merges": merges,
		"depth":    head + "x: " + strings.Repeat("[", 500_000),
		"mappings": head + "x: " + strings.Repeat("{a: ", 200_000),
		"keys":     head + "? " + strings.Repeat("? ", 400_000),
		"anchors":  head + "x: " + strings.Repeat("&a ", 300_000),
		"fields":   head + strings.Repeat("a", 500_000) + ": 1\n",
	} {
		path := write(t, text, 0o600)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load(t.Context(), path, endpoint)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		const limit = 1 << 30 // All that is allocated, also what was freed.
		if used := after.TotalAlloc - before.TotalAlloc; used > limit {
			t.Errorf("%s: %d bytes are allocated; want at most %d", name, used, limit)
		}
	}
}

// A file of another user is refused, and root's isn't.
func TestOwner(t *testing.T) {
	f, err := os.Open(write(t, example, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	own := os.Geteuid()
	for _, tc := range []struct {
		caller int
		good   bool
	}{{own, true}, {own + 1, own == 0}} {
		if err := checkOwner(f, tc.caller); (err == nil) != tc.good {
			t.Errorf("user %d reads a file of %d: %v", tc.caller, own, err)
		}
	}
	if own != 0 {
		t.Skip("only root can give a file away")
	}
	if err := f.Chown(1234, 0); err != nil {
		t.Fatal(err)
	}
	for caller, good := range map[int]bool{1234: true, 0: false, 1235: false} {
		if err := checkOwner(f, caller); (err == nil) != good {
			t.Errorf("user %d reads a file of 1234: %v", caller, err)
		}
	}
}

func TestContent(t *testing.T) {
	const head = "apiVersion: podstream.io/v1alpha1\nkind: PodctlConfig\n"
	const one = head + "contexts:\n- {name: a, podconfigEndpoint: /a}\n"
	for text, want := range map[string]string{
		"":                          "the file is empty",
		"kind: PodctlConfig\n":      "want apiVersion: podstream.io/v1alpha1",
		one + "---\n" + one:         "want one document",
		one + "users: []\n":         `unknown field "users"`,
		one + "CurrentContext: a\n": `unknown field "CurrentContext"`,
		one + "contexts: []\n":      "already",
		head + "contexts:\n- {name: a, podconfigEndpoint: /a, exec: {command: sh}}\n":                                     `unknown field "contexts[0].exec"`,
		head + "contexts:\n- {name: A/b, podconfigEndpoint: /a}\n":                                                        `"A/b" isn't a name`,
		head + "contexts:\n- {podconfigEndpoint: /a}\n":                                                                   `"" isn't a name`,
		head + "contexts:\n- {name: a}\n":                                                                                 "a has neither podconfigEndpoint nor podexecEndpoint",
		head + "contexts:\n- {name: a, podexecEndpoint: localhost}\n":                                                     "contexts[0].podexecEndpoint: localhost: not an endpoint",
		head + "contexts:\n- {name: a, podexecEndpoint: /a, credentials: x}\n":                                            "there are no credentials x",
		head + "contexts:\n- {name: a, podexecEndpoint: /a}\n- {name: a, podexecEndpoint: /a}\n":                          "there are two contexts a",
		head + "contexts: []\ncredentials:\n- {name: a, certFile: c}\n":                                                   "no keyFile",
		head + "contexts: []\ncredentials:\n- {name: a, certFile: c, keyFile: k}\n- {name: a, certFile: c, keyFile: k}\n": "there are two credentials a",
		"\x00":       "control characters",
		"- a\n":      "cannot unmarshal",
		"a: &a [*a]": "",
	} {
		path := write(t, text, 0o600)
		if _, err := Load(t.Context(), path, endpoint); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if _, err := Load(t.Context(), write(t, one, 0o600), endpoint); err != nil {
		t.Error(err)
	}
}

// Use replaces the whole file, keeps comments, and lets only the owner read it.
func TestUse(t *testing.T) {
	path := write(t, example, 0o644)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Use(t.Context(), link, "1e3", endpoint); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(example, "currentContext: local", `currentContext: "1e3"`, 1)
	if got := strings.ReplaceAll(string(data), "  ", ""); got != strings.ReplaceAll(want, "  ", "") {
		t.Errorf("the file is\n%s", data)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	if info, err = os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if file, err := Load(t.Context(), path, endpoint); err != nil || file.CurrentContext != "1e3" {
		t.Errorf("%+v, %v", file, err)
	}
	if err := Use(t.Context(), path, "none", endpoint); err == nil || !strings.Contains(err.Error(), `there is no context "none"`) {
		t.Error(err)
	}
	// A file without a current context gets one; one that can't be used isn't changed.
	path = write(t, strings.Replace(example, "currentContext: local # for now\n", "", 1), 0o600)
	if err := Use(t.Context(), path, "gateway", endpoint); err != nil {
		t.Fatal(err)
	}
	if file, err := Load(t.Context(), path, endpoint); err != nil || file.CurrentContext != "gateway" {
		t.Errorf("%+v, %v", file, err)
	}
	path = write(t, example, 0o666)
	if err := Use(t.Context(), path, "gateway", endpoint); err == nil {
		t.Error("a file that others may write is used")
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != example {
		t.Errorf("%s, %v", data, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
		t.Errorf("files stay: %v, %v", left, err)
	}
}
