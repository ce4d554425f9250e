//go:build failpoints

package failpoint

import (
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// switches counts for each fault how often it is enabled. The map itself never changes after start.
var switches = func() map[Name]*atomic.Int32 {
	m := map[Name]*atomic.Int32{}
	all := slices.Concat(Names(), RelayNames(), ExecNames(), ClusterNames(), VolumeNames(), WatchdogNames(), WebNames(), WriteNames())
	for _, n := range all {
		m[n] = new(atomic.Int32)
	}
	return m
}()

func init() {
	for _, n := range strings.FieldsFunc(os.Getenv(Variable), func(r rune) bool { return r == ',' || r == ' ' }) {
		Enable(Name(n))
	}
}

// Active reports whether the fault is switched on.
func Active(n Name) bool { return switchOf(n).Load() > 0 }

// Hold returns when the fault isn't switched on any more.
func Hold(n Name) {
	for s := switchOf(n); s.Load() > 0; {
		time.Sleep(10 * time.Millisecond)
	}
}

// Enable switches a fault on, for every goroutine, until disable is called. Calls are counted.
func Enable(n Name) (disable func()) {
	s := switchOf(n)
	s.Add(1)
	return sync.OnceFunc(func() { s.Add(-1) })
}

// switchOf panics for an unknown fault: otherwise a misspelt name would make a checker's test pass.
func switchOf(n Name) *atomic.Int32 {
	s := switches[n]
	if s == nil {
		panic("failpoint: there is no fault " + string(n))
	}
	return s
}
