package kubeletproc

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
)

// launcherPath is the package path of Podstream's own program of the kubelet's name.
const launcherPath = "github.com/podstream/podstream/cmd/kubelet"

// isLauncher reports whether the program of the process is Podstream's launcher. The build has written that into the program.
func (k *kubelet) isLauncher() bool {
	file, err := os.Open(filepath.Join(k.dir, "exe"))
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := buildinfo.Read(file)
	return err == nil && info.Path == launcherPath
}
