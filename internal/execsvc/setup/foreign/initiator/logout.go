package initiator

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Logout ends a session of the caller, and deletes its record of open-iscsi.
type Logout struct {
	Session Session `json:"session"`
	// Stale is set if the session was made before the machine was booted, or wasn't made: one that there is now isn't the caller's.
	Stale bool `json:"stale,omitempty"`
	// Begun is set if it isn't known whether the caller's login has made the session, and whether its record of open-iscsi was finished.
	// Without it, a session needs a SID.
	Begun bool `json:"begun,omitempty"`
	// Iface is set if the session's iface is the caller's too, and no other session has it.
	Iface bool `json:"iface,omitempty"`
}

// LoggedOut is what became of a session.
type LoggedOut struct {
	// Left says why the session is left as it is; empty: it has ended.
	Left string `json:"left,omitempty"`
	// NotOwn is set if it isn't the caller's.
	NotOwn bool `json:"notOwn,omitempty"`
	// Kept says what stays in open-iscsi, as it isn't the caller's, or can't be told from what isn't.
	Kept string `json:"kept,omitempty"`
	// Unsettled is the job's error if iscsid may still end the session. With any other error no logout was sent, or it has ended.
	Unsettled string `json:"unsettled,omitempty"`
}

func (l *Logout) do(h *Host) (*LoggedOut, error) {
	found, err := h.find(l.Session)
	if err != nil {
		return nil, err
	}
	if found != nil {
		if l.Stale || found.SID != l.Session.SID && (l.Session.SID != "" || !l.Begun) {
			return &LoggedOut{Left: (&NotOwnError{Session: l.Session, Has: found.SID}).Error(), NotOwn: true}, nil
		}
		if err := h.idle(found); err != nil {
			if used, ok := errors.AsType[*InUseError](err); ok {
				return &LoggedOut{Left: used.Error()}, nil
			}
			return nil, err
		}
		// By its number: a logout by the portal ends each session whose portal has the same address now.
		number := strings.TrimPrefix(found.SID, sessionPrefix)
		_, err := h.iscsiadm(loginLimit, []int{exitNoSession, exitNoObjects}, "-m", "session", "-r", number, "--logout")
		if errors.Is(err, exec.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			err = h.hasEnded(l.Session, found.SID)
		}
		if err != nil {
			return &LoggedOut{Unsettled: err.Error()}, nil //nolint:nilerr // An error would be sent without the note.
		}
	}
	kept, err := h.deleteNode(l.Session, l.Begun)
	switch {
	case err != nil || !l.Iface:
	case kept != "":
		kept += fmt.Sprintf(". Its iface stays too: iscsiadm -m iface -I %s -o delete", l.Session.Iface)
	default:
		kept, err = h.deleteIface(l.Session.Iface)
	}
	return &LoggedOut{Kept: kept}, err
}

// hasEnded returns an error if the session still has this SID. Another one may have its portal's address.
func (h *Host) hasEnded(s Session, sid string) error {
	left, err := h.find(s)
	if err != nil || left != nil && left.SID == sid {
		return errors.Join(err, fmt.Errorf("iscsiadm logged out of %v, and there still is a session", s))
	}
	return nil
}

// idle returns an error if a disk of the session is in use, or may be.
func (h *Host) idle(l *live) error {
	units, err := l.luns()
	if err != nil {
		return err
	}
	for _, unit := range units {
		p, err := disk(unit)
		if err != nil && !errors.Is(err, errNoDisk) {
			return err
		}
		if p == nil {
			if !slices.Contains(knownIdle, kind(unit)) {
				return &InUseError{filepath.Base(unit), "it isn't a disk, so whether it is in use isn't known"}
			}
			continue
		}
		if err := h.flush(p.name); err != nil {
			return err
		}
	}
	return nil
}

// knownIdle are the SCSI types of disks, and of logical units that nothing is stored on: processors, enclosures, controllers.
var knownIdle = []string{"0", "3", "12", "13", "31"}

func kind(unit string) string {
	k, _ := attribute(unit, "type")
	return k
}
