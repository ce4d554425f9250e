package blockdevice

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNumbered: a device is found by what the kernel says of its number, unless that leads out of /dev, or to something else.
func TestNumbered(t *testing.T) {
	dev, was := devices(t), sysNumbers
	sysNumbers = t.TempDir()
	t.Cleanup(func() { sysNumbers = was })
	must(t, os.Mkdir(filepath.Join(dev, "sub"), 0o700), os.Link(filepath.Join(dev, "sdx"), filepath.Join(dev, "sub", "d0")))
	must(t, os.Mkdir(filepath.Join(sysNumbers, number.String()), 0o700))
	of := func(name, content string) {
		must(t, os.WriteFile(filepath.Join(sysNumbers, number.String(), name), []byte(content), 0o600))
	}
	for text, want := range map[string]string{
		"DEVNAME=sdx\nDEVTYPE=disk\n": "", "MAJOR=240\nDEVNAME=sub/d0\n": "", "DEVTYPE=disk\n": "has no file", "DEVNAME=../sdx\n": "has no file",
		"DEVNAME=sdy\n": "no such file", "DEVNAME=file\n": ErrKind.Error(),
	} {
		of("uevent", text)
		d, err := Numbered(number)
		if err == nil {
			must(t, d.Close())
		}
		if want == "" && (err != nil || d.Number != number) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	other := Number{Major: 240, Minor: 7}
	must(t, os.Rename(filepath.Join(sysNumbers, number.String()), filepath.Join(sysNumbers, other.String())))
	must(t, os.WriteFile(filepath.Join(sysNumbers, other.String(), "uevent"), []byte("DEVNAME=sdx\n"), 0o600))
	if _, err := Numbered(other); err == nil || !strings.Contains(err.Error(), "and not 240:7") {
		t.Errorf("a file of another number: %v", err)
	}
	if _, err := Numbered(number); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such device: %v", err)
	}
	for text, want := range map[string]int64{"3\n": 1536, "-1\n": -1, "": -1, "36028797018963968\n": -1} {
		must(t, os.WriteFile(filepath.Join(sysNumbers, other.String(), "size"), []byte(text), 0o600))
		if got, err := other.Size(); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("size %q: %d, %v", text, got, err)
		}
	}
}
