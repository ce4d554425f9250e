package podctl

import (
	"os"
	"syscall"
	"testing"
)

// TestApply: root writes pods with podctl to a podconfigd, changes them, prunes them and removes them.
func TestApply(t *testing.T) {
	w := newWriter(t)
	conf := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
	f := w.file("web.yaml", manifestText("web", "v1")+"---\n"+conf)
	w.want("pod/web created (server dry run)\nconfigmap/conf created (server dry run)\n", "apply", "-f", f, "--dry-run")
	w.want("pod/web created (dry run)\nconfigmap/conf created (dry run)\n", "apply", "-f", f, "--dry-run=client")
	if got := w.desired("web"); got != "" {
		t.Errorf("after the dry run, the pod has the image %q", got)
	}
	w.want("pod/web created\nconfigmap/conf created\n", "apply", "-f", f)
	w.want("pod/web unchanged\nconfigmap/conf unchanged\n", "apply", "-f", f)
	if got := w.desired("web"); got != "v1" {
		t.Errorf("the pod has the image %q; want v1", got)
	}
	f = w.file("web.yaml", manifestText("web", "v2"))
	w.wantParts([]string{"apply", "-f", f, "--diff", "--dry-run=server"}, "pod default/web-node1 restarts", "-  - image: v1", "+  - image: v2", "pod/web configured (server dry run)\n")
	w.want("pod/web configured\nconfigmap/conf pruned\n", "apply", "-f", f, "--prune")
	w.wantParts([]string{"apply", "-f", f, "-o", "json"}, `"action": "MANIFEST_ACTION_UNCHANGED"`, `"revision": `)
	w.want("pod/web pruned\n", "apply", "--prune", "--allow-empty")
	w.want("pod/web created\n", "apply", "-f", f, "--set", "two")
	w.stdin = manifestText("in", "v1")
	w.want("pod/in created\n", "apply", "-f", "-")
	w.want("pod \"in\" deleted from default namespace\npod \"web\" deleted from default namespace\n", "delete", "in", "pod/web")
	if pods := w.listDesired(); len(pods) > 0 {
		t.Errorf("left are %v", pods)
	}
}

// TestApplyFails: a write that is refused says why, with a line for each problem, and changes nothing.
func TestApplyFails(t *testing.T) {
	w := newWriter(t)
	w.file("manifests/file.yaml", "# mine\n"+manifestText("file", "v1"))
	w.until(func() bool { return w.desired("file") == "v1" })
	for _, tc := range []struct {
		text, want string
		args       []string
	}{
		{"{\n---\n" + manifestText("../x", "v1"), "podctl: D/f.yaml:1: line 1: ", nil},
		{"{\n---\n" + manifestText("../x", "v1"), "\npodctl: D/f.yaml:3: metadata.name: ", nil},
		{manifestText("new", "v1") + "---\n" + manifestText("file", "v2"),
			"podctl: D/f.yaml:9: pod default/file is taken by the pod of D/manifests/file.yaml:2 (source file); remove it there first\nexit code 1\n", nil},
		{"", "podctl: D/f.yaml:1: it has no document\nexit code 1\n", nil},
		{manifestText("new", "v1"), `set: "No" isn't the name of a set`, []string{"--set", "No"}},
	} {
		f := w.file("f.yaml", tc.text)
		w.wantParts(append([]string{"apply", "-f", f}, tc.args...), tc.want)
	}
	w.want("podctl: stat D/none: no such file or directory\nexit code 1\n", "apply", "-f", w.path("none"))
	w.want("podctl: pod default/file-node1 is from D/manifests/file.yaml:2 (source file); remove it there\nexit code 1\n", "delete", "file")
	w.want("podctl: there is no applied pod default/none\nexit code 1\n", "delete", "none")
	w.want("pod/none not found\n", "delete", "none", "--ignore-not-found")
	if pods := w.listDesired(); len(pods) != 1 || pods[0].Name != "file-node1" {
		t.Errorf("the pods are %v; want the file's only", pods)
	}
}

// TestApplyDirectories: of a directory the manifests are read, with -R also those below it; no hidden ones, and no link to a
// directory is followed.
func TestApplyDirectories(t *testing.T) {
	w := newWriter(t)
	w.file("d/a.yaml", manifestText("a", "v1"))
	w.file("d/b.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"main","image":"v1"}]}}`)
	w.file("d/c.txt", "no manifest")
	w.file("d/.hidden.yaml", "no manifest")
	w.file("d/.git/x.yaml", "no manifest")
	w.file("d/below/c.yml", manifestText("c", "v1"))
	w.file("elsewhere/d.yaml", manifestText("d", "v1"))
	if err := os.Symlink(w.path("elsewhere"), w.path("d/link")); err != nil {
		t.Fatal(err)
	}
	w.want("pod/a created\npod/b created\n", "apply", "-f", w.path("d"))
	w.want("pod/a unchanged\npod/b unchanged\npod/c created\n", "apply", "-R", "-f", w.path("d"))
	w.want("pod \"a\" deleted from default namespace\npod \"b\" deleted from default namespace\npod \"c\" deleted from default namespace\n", "delete", "-R", "-f", w.path("d"))
	w.mkdir("empty")
	w.want("podctl: D/empty has no .yaml, .yml or .json files\nexit code 1\n", "apply", "-f", w.path("empty"))
	w.want("podctl: D/empty and the directories in it have no .yaml, .yml or .json files\nexit code 1\n", "apply", "-R", "-f", w.path("empty"))
}

// TestApplySpecialFiles: a FIFO or a device in a directory, or a link to one, is an error: the read of a FIFO has no end, and
// nothing ends it but a kill.
func TestApplySpecialFiles(t *testing.T) {
	w := newWriter(t)
	for name, plant := range map[string]func(path string) error{
		"fifo":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"gone":   func(path string) error { return os.Symlink(w.path("gone"), path) },
	} {
		w.file(name+"/a.yaml", manifestText("a", "v1"))
		w.mkdir(name + "/below")
		if err := plant(w.path(name + "/below/b.yaml")); err != nil {
			t.Fatal(err)
		}
		w.wantParts([]string{"apply", "-f", w.path(name + "/below")}, "D/"+name+"/below/b.yaml", "exit code 1\n")
		w.wantParts([]string{"apply", "-R", "-f", w.path(name)}, "D/"+name+"/below/b.yaml", "exit code 1\n")
	}
	// A link to a manifest is one.
	w.file("links/a.yaml", manifestText("a", "v1"))
	if err := os.Symlink("a.yaml", w.path("links/b.yaml")); err != nil {
		t.Fatal(err)
	}
	w.wantParts([]string{"apply", "-f", w.path("links")}, "D/links/b.yaml:1: pod default/a is at D/links/a.yaml:1 already")
	if got := w.listDesired(); len(got) > 0 {
		t.Errorf("the pods are %v; want none", got)
	}
}

// TestDeleteNames: documents are named as kubectl names them.
func TestDeleteNames(t *testing.T) {
	w := newWriter(t)
	all := manifestText("a", "v1") + "---\n" + manifestText("b", "v1") + "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n---\n" +
		"kind: Secret\napiVersion: v1\nmetadata: {name: s, namespace: shop}\n---\n" +
		"kind: PersistentVolumeClaim\napiVersion: v1\nmetadata: {name: data}\n" +
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	f := w.file("all.yaml", all)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"a", "b"}, "pod \"a\" deleted from default namespace\npod \"b\" deleted from default namespace\n"},
		{[]string{"pod", "a", "b"}, "pod \"a\" deleted from default namespace\npod \"b\" deleted from default namespace\n"},
		{[]string{"pod/a", "configmap/c"}, "pod \"a\" deleted from default namespace\nconfigmap \"c\" deleted from default namespace\n"},
		{[]string{"cm", "c"}, "configmap \"c\" deleted from default namespace\n"},
		{[]string{"a-node1"}, "pod \"a\" deleted from default namespace\n"},
		{[]string{"secret/s", "-n", "shop"}, "secret \"s\" deleted from shop namespace\n"},
		{[]string{"-f", f}, "pod \"a\" deleted from default namespace\npod \"b\" deleted from default namespace\nconfigmap \"c\" deleted from default namespace\nsecret \"s\" deleted from shop namespace\npersistentvolumeclaim \"data\" deleted from default namespace\n"},
		{[]string{"pvc/data"}, "persistentvolumeclaim \"data\" deleted from default namespace\n"},
		{[]string{"-f", w.file("dots.yaml", manifestText("a", "v1")+"...\n"+manifestText("b", "v1"))}, "pod \"a\" deleted from default namespace\npod \"b\" deleted from default namespace\n"},
		{[]string{"-f", w.file("none.yaml", "---\nmetadata: {name: a}\n")}, "podctl: D/none.yaml:2: a document of the kind \"\" and the name \"a\" is no pod, ConfigMap, Secret or PersistentVolumeClaim\nexit code 1\n"},
		{[]string{"a", "--dry-run"}, `pod "a" deleted from default namespace (server dry run)` + "\n"},
		{[]string{"service/a"}, "podctl: service/a: want pod/NAME, configmap/NAME, secret/NAME or pvc/NAME\nexit code 1\n"},
		{[]string{"-f", w.file("odd.yaml", "kind: Service\nmetadata: {name: s}\n")}, "podctl: D/odd.yaml:1: a document of the kind \"Service\" and the name \"s\" is no pod, ConfigMap, Secret or PersistentVolumeClaim\nexit code 1\n"},
	} {
		w.podctl("apply", "-f", f)
		w.want(tc.want, append([]string{"delete"}, tc.args...)...)
	}
}
