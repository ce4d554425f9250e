package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podstream/podstream/internal/openfile"
)

// note says where a helper mounts, or what it holds. It is on disk in Config.Dir before the helper has its job, until the helper and what it has started has
// ended: mount(8) may outlive the helper, and says nothing of it. Its file's name says which process it is. It isn't synced, as no process
// outlives a crash of the kernel.
type note struct {
	Volume string `json:"volume"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
}

const (
	// noteSuffix ends the names of notes, draftSuffix those of notes that are being written, before which the helper has no job.
	noteSuffix, draftSuffix = ".json", ".new"
	// noteParts are the boot ID, the PID namespace, the process and its start time.
	noteParts = 4
	// maxNote bounds a note: two paths and a kind.
	maxNote = 64 << 10
	// firstNamespace is the kernel's number of the machine's first PID namespace.
	firstNamespace = "pid:[4026531836]"
)

// pidNamespace returns podexecd's PID namespace. Numbers of processes are those of one namespace.
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "unknown"
	}
	return name
}

// write records a helper that mounts, before it has its job.
func (h *Helpers) write(p *process) error {
	if h.cfg.Dir == "" || p.target == "" {
		return nil
	}
	started := startOf(p.pid())
	if started == "" {
		return fmt.Errorf("the process %d has ended, or when it was started can't be read", p.pid())
	}
	data, err := json.Marshal(note{Volume: shown(p.volume), Kind: p.kind, Target: p.target})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
		return err
	}
	name := strings.Join([]string{h.cfg.Boot, pidNamespace(), strconv.Itoa(p.pid()), started}, " ")
	draft := filepath.Join(h.cfg.Dir, name+draftSuffix)
	if err := os.WriteFile(draft, data, 0o600); err != nil {
		return errors.Join(err, os.RemoveAll(draft))
	}
	p.note = filepath.Join(h.cfg.Dir, name+noteSuffix)
	return os.Rename(draft, p.note)
}

// erase removes the note of a helper that has ended, with all that it has started.
func (h *Helpers) erase(p *process) {
	if p.note == "" {
		return
	}
	if err := os.Remove(p.note); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.cfg.Log.Warn("the note of a mount that has ended can't be removed", "path", p.note, "error", err)
	}
}

// read reads the notes of an earlier start, once. Until it succeeds, it isn't known what may still mount.
func (h *Helpers) read() error {
	h.reading.Lock()
	defer h.reading.Unlock()
	if h.cfg.Dir == "" || h.wasRead {
		return nil
	}
	entries, err := os.ReadDir(h.cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read which mounts of an earlier podexecd haven't ended: %w", err)
	}
	if len(entries) > maxLeftover {
		return fmt.Errorf("%s has more than %d files: it isn't known which mounts of an earlier podexecd haven't ended", h.cfg.Dir, maxLeftover)
	}
	var left []leftover
	for _, e := range entries {
		suffix := filepath.Ext(e.Name())
		parts := strings.Split(strings.TrimSuffix(e.Name(), suffix), " ")
		if len(parts) != noteParts || suffix != noteSuffix && suffix != draftSuffix {
			continue // It is no note.
		}
		path := filepath.Join(h.cfg.Dir, e.Name())
		if l, ok := h.leftoverIn(parts); ok && suffix == noteSuffix && l.lives() {
			l.complete(path)
			left = append(left, l)
		} else if err := os.Remove(path); err != nil {
			h.cfg.Log.Warn("the note of a mount that has ended can't be removed", "path", path, "error", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leftovers = slices.DeleteFunc(h.leftovers, func(known leftover) bool {
		return slices.ContainsFunc(left, func(l leftover) bool { return l.pid == known.pid && l.started == known.started })
	})
	h.leftovers, h.wasRead = append(h.leftovers, left...), true
	return nil
}

// leftoverIn returns the process in the parts of a note's name. ok is false if it has ended: another boot, or a PID namespace that is gone. A container's
// namespace ends after all its processes, and the runtime starts no other container in its place before. Processes on the machine that
// can't be seen from a container may live until the machine is booted, or their notes are removed.
func (h *Helpers) leftoverIn(parts []string) (l leftover, ok bool) {
	pid, err := strconv.Atoi(parts[2])
	if err != nil || pid <= 0 || parts[0] != h.cfg.Boot {
		return leftover{}, false
	}
	l = leftover{pid: pid, started: parts[3], kind: mountKind, unseen: parts[1] != pidNamespace()}
	l.note = filepath.Join(h.cfg.Dir, strings.Join(parts, " ")+noteSuffix)
	return l, !l.unseen || parts[1] == firstNamespace
}

// complete takes the rest from the note. One that can't be read may be that of any mount.
func (l *leftover) complete(path string) {
	var n note
	data, err := openfile.Read(context.Background(), path, maxNote)
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	l.any = err != nil || n.Target == ""
	l.volume, l.target = n.Volume, n.Target
	if n.Kind != "" {
		l.kind = n.Kind
	}
}

// mounting returns a BusyError while an earlier helper, or what it has started, may still mount at the target. It returns another error
// if that isn't known.
func (h *Helpers) mounting(volume, target string) error {
	if err := h.read(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if busy := h.mountsAt(volume, filepath.Clean(target)); busy != nil {
		return busy
	}
	return nil
}

// mountsAt is mounting. Without a target it returns nil. mu is held.
func (h *Helpers) mountsAt(volume, target string) *BusyError {
	if target == "" {
		return nil
	}
	var pids []int
	var unseen []string
	busy := false
	for _, of := range h.running {
		for p := range of {
			if p.target != target {
				continue
			}
			busy = true
			// One that is being started has no number yet. That of one that has ended says nothing: what it has started is named.
			if pid := p.pid(); pid != 0 {
				pids = append(pids, membersOf(pid)...)
			}
		}
	}
	h.leftovers = slices.DeleteFunc(h.leftovers, func(l leftover) bool {
		if !l.mayMount(volume, target) {
			return false
		}
		if !l.lives() {
			return true
		}
		if busy = true; l.unseen {
			unseen = append(unseen, l.note)
		} else {
			pids = append(pids, membersOf(l.pid)...)
		}
		return false
	})
	if !busy {
		return nil
	}
	slices.Sort(pids)
	return &BusyError{Volume: volume, Target: target, PIDs: pids, Unseen: unseen}
}

// mayMount reports whether the process may mount at the target. That of a version which didn't name its target may mount at each one of
// its volume.
func (l *leftover) mayMount(volume, target string) bool {
	if !hasTarget[l.kind] {
		return false
	}
	return l.any || l.target == target || l.target == "" && l.volume == shown(volume)
}
