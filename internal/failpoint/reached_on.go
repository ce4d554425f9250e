//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// death is where this process dies.
var death = parseDeath(os.Getenv(DieAt))

type place struct {
	point Point
	// left is how often the point is passed yet, until it is zero.
	left atomic.Int64
}

// parseDeath panics for a point that doesn't exist: a misspelt one would make a test of nothing.
func parseDeath(text string) *place {
	d := &place{}
	if text == "" {
		return d
	}
	name, times, counted := strings.Cut(text, ":")
	d.point = Point(name)
	n, err := int64(1), error(nil)
	if counted {
		n, err = strconv.ParseInt(times, 10, 32)
	}
	if err != nil || n < 1 || !slices.Contains(slices.Concat(Points(), ClusterPoints()), d.point) {
		panic(fmt.Sprintf("failpoint: %s=%q names no point", DieAt, text))
	}
	d.left.Store(n)
	return d
}

// Reached dies if this is the point to die at: by SIGKILL, after a line that says so. It doesn't return then.
func Reached(p Point) {
	if p != death.point || death.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint: dying at %s\n", p)
	// Both can't fail, and nothing may go on if they did.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
