package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/podstream/podstream/internal/durable"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	dirMode, fileMode = 0o700, 0o600
	// suffix ends the names of records, draftSuffix those of records that are being written.
	suffix, draftSuffix = ".json", ".json.new"
	// maxFiles bounds the files of the directory.
	maxFiles = 16384
)

// ErrKept is the error of a volume whose file is damaged, or another agent's. It isn't overwritten.
var ErrKept = errors.New("the record on disk is kept as it is")

// ErrFull is the error of a volume that can't be published for another pod.
var ErrFull = errors.New("the volume's record has no room for another pod: end pods that use the volume, or make its attributes smaller")

// Dir is a directory of records.
type Dir struct {
	path, agent string

	mu sync.Mutex
	// kept are the files that must not be changed, with the reason.
	kept map[string]error
}

// Open returns the directory, which it creates if it is missing. Only root, or podexecd's user, may access it. agent is
// the agent's ID. Load must be called before anything else.
func Open(path, agent string) (*Dir, error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, fmt.Errorf("make the directory of volumes' records: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("stat the directory of volumes' records: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s isn't a directory; it must have the records of volumes", path)
	}
	if err := os.Chmod(path, dirMode); err != nil {
		return nil, fmt.Errorf("restrict the access to volumes' records: %w", err)
	}
	// The directory's own name must be on the disk before a record is.
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return &Dir{path: path, agent: agent, kept: map[string]error{}}, nil
}

// Kept is a file that isn't used, and isn't changed.
type Kept struct {
	File string
	// Err is the damage; nil: the record is another agent's.
	Err error
}

// Load returns the agent's records, sorted by file name, and the files that are kept. Drafts are removed: the calls that
// they announce weren't made. An error means that nothing is known.
func (d *Dir) Load(ctx context.Context) ([]Volume, []Kept, error) {
	names, err := d.list()
	if err != nil {
		return nil, nil, err
	}
	var volumes []Volume
	var kept []Kept
	for _, name := range names {
		file := filepath.Join(d.path, name)
		if strings.HasSuffix(name, draftSuffix) {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, fmt.Errorf("remove an incomplete record: %w", err)
			}
			continue
		}
		v, err := d.read(ctx, name)
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		switch {
		case err != nil:
			kept = append(kept, Kept{file, err})
			d.keep(name, fmt.Errorf("%s is damaged, so the volume may be mounted: %w", file, err))
		case v.Agent != d.agent:
			kept = append(kept, Kept{File: file})
			d.keep(name, fmt.Errorf("%s is a record of another agent, %q", file, v.Agent))
		default:
			volumes = append(volumes, v)
		}
	}
	return volumes, kept, nil
}

// list returns the names of the directory's files, sorted.
func (d *Dir) list() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list the records of volumes: %w", err)
	}
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("%s has %d files, more than %d", d.path, len(entries), maxFiles)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (d *Dir) read(ctx context.Context, name string) (Volume, error) {
	f, err := openfile.OpenBeneath(d.path, name)
	if err != nil {
		return Volume{}, err
	}
	defer f.Close()
	data, err := openfile.ReadAll(ctx, f, maxSize)
	if err != nil {
		return Volume{}, err
	}
	v, err := Unmarshal(data)
	if err == nil && v.fileName() != name {
		err = fmt.Errorf("its name isn't that of driver %q and handle %q", v.Driver, v.Handle)
	}
	return v, err
}

func (d *Dir) keep(name string, reason error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[name] = reason
}

// Usable returns an error, which wraps ErrKept, if the volume's file is damaged or another agent's.
func (d *Dir) Usable(k Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reason := d.kept[k.fileName()]; reason != nil {
		return fmt.Errorf("%w: %w", ErrKept, reason)
	}
	return nil
}

// Write stores the record as the agent's. After an error the earlier record is still valid, or the new one is.
func (d *Dir) Write(v *Volume) error { return d.write(v, maxSize) }

// WriteGrown is Write of a record that has a publication more than the earlier one. ErrFull: it has no room for that.
func (d *Dir) WriteGrown(v *Volume) error {
	if len(v.Publications) > maxPublications {
		return fmt.Errorf("%w: more than %d publications", ErrFull, maxPublications)
	}
	return d.write(v, maxGrown)
}

func (d *Dir) write(v *Volume, most int) error {
	if err := d.Usable(v.Key); err != nil {
		return err
	}
	stored := *v
	stored.Version, stored.Agent = Version, d.agent
	data, err := Marshal(&stored)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	if len(data) > most {
		return fmt.Errorf("%w: it would have %d bytes, more than %d", ErrFull, len(data), most)
	}
	path := filepath.Join(d.path, v.fileName())
	draft := strings.TrimSuffix(path, suffix) + draftSuffix
	if err := durable.Write(path, draft, data, fileMode); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}

// Remove removes the record. A missing one is no error.
func (d *Dir) Remove(k Key) error {
	if err := d.Usable(k); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.path, k.fileName())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record: %w", err)
	}
	return durable.SyncDir(d.path)
}
