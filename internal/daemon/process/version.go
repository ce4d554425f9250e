package process

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Platform is the GOOS/GOARCH of the build.
const Platform = runtime.GOOS + "/" + runtime.GOARCH

// version is set by the build: -ldflags "-X github.com/podstream/podstream/internal/daemon/process.version=…".
var version string

// Version returns the version set by the build; without one, the version of the main module, or its commit;
// "unknown" if the build didn't record it.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// VersionText returns the line that --version prints, with a newline.
func VersionText(name, version string) string {
	return fmt.Sprintf("%s %s (%s, %s)\n", name, version, runtime.Version(), Platform)
}
