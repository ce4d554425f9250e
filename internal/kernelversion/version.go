// Package kernelversion compares the version of the running kernel, for behaviour that no call can ask for. It runs no goroutine.
package kernelversion

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Before reports whether the kernel is older than this version, or unknown.
func Before(major, minor int) bool { return running().before(major, minor) }

// version is a kernel's. The zero value is unknown.
type version struct{ major, minor int }

func (v version) before(major, minor int) bool {
	return v.major < major || v.major == major && v.minor < minor
}

var running = sync.OnceValue(func() version {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return version{}
	}
	return parse(unix.ByteSliceToString(name.Release[:]))
})

// parse returns the version of a release, such as 6.12.3-generic.
func parse(release string) version {
	var v version
	if _, err := fmt.Sscanf(release, "%d.%d", &v.major, &v.minor); err != nil {
		return version{}
	}
	return v
}
