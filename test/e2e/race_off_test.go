//go:build !race

package e2e

import "time"

// atRest is the minimum that TestG8UnderAttack assumes for the p99 of podexecd's stream without the attack.
const atRest = 40 * time.Millisecond
