package kubeletproc

import (
	"bytes"
	"debug/elf"
	"io"
	"path/filepath"
)

// launcherPath is the package path of Podstream's own program of the kubelet's name.
const launcherPath = "github.com/podstream/podstream/cmd/kubelet"

// maxBuildInfo is the number of bytes that are read of the section of the build's information. It begins with the package path.
const maxBuildInfo = 64 << 10

// isLauncher reports whether the program of the process is Podstream's launcher. The build has written that into the program.
func (k *kubelet) isLauncher() bool { return hasPath(filepath.Join(k.dir, "exe"), launcherPath) }

// hasPath reports whether a file is a Go program whose main package has this path. Package debug/buildinfo reads this too, but
// it reads the formats of other systems as well, with which podctl would have 0.3 MB more.
func hasPath(file, path string) bool {
	program, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer program.Close()
	section := program.Section(".go.buildinfo")
	if section == nil || section.Type != elf.SHT_PROGBITS || section.Flags&elf.SHF_COMPRESSED != 0 {
		return false
	}
	// The modules are text in it, with a line "path\tPACKAGE". runtime/debug.BuildInfo documents it.
	info, err := io.ReadAll(io.NewSectionReader(section, 0, int64(min(section.Size, maxBuildInfo))))
	return err == nil && bytes.Contains(info, []byte("path\t"+path+"\n"))
}
