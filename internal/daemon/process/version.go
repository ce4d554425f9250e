package process

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Platform is what this program was built for, as GOOS/GOARCH.
const Platform = runtime.GOOS + "/" + runtime.GOARCH

// Version is the version of the module that this program was built from, or its commit; "unknown" if the build didn't record it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// VersionText is the line by which a program tells its version, with the line's end.
func VersionText(name, version string) string {
	return fmt.Sprintf("%s %s (%s, %s)\n", name, version, runtime.Version(), Platform)
}
