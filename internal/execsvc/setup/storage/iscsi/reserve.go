package iscsi

import (
	"errors"
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
)

// claim records that a volume uses its sessions, and which of them exist. No two volumes get what only one may have, whatever locks
// their callers have. An error has an outcome: what could be recorded, or may be, counts.
func (r *records) claim(handle string, d *disk, live []initiator.Session) error {
	claimed, before, err := r.reserve(handle, d, live)
	if err != nil {
		return unrepeatable(err)
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

// reserve makes a claim in memory; its error is a conflict. It returns the new records, and those that there were before.
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
		rec.Begun = rec.SID == "" // A login follows.
		if rec.user(handle) == nil {
			u := user{Handle: handle, LUN: d.LUN, First: d.Portals[0]}
			if name := d.named(s); name != s.Portal {
				u.Portal = name
			}
			rec.Users = append(rec.Users, u)
		}
		r.all[s] = rec
		claimed = append(claimed, rec)
	}
	return claimed, before, nil
}

// loggedIn records which of the sessions of a volume there are after an attempt to make them.
func (r *records) loggedIn(all, live, unsettled []initiator.Session) error {
	for _, s := range all {
		rec, has := r.get(s)
		if !has {
			continue
		}
		n := slices.IndexFunc(live, func(l initiator.Session) bool { return key(l) == s })
		sid, begun := "", slices.Contains(unsettled, s)
		if n >= 0 {
			sid, begun = live[n].SID, false
		}
		if rec.SID == sid && rec.Begun == begun {
			continue
		}
		rec.SID, rec.Begun = sid, begun
		if err := r.put(rec); err != nil {
			return err
		}
	}
	return nil
}

// attached records the disk of a volume. It is an error if another volume has the same disk.
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
		u.Name, u.Number, u.WWID = at.Name, at.Number, at.WWID
		r.all[key(l)] = rec
		changed = append(changed, rec)
	}
	return changed, nil
}
