package claimvolumes

import (
	"fmt"
	"sync"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

// uses are the requests that read or change volumes. An export of a volume that is removed or replaced meanwhile would leave out,
// without an error, the files that are gone.
type uses struct {
	mu sync.Mutex
	// exports counts the exports of a volume. changes says of those that are removed or replaced what happens to them.
	exports map[directory.Claim]int
	changes map[directory.Claim]change
}

// change is what happens to a volume. exportable is set if only pods and other changes are kept from it.
type change struct {
	why        string
	exportable bool
}

// change keeps exports from the volume until release is called.
func (u *uses) change(c directory.Claim, why string) (release func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if had, is := u.changes[c]; is {
		return nil, fmt.Errorf("volume %s %s: %w", c, had.why, ErrInUse)
	}
	if u.exports[c] > 0 {
		return nil, fmt.Errorf("volume %s is being exported: %w", c, ErrInUse)
	}
	if u.changes == nil {
		u.changes = map[directory.Claim]change{}
	}
	u.changes[c] = change{why: why}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.changes, c)
	}, nil
}

// stay keeps the volume from being changed until podexecd ends, after a change whose outcome isn't certain. exportable reports whether
// nothing changes it now.
func (u *uses) stay(c directory.Claim, exportable bool) {
	why := "may still be changed by a process of an earlier request, until podexecd starts again"
	if exportable {
		why = "isn't changed until podexecd starts again, as it isn't known which content it has"
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changes[c] = change{why, exportable}
}

// export keeps the volume from being changed until release is called.
func (u *uses) export(c directory.Claim) (release func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if had, is := u.changes[c]; is && !had.exportable {
		return nil, fmt.Errorf("volume %s %s: %w", c, had.why, ErrInUse)
	}
	if u.exports == nil {
		u.exports = map[directory.Claim]int{}
	}
	u.exports[c]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.exports[c]--; u.exports[c] == 0 {
			delete(u.exports, c)
		}
	}, nil
}
