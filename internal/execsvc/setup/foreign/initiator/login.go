package initiator

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
)

// try logs in to a session, unless it exists, and finds the disk.
func (a *Attach) try(h *Host, l *login) (*path, error) {
	has, err := h.find(l.Session)
	switch {
	case err != nil:
		return nil, err
	case has == nil && l.SID != "":
		// Another one would have no record.
		err := fmt.Errorf("%s to %v has just ended", l.SID, key(l.Session))
		l.SID = ""
		return nil, err
	case has == nil:
		if has, err = a.login(h, l); err != nil {
			return nil, err
		}
	case l.SID != has.SID && !l.pending:
		return nil, &NotOwnError{Session: l.Session, Has: has.SID}
	}
	l.SID, l.pending = has.SID, false
	if state, err := attribute(h.sys("class", "iscsi_session", has.SID, "state")); err != nil || state != loggedIn {
		return nil, errors.Join(err, fmt.Errorf("%s to %v is in the state %.40s: the portal doesn't answer", has.SID, key(has.Session), state))
	}
	return h.scan(has, a.LUN)
}

// makeIface makes the iface of the volume, unless a session has it.
func (a *Attach) makeIface(h *Host) error {
	if a.Clone == nil || len(a.Sessions) == 0 {
		return nil
	}
	name := a.Sessions[0].Iface
	all, err := h.sessions(a.Sessions[0].Target)
	if err != nil || slices.ContainsFunc(all, func(l live) bool { return l.Iface == name }) {
		return err
	}
	return h.makeIface(name, a.Clone)
}

// answers are the exit codes of a login that iscsid has refused, or wasn't told of: there is no session, or one that it didn't make.
var answers = []int{4, 5, 7, 8, 11, 12, 13, 14, exitExists, 19, 20, exitNoObjects, 23, 24}

// refusals are those of answers by which iscsid says that the login has ended, and an earlier one for the same session too.
var refusals = []int{4, 5, 8, 11, 19, 24}

// login makes a session.
func (a *Attach) login(h *Host, l *login) (*live, error) {
	if err := h.makeNode(l.Session, a.CHAP); err != nil {
		if _, left := errors.AsType[*unfinishedError](err); left {
			l.pending = true // The record is podexecd's only while its login isn't settled.
		}
		return nil, err
	}
	earlier := l.pending
	l.pending = true
	_, err := h.iscsiadm(loginLimit, nil, append(l.node(), "--login")...)
	exit, ended := errors.AsType[*exitError](err)
	switch {
	case ended && exit.code == exitExists && earlier:
		// It is that of the earlier login.
	case ended && slices.Contains(answers, exit.code), errors.Is(err, exec.ErrNotFound):
		l.pending = earlier && !(ended && slices.Contains(refusals, exit.code))
		return nil, err
	case err != nil:
		return nil, err
	}
	has, err := h.find(l.Session)
	if err == nil && has == nil {
		err = fmt.Errorf("iscsiadm logged in to %v, and there is no such session", l.Session)
	}
	return has, err
}
