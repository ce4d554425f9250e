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
	changes map[directory.Claim]string
}

// change keeps exports from the volume until release is called.
func (u *uses) change(c directory.Claim, why string) (release func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if had := u.changes[c]; had != "" {
		return nil, fmt.Errorf("volume %s %s: %w", c, had, ErrInUse)
	}
	if u.exports[c] > 0 {
		return nil, fmt.Errorf("volume %s is being exported: %w", c, ErrInUse)
	}
	if u.changes == nil {
		u.changes = map[directory.Claim]string{}
	}
	u.changes[c] = why
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.changes, c)
	}, nil
}

// export keeps the volume from being changed until release is called.
func (u *uses) export(c directory.Claim) (release func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if why := u.changes[c]; why != "" {
		return nil, fmt.Errorf("volume %s %s: %w", c, why, ErrInUse)
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
