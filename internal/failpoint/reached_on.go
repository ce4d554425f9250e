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

// death is this process's crash point.
var death = parseDeath(os.Getenv(DieAt))

type place struct {
	point Point
	// left is the number of further times that the process passes the point before it dies there.
	left atomic.Int64
}

// parseDeath panics for an unknown point: otherwise a test with a misspelt one would test nothing.
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
	points := slices.Concat(Points(), RotationPoints(), RestartPoints(), ClusterPoints(), WritePoints(), StoragePoints())
	if err != nil || n < 1 || !slices.Contains(points, d.point) {
		panic(fmt.Sprintf("failpoint: %s=%q names no point", DieAt, text))
	}
	d.left.Store(n)
	return d
}

// Reached kills the process by SIGKILL, after a line in its log, if this is its crash point. It doesn't return then.
func Reached(p Point) {
	if p != death.point || death.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint: dying at %s\n", p)
	// Neither can fail. If one did, the process must not continue.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
