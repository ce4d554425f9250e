package podctl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/podstream/podstream/internal/roottest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestEditApplied: edit opens a private copy of the stored document, and applies what the editor leaves.
func TestEditApplied(t *testing.T) {
	w := newWriter(t)
	text := "# keep this\n" + manifestText("web", "v1")
	w.podctl("apply", "-f", w.file("web.yaml", text), "--set", "shop")
	w.editWith(fmt.Sprintf(`stat -c '%%a' "$1" "$(dirname "$1")" > %[1]s; cp "$1" %[2]s; echo "$1" > %[3]s; sed -i 's/"v1"/"v2"/' "$1"`,
		w.path("modes"), w.path("copy"), w.path("name")))
	w.wantParts([]string{"edit", "web"}, "pod default/web-node1 restarts", "-  - image: v1", "+  - image: v2", "pod/web configured\n")
	if got := w.desired("web"); got != "v2" {
		t.Errorf("the pod has the image %q; want v2", got)
	}
	if modes := w.read("modes"); modes != "600\n700\n" {
		t.Errorf("the copy and its directory have the modes %q; want 600 and 700", modes)
	}
	if got := w.read("copy"); got != text {
		t.Errorf("the editor got %q; want the document as it was written", got)
	}
	if _, err := os.Stat(filepath.Dir(strings.TrimSpace(w.read("name")))); !os.IsNotExist(err) {
		t.Errorf("the copy is still there: %v", err)
	}
	w.editWith("exit 0")
	w.want("podctl: nothing was changed\n", "edit", "pod/web-node1")
	w.editWith("exit 3")
	w.wantParts([]string{"edit", "web"}, "nothing was applied: exit status 3\nexit code 1\n")
	w.editWith(`sed -i 's/name: web/name: other/' "$1"`)
	w.wantParts([]string{"edit", "web"}, "expected: the request doesn't change pod default/web\n", "the edited manifest is kept in ")
	w.editWith(`echo "{" > "$1"`)
	w.wantParts([]string{"edit", "web"}, "the edited manifest is kept in ")
	if got := w.desired("web"); got != "v2" {
		t.Errorf("after refused edits, the pod has the image %q; want v2", got)
	}
}

func (w *writer) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// TestEditMoved: if the document changes while it is edited, nothing is written, and the edited copy is kept.
func TestEditMoved(t *testing.T) {
	w := newWriter(t)
	w.podctl("apply", "-f", w.file("web.yaml", manifestText("web", "v1")))
	// The editor is podctl itself too: it applies another version meanwhile.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	meanwhile := w.file("meanwhile.yaml", manifestText("web", "meanwhile"))
	w.editWith(fmt.Sprintf(`%s=1 %s --podconfig-endpoint=unix://%s apply -f %s >&2 && sed -i 's/"v1"/"mine"/' "$1"`, asProgram, self, w.socket("podconfigd"), meanwhile))
	got := w.podctl("edit", "web")
	kept := regexp.MustCompile(`the edited manifest is kept in (\S+)`).FindStringSubmatch(got)
	if !strings.Contains(got, "pod default/web is another version by now") || !strings.Contains(got, "exit code 1") || kept == nil {
		t.Fatalf("podctl prints %q; want that the document has changed, and where the copy is", got)
	}
	text, err := os.ReadFile(kept[1])
	if err != nil || !strings.Contains(string(text), "mine") {
		t.Errorf("the kept copy is %q, %v; want the edited document", text, err)
	}
	if err := os.RemoveAll(filepath.Dir(kept[1])); err != nil {
		t.Fatal(err)
	}
	if got := w.desired("web"); got != "meanwhile" {
		t.Errorf("the pod has the image %q; want the one that was applied meanwhile", got)
	}
}

// TestEditFile: of a pod from a file, edit opens the file itself, and prints what was changed.
func TestEditFile(t *testing.T) {
	w := newWriter(t)
	path := w.file("manifests/two.yaml", manifestText("one", "v1")+"---\n# the second\n"+manifestText("web", "v1"))
	w.until(func() bool { return w.desired("web") == "v1" })
	w.editWith(`sed -i '/second/,$s/"v1"/"v2"/' "$1"; echo "$1" > ` + w.path("name"))
	w.want("--- D/manifests/two.yaml (before)\n+++ D/manifests/two.yaml (now)\n@@ -13,4 +13,4 @@\n   name: web\n spec:\n   containers:\n-  - {name: main, image: \"v1\"}\n"+
		"+  - {name: main, image: \"v2\"}\npodctl: the pod is at D/manifests/two.yaml:10\n", "edit", "web")
	if got := strings.TrimSpace(w.read("name")); got != path {
		t.Errorf("the editor got %s; want %s", got, path)
	}
	w.until(func() bool { return w.desired("web") == "v2" })
	w.editWith("exit 0")
	w.wantParts([]string{"edit", "web"}, "nothing was changed")
	w.want("podctl: podconfigd has no pod default/none\nexit code 1\n", "edit", "none")
	w.want("podctl: there is no applied configmap/none\nexit code 1\n", "edit", "configmap/none")
}

// TestEditWithOwnRights: a user that may see a pod, and may not write its file, doesn't edit it.
func TestEditWithOwnRights(t *testing.T) {
	roottest.Need(t, "another user")
	const other = 65533
	w := &writer{node: newNode(t)}
	w.file("manifests/web.yaml", manifestText("web", "v1"))
	w.launch("--allow-uid", fmt.Sprint(other))
	w.until(func() bool { return w.desired("web") == "v1" })
	if err := errors.Join(os.Chmod(w.dir, 0o755), os.Chmod(w.path("manifests"), 0o755)); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test's own binary may be in a directory that only root can enter.
	program := w.path("podctl")
	if err := exec.Command("cp", self, program).Run(); err != nil {
		t.Fatal(err)
	}
	edit := func(uid uint32) string {
		cmd := exec.Command(program, "--podconfig-endpoint=unix://"+w.socket("podconfigd"), "edit", "web")
		cmd.Env = []string{asProgram + "=1", "EDITOR=true", "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := edit(other); !strings.Contains(got, "permission denied; podctl edits it with your rights only") {
		t.Errorf("as another user, podctl prints %q; want that it may not", got)
	}
	if got := edit(0); !strings.Contains(got, "nothing was changed") {
		t.Errorf("as root, podctl prints %q; want that the editor has run", got)
	}
}

// TestEditElsewhere: edit opens nothing but a regular file on this machine.
func TestEditElsewhere(t *testing.T) {
	w := newWriter(t)
	w.file("manifests/web.yaml", manifestText("web", "v1"))
	w.until(func() bool { return w.desired("web") == "v1" })
	w.editWith("touch " + w.path("ran"))
	tool := newTool(Config{Getenv: func(string) string { return w.editor }})
	for name, tc := range map[string]struct{ source, origin, want string }{
		"a pod of the API server":   {"api", "default/web", "use kubectl edit"},
		"a pod of a URL":            {"http:site", "https://site/web", "edit it there"},
		"a pod of a relay":          {"relay", "x", "edit it there"},
		"a relative path":           {"file", "manifests/web.yaml", "podconfigd names no file"},
		"a file that doesn't exist": {"file", w.path("none"), "no such file"},
		"a directory":               {"file", w.path("manifests"), "isn't a regular file"},
		"a device":                  {"file", "/dev/null", "isn't a regular file"},
		"a file of the kernel":      {"file", "/proc/kmsg", "isn't a regular file"},
	} {
		if err := tool.editOrigin(t.Context(), originAt(tc.source, tc.origin)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
	if _, err := os.Stat(w.path("ran")); err == nil {
		t.Error("an editor has run")
	}
}

// TestEditReplaced: what the editor leaves in the file's place is read only if it is a regular file of a manifest's size.
func TestEditReplaced(t *testing.T) {
	w := &writer{node: newNode(t)}
	path := w.file("web.yaml", manifestText("web", "v1"))
	for name, tc := range map[string]struct{ script, want string }{
		"a large file": {`truncate -s 1T "$1"`, "at most"},
		"a FIFO":       {`rm "$1" && mkfifo "$1"`, "isn't a regular file"},
		"a device":     {`rm "$1" && ln -s /dev/zero "$1"`, "isn't a regular file"},
		"nothing":      {`rm "$1"`, "no such file"},
	} {
		w.file("web.yaml", manifestText("web", "v1"))
		w.editWith(tc.script)
		tool := newTool(Config{Getenv: func(string) string { return w.editor }})
		err := tool.editOrigin(t.Context(), originAt("file", path))
		if err == nil || !strings.Contains(err.Error(), "the file was edited") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

func originAt(source, origin string) *podconfigv1.PodOrigin {
	return &podconfigv1.PodOrigin{Source: source, Origin: origin}
}
