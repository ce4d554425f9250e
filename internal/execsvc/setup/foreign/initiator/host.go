package initiator

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxAttribute bounds an attribute in sysfs.
	maxAttribute = 4096
)

// Host is where the package works. The zero value is this machine.
type Host struct {
	// Sys, Dev and Proc are the directories /sys, /dev and /proc.
	Sys  string `json:"sys,omitempty"`
	Dev  string `json:"dev,omitempty"`
	Proc string `json:"proc,omitempty"`
	// Iscsiadm and Multipath are the programs: a path, or a name in PATH.
	Iscsiadm  string `json:"iscsiadm,omitempty"`
	Multipath string `json:"multipath,omitempty"`
}

func (h *Host) sys(name ...string) string {
	return filepath.Join(append([]string{cmp.Or(h.Sys, "/sys")}, name...)...)
}

func (h *Host) dev(name string) string { return filepath.Join(cmp.Or(h.Dev, "/dev"), name) }

func (h *Host) proc(name string) string { return filepath.Join(cmp.Or(h.Proc, "/proc"), name) }

// attribute returns an attribute in sysfs.
func attribute(path ...string) (string, error) {
	data, err := readFile(filepath.Join(path...), maxAttribute)
	return strings.TrimSpace(string(data)), err
}

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}

// write writes an attribute in sysfs.
func write(text string, path ...string) error {
	f, err := os.OpenFile(filepath.Join(path...), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// names returns the names in a directory of sysfs, sorted; nil if it is missing.
func names(path ...string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name()
	}
	slices.Sort(all)
	return all, err
}
