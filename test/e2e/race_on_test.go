//go:build race

package e2e

import "time"

// atRest is larger under the race detector, which takes most of the processors that podconfigd, its attackers and the
// test share.
const atRest = 84 * time.Millisecond
