package iscsi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/podstream/podstream/internal/durable"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	recordVersion     = 1
	dirMode, fileMode = 0o700, 0o600
	// recordSuffix ends the names of records, draftSuffix those of records that are being written.
	recordSuffix, draftSuffix = ".json", ".json.new"
	maxRecord                 = 4 << 20
	maxRecords                = 16384
)

// session is the record of a session that podexecd has made, or was about to make. It has no secrets.
type session struct {
	Version int `json:"version"`
	// Agent is the ID of the agent that wrote the record, Boot the kernel's boot ID at that time.
	Agent string `json:"agent"`
	Boot  string `json:"boot"`
	// Session has a SID once the session is known to exist.
	initiator.Session
	// Clone is set if its iface was made for a volume, and Auth names its Secret.
	Clone *initiator.Clone `json:"clone,omitempty"`
	Auth  string           `json:"auth,omitempty"`
	// Ending is set before a logout, whose end may not be known.
	Ending bool `json:"ending,omitempty"`
	// Users are the volumes that use the session, or may.
	Users []user `json:"users,omitempty"`
}

// user is a volume that uses a session.
type user struct {
	Handle string `json:"handle"`
	LUN    int    `json:"lun"`
	// Name, Number and WWID are the disk's, once it is known.
	Name   string `json:"name,omitempty"`
	Number string `json:"number,omitempty"`
	WWID   string `json:"wwid,omitempty"`
}

// user returns the volume's use of the session, or nil.
func (s *session) user(handle string) *user {
	for i := range s.Users {
		if s.Users[i].Handle == handle {
			return &s.Users[i]
		}
	}
	return nil
}

func (s *session) clone() session {
	c := *s
	c.Users = append([]user(nil), s.Users...)
	return c
}

// key returns the name of the session without its SID.
func key(s initiator.Session) initiator.Session {
	s.SID = ""
	return s
}

func compare(a, b initiator.Session) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Portal, b.Portal), cmp.Compare(a.Iface, b.Iface), cmp.Compare(a.SID, b.SID))
}

func fileName(s initiator.Session) string {
	sum := sha256.Sum256([]byte(s.Target + "\x00" + s.Portal + "\x00" + s.Iface))
	return hex.EncodeToString(sum[:]) + recordSuffix
}

// records are the records of sessions, on disk and in memory. Only the holder of a session's lock changes its record.
type records struct {
	dir, agent, boot string

	mu  sync.Mutex
	all map[initiator.Session]session
	// kept are files that aren't used and aren't changed, with the reason: damaged ones, and those of other agents.
	kept map[string]error
}

// openRecords reads the records in a directory, which it creates if it is missing.
func openRecords(dir, agent, boot string) (*records, error) {
	if agent == "" || boot == "" {
		return nil, errors.New("the records of iSCSI sessions need the agent's ID and the boot ID")
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("make the directory of the records of iSCSI sessions: %w", err)
	}
	if err := os.Chmod(dir, dirMode); err != nil {
		return nil, fmt.Errorf("restrict the access to the records of iSCSI sessions: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("list the records of iSCSI sessions: %w", err)
	case len(entries) > maxRecords:
		return nil, fmt.Errorf("%s has %d files, more than %d", dir, len(entries), maxRecords)
	}
	r := &records{dir: dir, agent: agent, boot: boot, all: map[initiator.Session]session{}, kept: map[string]error{}}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, draftSuffix) {
			// What it announces wasn't done.
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("remove an incomplete record: %w", err)
			}
			continue
		}
		s, err := r.read(name)
		if err == nil && s.Agent != agent {
			err = fmt.Errorf("it is a record of another agent, %q", s.Agent)
		}
		if err != nil {
			r.kept[name] = fmt.Errorf("the record of the session, %s, can't be used: %w", filepath.Join(dir, name), err)
			continue
		}
		r.all[key(s.Session)] = s
	}
	return r, nil
}

func (r *records) read(name string) (session, error) {
	var s session
	f, err := openfile.OpenBeneath(r.dir, name)
	if err != nil {
		return s, err
	}
	defer f.Close()
	data, err := openfile.ReadAll(context.Background(), f, maxRecord)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, err
	}
	if s.Version != recordVersion || s.Agent == "" || s.Boot == "" || fileName(s.Session) != name {
		err = errors.New("its version, agent, boot or name is wrong")
	}
	return s, err
}

// get returns a session's record.
func (r *records) get(s initiator.Session) (session, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.all[key(s)]
	return rec.clone(), ok
}

// list returns all records, in no order. complete is false if there are some that can't be used.
func (r *records) list() (all []session, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.all {
		all = append(all, s.clone())
	}
	return all, len(r.kept) == 0
}

// put stores a record: on disk, and then in memory.
func (r *records) put(s session) error {
	s = s.clone()
	s.Version, s.Agent = recordVersion, r.agent
	if err := r.usable(s.Session); err != nil {
		return err
	}
	data, err := json.Marshal(s)
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("it would have more than %d bytes", maxRecord)
	}
	if err != nil {
		return fmt.Errorf("write the record of the session: %w", err)
	}
	path := filepath.Join(r.dir, fileName(s.Session))
	draft := strings.TrimSuffix(path, recordSuffix) + draftSuffix
	if err := durable.Write(path, draft, data, fileMode); err != nil {
		return fmt.Errorf("write the record of the session: %w", err)
	}
	r.set(s)
	return nil
}

func (r *records) set(s session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[key(s.Session)] = s
}

// remove removes the record of a session that has ended.
func (r *records) remove(s initiator.Session) error {
	if err := r.usable(s); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(r.dir, fileName(s))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of the session: %w", err)
	}
	r.mu.Lock()
	delete(r.all, key(s))
	r.mu.Unlock()
	return durable.SyncDir(r.dir)
}

func (r *records) usable(s initiator.Session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[fileName(s)]
}

// claim records that a volume uses its sessions, and which of them exist. No two volumes get what only one may have, whatever locks
// their callers have. An error has an outcome: what could be recorded, or may be, counts.
func (r *records) claim(handle string, d *disk, live []initiator.Session) error {
	claimed, before, err := r.reserve(handle, d, live)
	if err != nil {
		return notSent(err)
	}
	for i, s := range claimed {
		err := r.put(s)
		if err == nil {
			continue
		}
		for _, undo := range claimed[:i+1] {
			if left := r.restore(undo.Session, before); left != nil {
				return uncertain(errors.Join(err, left))
			}
		}
		for _, undo := range claimed[i+1:] {
			r.forget(undo.Session, before)
		}
		return notSent(err)
	}
	return nil
}

// restore makes the record of a session what it was before a claim.
func (r *records) restore(s initiator.Session, before map[initiator.Session]session) error {
	if was, had := before[key(s)]; had {
		return r.put(was)
	}
	return r.remove(s)
}

// forget is restore of a record that isn't on disk.
func (r *records) forget(s initiator.Session, before map[initiator.Session]session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, had := before[key(s)]; had {
		r.all[key(s)] = was
	} else {
		delete(r.all, key(s))
	}
}

// reserve makes a claim in memory. It returns the new records, and those that there were before.
func (r *records) reserve(
	handle string, d *disk, live []initiator.Session,
) (claimed []session, before map[initiator.Session]session, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []session
	for _, s := range r.all {
		all = append(all, s)
	}
	if err := conflict(all, r.boot, handle, d); err != nil {
		return nil, nil, err
	}
	before = map[initiator.Session]session{}
	for _, s := range d.sessions() {
		rec, has := r.all[s]
		if has {
			before[s] = rec.clone()
		}
		if !has || rec.Boot != r.boot {
			// The users of another boot have no session any more.
			rec = session{Version: recordVersion, Agent: r.agent, Boot: r.boot, Session: s}
		}
		rec = rec.clone()
		rec.Clone, rec.Auth, rec.SID, rec.Ending = d.Clone, d.auth(), "", false
		for _, l := range live {
			if key(l) == s {
				rec.SID = l.SID
			}
		}
		if rec.user(handle) == nil {
			rec.Users = append(rec.Users, user{Handle: handle, LUN: d.LUN})
		}
		r.all[s] = rec
		claimed = append(claimed, rec)
	}
	return claimed, before, nil
}

// attached records the disk of a volume, and its sessions. It is an error if another volume has the same disk.
func (r *records) attached(handle string, d *disk, at *initiator.Attached) error {
	changed, err := r.reserveDisk(handle, d, at)
	if err != nil {
		return err
	}
	for _, s := range changed {
		if err := r.put(s); err != nil {
			return err
		}
	}
	return nil
}

// reserveDisk is attached in memory.
func (r *records) reserveDisk(handle string, d *disk, at *initiator.Attached) (changed []session, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []session
	for _, s := range r.all {
		all = append(all, s)
	}
	if err := twin(all, r.boot, handle, at.WWID); err != nil {
		return nil, err
	}
	for _, l := range at.Sessions {
		rec := r.all[key(l)]
		rec = rec.clone()
		u := rec.user(handle)
		if u == nil || !slices.Contains(d.sessions(), key(l)) {
			continue
		}
		rec.SID = l.SID
		u.Name, u.Number, u.WWID = at.Name, at.Number, at.WWID
		r.all[key(l)] = rec
		changed = append(changed, rec)
	}
	return changed, nil
}
