package subpath

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPrepareAgain(t *testing.T) {
	dir := newTargets(t)
	given, resolved, outside := volume(t)
	target, container := targetOf(dir, "c"), filepath.Join(dir, "data", "c")
	req := Request{Root: given, SubPath: "dir", Target: target}
	prepare(t, req)
	id := mountOf(t, target)
	prepare(t, req)
	if again := mountOf(t, target); again != id {
		t.Error("a correct mount was mounted again")
	}
	for _, c := range []struct {
		was     string
		disturb func()
	}{
		{"unmounted, by a reboot", func() { must(t, unix.Unmount(target, 0)) }},
		{"hidden by another mount", func() { must(t, unix.Mount("tmpfs", target, "tmpfs", 0, "")) }},
		{"bound thrice to something else", func() {
			must(t, CleanUp(target, nil))
			must(t, os.Mkdir(target, 0o750))
			for range 3 {
				must(t, unix.Mount(outside, target, "", unix.MS_BIND, ""))
			}
		}},
		{"replaced by a file", func() { must(t, CleanUp(target, nil)); write(t, target, "") }},
		{"replaced by a link", func() { must(t, CleanUp(target, nil)); links(t, container, map[string]string{"0": outside}) }},
		{"left with a directory that came again", func() {
			must(t, os.RemoveAll(filepath.Join(resolved, "dir")))
			must(t, os.Mkdir(filepath.Join(resolved, "other"), 0o755)) // may get the inode number of the former
			must(t, os.Mkdir(filepath.Join(resolved, "dir"), 0o755))
		}},
		{"left with a directory that is a file now", func() {
			must(t, os.RemoveAll(filepath.Join(resolved, "dir")))
			write(t, filepath.Join(resolved, "dir"), "x")
		}},
	} {
		c.disturb()
		prepare(t, req)
		same(t, target, filepath.Join(resolved, "dir"))
		if t.Failed() {
			t.Fatalf("after it was %s", c.was)
		}
	}
	if text, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(text) != "outside" {
		t.Errorf("the wrongly mounted file has changed: %q, %v", text, err)
	}
}

// A configMap's files are links into a directory that is replaced as a whole.
func TestPrepareFollowsAConfigMap(t *testing.T) {
	dir, root := newTargets(t), t.TempDir()
	write(t, filepath.Join(root, "..v1", "key"), "1")
	write(t, filepath.Join(root, "..v2", "key"), "2")
	links(t, root, map[string]string{"..data": "..v1", "..new": "..v2", "key": "..data/key"})
	req := Request{Root: root, SubPath: "key", Target: targetOf(dir, "c")}
	prepare(t, req)
	must(t, os.Rename(filepath.Join(root, "..new"), filepath.Join(root, "..data")))
	must(t, os.RemoveAll(filepath.Join(root, "..v1")))
	if text, err := os.ReadFile(req.Target); err != nil || string(text) != "1" {
		t.Errorf("a running container's file became %q (%v)", text, err)
	}
	prepare(t, req)
	if text, err := os.ReadFile(req.Target); err != nil || string(text) != "2" {
		t.Errorf("a new container gets %q (%v), want the current content", text, err)
	}
}

func TestTargets(t *testing.T) {
	dir := newTargets(t)
	given, resolved, outside := volume(t)
	pod := filepath.Dir(dir)
	// The path of the pod's directory may contain links, as --root-dir may.
	must(t, os.MkdirAll(pod, 0o750))
	linked := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(pod, linked))
	prepare(t, Request{Root: given, SubPath: "dir", Target: filepath.Join(linked, targetsName, "data", "c", "0")})
	same(t, targetOf(dir, "c"), filepath.Join(resolved, "dir"))
	must(t, CleanUp(filepath.Join(linked, targetsName), nil))
	gone(t, dir)

	// The path of the targets contains none.
	for _, name := range []string{targetsName, targetsName + "/data", targetsName + "/data/c"} {
		links(t, pod, map[string]string{name: outside})
		if _, err := Prepare(t.Context(), Request{Root: given, SubPath: "dir", Target: targetOf(dir, "c")}); err == nil {
			t.Errorf("with a link at %s a target is made", name)
		}
		must(t, CleanUp(dir, nil))
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("the link's target now has %v (%v)", entries, err)
	}

	for _, target := range []string{
		"", "/", dir, "volume-subpaths/data/c/0", filepath.Join(dir, "data", "0"), filepath.Join(pod, "volumes/data/c/0"),
	} {
		if _, err := Prepare(t.Context(), Request{Root: given, SubPath: "dir", Target: target}); err == nil {
			t.Errorf("%q is taken for a target", target)
		}
	}
}

func TestPrepareTogether(t *testing.T) {
	dir := newTargets(t)
	given, resolved, _ := volume(t)
	for round := range 20 {
		sub := fmt.Sprintf("new%d/deep", round)
		var all sync.WaitGroup
		for i := range 4 {
			target := targetOf(dir, fmt.Sprintf("r%dc%d", round, i))
			all.Go(func() {
				if _, err := Prepare(t.Context(), Request{Root: given, SubPath: sub, Target: target}); err != nil {
					t.Errorf("container %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		for i := range 4 {
			same(t, targetOf(dir, fmt.Sprintf("r%dc%d", round, i)), filepath.Join(resolved, sub))
		}
	}
}
