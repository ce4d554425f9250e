package iscsi

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// isBegun reports whether the machine was ended while the session was made, or before it was known to exist. The next boot may have
// logged in by a record of open-iscsi that was new and had the settings of iscsid.conf.
func (s *session) isBegun(boot string) bool { return s.Boot != boot && s.SID == "" }

// endBegun ends the sessions of a volume that the boot has made by unfinished records of podexecd's, and returns what there is then.
// The caller has their locks.
func (b *Backend) endBegun(
	ctx context.Context, k record.Key, look *initiator.Look, own map[initiator.Session]session, seen *initiator.Seen,
) (*initiator.Seen, error) {
	ended := false
	for _, live := range seen.Live {
		rec, has := own[key(live)]
		if !has || !rec.isBegun(b.cfg.Boot) {
			continue
		}
		a, err := b.do(ctx, k, initiator.Job{Logout: &initiator.Logout{Session: key(live), Stale: true, Begun: true}})
		switch {
		case err == nil && a.LoggedOut == nil:
			err = errNothing
		case err == nil && a.LoggedOut.Unsettled != "":
			err = errors.New(a.LoggedOut.Unsettled)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("end %s to %v, which the boot has made: %w", live.SID, key(live), err)
		case a.LoggedOut.NotOwn:
			continue // checkOwn has the error.
		case a.LoggedOut.Left != "":
			return nil, fmt.Errorf("the boot has made %s to %v by a record of open-iscsi that podexecd hadn't finished, and it isn't ended, as %s. "+
				"If the use isn't needed, end it, or log out: iscsiadm %s --logout", live.SID, key(live), a.LoggedOut.Left, nodeArgs(live))
		}
		ended = true
	}
	if !ended {
		return seen, nil
	}
	a, err := b.do(ctx, k, initiator.Job{Look: look})
	if err == nil && a.Seen == nil {
		err = errNothing
	}
	return a.Seen, err
}

var errNothing = errors.New("the helper process returned nothing")
