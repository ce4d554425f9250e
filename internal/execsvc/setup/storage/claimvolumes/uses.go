package claimvolumes

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

// uses are the requests that read or change volumes. An export of a volume that is removed or replaced meanwhile would leave out,
// without an error, the files that are gone.
type uses struct {
	mu sync.Mutex
	// exports are the exports of a volume. changes says of those that are removed or replaced what happens to them.
	exports map[directory.Claim][]*export
	changes map[directory.Claim]change
}

// export is an export that began then. by is its caller.
type export struct {
	began time.Time
	by    string
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
	if all := u.exports[c]; len(all) > 0 {
		return nil, fmt.Errorf("volume %s is being exported since %s by %s: %w", c, all[0].began.Format(time.RFC3339), all[0].by, ErrInUse)
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
func (u *uses) export(c directory.Claim, by string) (release func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if had, is := u.changes[c]; is && !had.exportable {
		return nil, fmt.Errorf("volume %s %s: %w", c, had.why, ErrInUse)
	}
	if u.exports == nil {
		u.exports = map[directory.Claim][]*export{}
	}
	e := &export{time.Now(), by}
	u.exports[c] = append(u.exports[c], e)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		others := slices.DeleteFunc(u.exports[c], func(o *export) bool { return o == e })
		if u.exports[c] = others; len(others) == 0 {
			delete(u.exports, c)
		}
	}, nil
}
