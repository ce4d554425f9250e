//go:build race

package e2e

import "time"

// atRest is larger with the race detector, which uses most of the CPU time that podconfigd, its attackers and
// the test share.
const atRest = 84 * time.Millisecond
