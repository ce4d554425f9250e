package tunables

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Tunable is a setting of the kernel, and the value that the kubelet sets.
type Tunable struct {
	Name string
	Want int64
}

// All are the kubelet's.
func All() []Tunable {
	return []Tunable{
		{"vm.overcommit_memory", 1}, {"vm.panic_on_oom", 0}, {"kernel.panic", 10}, {"kernel.panic_on_oops", 1},
		{"kernel.keys.root_maxkeys", 1000000}, {"kernel.keys.root_maxbytes", 25000000},
	}
}

// ValueError is a setting that isn't as it should be.
type ValueError struct {
	Tunable
	// Is is the kernel's value. Err is set if it can't be read; it is fs.ErrNotExist if the kernel has no such setting.
	Is  int64
	Err error
}

// Error returns the difference in the kubelet's words.
func (d ValueError) Error() string {
	if d.Err != nil {
		return fmt.Sprintf("kernel flag %s can't be read: %v", d.Name, d.Err)
	}
	return fmt.Sprintf("invalid kernel flag: %s, expected value: %d, actual value: %d", d.Name, d.Want, d.Is)
}

// Unwrap returns the error of reading the setting.
func (d ValueError) Unwrap() error { return d.Err }

// Missing reports whether the kernel has no such setting.
func (d ValueError) Missing() bool { return errors.Is(d.Err, fs.ErrNotExist) }

// Kernel has the settings of a kernel.
type Kernel struct {
	// Root is the directory of the machine's /proc. Empty: /.
	Root string
}

func (k Kernel) path(name string) string {
	return filepath.Join("/", k.Root, "proc/sys", strings.ReplaceAll(name, ".", "/")) //nolint:gocritic // An empty root is "/".
}

// Differing returns the settings that aren't the kubelet's.
func (k Kernel) Differing() []ValueError {
	var out []ValueError
	for _, t := range All() {
		d := ValueError{Tunable: t}
		var text []byte
		if text, d.Err = os.ReadFile(k.path(t.Name)); d.Err == nil {
			d.Is, d.Err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		}
		if d.Err != nil || d.Is != t.Want {
			out = append(out, d)
		}
	}
	return out
}

// Set sets one of the settings.
func (k Kernel) Set(t Tunable) error {
	// Without O_CREATE: /proc/sys has the file, or the kernel has no such setting.
	f, err := os.OpenFile(k.path(t.Name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(t.Want, 10))
	return errors.Join(err, f.Close())
}
