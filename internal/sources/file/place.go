package file

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// confirmFile is the name of the file by which an operator confirms a directory that differs from the one that the
// source's pods were read from. It is hidden, so it isn't a manifest.
const confirmFile = ".podstream-confirmed"

// before is what is known of the path from before this Run.
type before struct {
	// directory and single are set if pods of the source were read from files in the path as a directory, or from the
	// path as a file.
	directory, single bool
	record            mountRecord
	// unknown is set if there is a record that can't be read.
	unknown bool
}

// mountRecord is the content of Config.PlaceFile.
type mountRecord struct {
	// Path is the source's path.
	Path string `json:"path"`
	mountPlace
	// Used are the confirmations that aren't valid any more, the latest last, at most maxUsed.
	Used []string `json:"used,omitempty"`
}

// mountPlace identifies a mount over a reboot, unlike the numbers of devices and mounts.
type mountPlace struct {
	MountPoint string `json:"mountPoint"`
	// Root is the mounted directory of the file system, and FSType the file system's type. Empty: not known.
	Root   string `json:"root,omitempty"`
	FSType string `json:"fsType,omitempty"`
}

// is reports whether both are one mount, as far as the older record shows.
func (p mountPlace) is(now mountPlace) bool {
	return p.MountPoint == now.MountPoint && (p.Root == "" || p.Root == now.Root) && (p.FSType == "" || p.FSType == now.FSType)
}

const maxUsed = 16

// begun returns what is known from before. A place that can't be read is unknown: its file system is the store's.
func (l *loop) begun() before {
	var b before
	for _, origin := range l.Known() {
		b.single = b.single || origin == l.Path
		b.directory = b.directory || filepath.Dir(origin) == l.Path
	}
	if l.PlaceFile == "" {
		return b
	}
	data, err := os.ReadFile(l.PlaceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return b
	}
	if err == nil {
		err = json.Unmarshal(data, &b.record)
	}
	if err != nil {
		l.Logger.Warn("The previous mount of the manifests isn't known; an empty directory in its place must be confirmed", "error", err)
	}
	if err != nil || b.record.Path != l.Path {
		b.record = mountRecord{}
	}
	b.unknown = err != nil
	return b
}

// remember stores the mount of a directory that is about to be read, before its pods can be stored, and that its
// confirmation was used.
func (l *loop) remember(r root) {
	if r.single {
		return
	}
	now, confirmation := l.before.record, l.confirmation()
	now.Path = l.Path
	if confirmation != "" && !slices.Contains(now.Used, confirmation) {
		now.Used = append(slices.Clone(now.Used), confirmation)
		now.Used = now.Used[max(len(now.Used)-maxUsed, 0):]
	} else if l.listed && r.mount == l.root.mount {
		return
	}
	var err error
	if now.mountPlace, err = placeOf(r.mount); err == nil {
		err = l.store(now)
	}
	if err != nil {
		l.Logger.Warn("The mount of the manifests can't be stored; after a restart its loss isn't detected", "error", err)
	}
}

// store writes the record, to Config.PlaceFile if that is set.
func (l *loop) store(now mountRecord) error {
	before := l.before.record
	l.before.record = now
	if l.PlaceFile == "" || reflect.DeepEqual(now, before) {
		return nil
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return renameio.WriteFile(l.PlaceFile, append(data, '\n'), 0o600)
}

// placeOf returns where a mount is, and what is mounted there, as /proc/self/mountinfo writes it.
func placeOf(number string) (mountPlace, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return mountPlace{}, fmt.Errorf("find the mount point of the manifests: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= 5 || fields[0] != number {
			continue
		}
		p := mountPlace{MountPoint: fields[4], Root: fields[3]}
		// The type of the file system follows the separator after the optional fields.
		if at := slices.Index(fields, "-"); at > 0 && at+1 < len(fields) {
			p.FSType = fields[at+1]
		}
		return p, nil
	}
	if err := lines.Err(); err != nil {
		return mountPlace{}, fmt.Errorf("find the mount point of the manifests: %w", err)
	}
	return mountPlace{}, fmt.Errorf("find the mount point of the manifests: there is no mount %s", number)
}

// confirmation identifies the file by which the operator confirms the directory. Empty: there is none.
func (l *loop) confirmation() string {
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(l.Path, confirmFile), &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d.%09d", st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
}

// confirmed reports whether the operator has confirmed the directory. A confirmation is valid for one change: a file
// that existed when the directory was read before doesn't confirm a later change.
func (l *loop) confirmed() bool {
	confirmation := l.confirmation()
	return confirmation != "" && !slices.Contains(l.before.record.Used, confirmation)
}
