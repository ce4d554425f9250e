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
	// Session has a SID once the session is known to exist. Without one, there is none of podexecd's, unless Begun is set.
	initiator.Session
	// Begun is set before a login, until its result is known: a session that there is may be that login's.
	Begun bool `json:"begun,omitempty"`
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
	// Portal is how the volume names the session's portal, if it is by a host name.
	Portal string `json:"portal,omitempty"`
	// First is how the volume names its first portal: its mount point has that name, whether there is a session to that portal or not.
	First string `json:"first,omitempty"`
	// Name, Number and WWID are the disk's, once it is known.
	Name   string `json:"name,omitempty"`
	Number string `json:"number,omitempty"`
	WWID   string `json:"wwid,omitempty"`
}

// first returns how the user names its first portal.
func (s *session) first(u *user) string { return cmp.Or(u.First, s.portal(u)) }

// portal returns how the user names the session's portal.
func (s *session) portal(u *user) string { return cmp.Or(u.Portal, s.Session.Portal) }

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

// of returns the sessions that a volume uses, or has used before the machine was booted, sorted.
func (r *records) of(handle string) []session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []session
	for _, s := range r.all {
		if s.user(handle) != nil {
			all = append(all, s.clone())
		}
	}
	slices.SortFunc(all, func(a, b session) int { return compare(a.Session, b.Session) })
	return all
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
