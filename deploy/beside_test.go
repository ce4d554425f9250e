package deploy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// condition evaluates a condition of systemd.unit(5) in a directory in place of the root.
func condition(t *testing.T, root, key, path string) bool {
	t.Helper()
	path = filepath.Join(root, path)
	switch key {
	case "ConditionPathExists":
		_, err := os.Stat(path)
		return err == nil
	case "ConditionPathIsSymbolicLink":
		info, err := os.Lstat(path)
		return err == nil && info.Mode().Type() == os.ModeSymlink
	case "ConditionFileNotEmpty":
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular() && info.Size() > 0
	}
	t.Fatalf("%s isn't known to this test", key)
	return false
}

// TestSocketsBesideKubelet: with podstream-kubelet installed, the daemons' sockets start if kubelet.service is disabled or masked,
// and doesn't run. A link to a unit is no mask.
func TestSocketsBesideKubelet(t *testing.T) {
	text, err := os.ReadFile("packages/units/beside-kubelet.socket.conf")
	if err != nil {
		t.Fatal(err)
	}
	const etc, wants = "/etc/systemd/system/kubelet.service", "/etc/systemd/system/multi-user.target.wants/kubelet.service"
	const packaged, linked = "/usr/lib/systemd/system/kubelet.service", "/opt/kubelet.service"
	for name, tc := range map[string]struct {
		links map[string]string
		want  bool
	}{
		"disabled":              {nil, true},
		"enabled":               {map[string]string{wants: packaged}, false},
		"masked":                {map[string]string{wants: packaged, etc: os.DevNull}, true},
		"masked until a reboot": {map[string]string{wants: packaged, "/run/systemd/system/kubelet.service": os.DevNull}, true},
		"linked":                {map[string]string{wants: linked, etc: linked}, false},
		"running":               {map[string]string{"/run/podstream-kubelet": "/opt"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, path := range []string{packaged, linked} {
				err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755), os.WriteFile(filepath.Join(root, path), []byte("[Unit]\n"), 0o600))
				if err != nil {
					t.Fatal(err)
				}
			}
			for path, target := range tc.links {
				if target != os.DevNull {
					target = filepath.Join(root, target)
				}
				err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755), os.Symlink(target, filepath.Join(root, path)))
				if err != nil {
					t.Fatal(err)
				}
			}
			// All conditions, and one of those with "|".
			all, one := true, false
			for line := range strings.Lines(string(text)) {
				key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
				if !ok || strings.HasPrefix(line, "#") {
					continue
				}
				value, trigger := strings.CutPrefix(value, "|")
				value, negated := strings.CutPrefix(value, "!")
				holds := condition(t, root, key, value) != negated
				all, one = all && (holds || trigger), one || holds && trigger
			}
			if got := all && one; got != tc.want {
				t.Errorf("the sockets start: %v; want %v", got, tc.want)
			}
		})
	}
}
