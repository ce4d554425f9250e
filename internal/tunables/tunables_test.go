package tunables

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kernel returns a kernel with the kubelet's settings, except for those that are changed. An empty value: there is no
// such setting.
func kernel(t *testing.T, changed map[string]string) Kernel {
	t.Helper()
	k := Kernel{Root: t.TempDir()}
	for _, tunable := range All() {
		value, ok := changed[tunable.Name]
		if !ok {
			value = strconv.FormatInt(tunable.Want, 10) + "\n"
		}
		if err := os.MkdirAll(filepath.Dir(k.path(tunable.Name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if value == "" {
			continue
		}
		if err := os.WriteFile(k.path(tunable.Name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// say returns the differences as text.
func say(differing []ValueError) []string {
	var out []string
	for _, d := range differing {
		out = append(out, d.Error())
	}
	return out
}

func TestDiffering(t *testing.T) {
	if got := kernel(t, nil).Differing(); got != nil {
		t.Errorf("the kubelet's settings differ: %v", say(got))
	}
	// Each setting moves the result, above its value and below.
	for _, tunable := range All() {
		for _, value := range []int64{tunable.Want - 1, tunable.Want + 1} {
			got := say(kernel(t, map[string]string{tunable.Name: strconv.FormatInt(value, 10)}).Differing())
			want := []string{"invalid kernel flag: " + tunable.Name + ", expected value: " + strconv.FormatInt(tunable.Want, 10) +
				", actual value: " + strconv.FormatInt(value, 10)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s=%d (-want +got):\n%s", tunable.Name, value, diff)
			}
		}
	}
	got := kernel(t, map[string]string{"kernel.keys.root_maxkeys": "", "kernel.panic": "soon\n"}).Differing()
	if len(got) != 2 || got[0].Name != "kernel.panic" || got[0].Err == nil || got[0].Missing() || got[1].Name != "kernel.keys.root_maxkeys" || !got[1].Missing() {
		t.Errorf("what can't be read differs: %v", say(got))
	}
	if !strings.Contains(got[1].Error(), "kernel flag kernel.keys.root_maxkeys can't be read") || !errors.Is(got[1], fs.ErrNotExist) {
		t.Errorf("a missing setting is reported as %v", got[1])
	}
}

func TestSet(t *testing.T) {
	k := kernel(t, map[string]string{"vm.overcommit_memory": "0", "kernel.panic": "3600", "vm.panic_on_oom": "1"})
	for _, d := range k.Differing() {
		if err := k.Set(d.Tunable); err != nil {
			t.Error(err)
		}
	}
	if got := k.Differing(); got != nil {
		t.Errorf("after they are set, there differ: %v", say(got))
	}
	// What isn't there isn't made.
	k = kernel(t, map[string]string{"kernel.keys.root_maxkeys": ""})
	if err := k.Set(Tunable{"kernel.keys.root_maxkeys", 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing setting is set: %v", err)
	}
}

// The kernel that the test runs on has these settings.
func TestThisKernel(t *testing.T) {
	var k Kernel
	for _, tunable := range All() {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(tunable.Name, ".", "/"))
		if err != nil {
			t.Fatal(err)
		}
		is, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		differs := false
		for _, d := range k.Differing() {
			if d.Name == tunable.Name {
				differs = true
				if d.Is != is {
					t.Errorf("%s is %d; want %d", tunable.Name, d.Is, is)
				}
			}
		}
		if differs != (is != tunable.Want) {
			t.Errorf("%s=%d differs: %t", tunable.Name, is, differs)
		}
	}
}
