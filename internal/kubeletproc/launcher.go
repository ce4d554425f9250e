package kubeletproc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
)

// launcherPath is the package path of Podstream's own program of the kubelet's name.
const launcherPath = "github.com/podstream/podstream/cmd/kubelet"

const (
	// buildInfoMagic begins the section with the build's information, and maxBuildInfo is the number of bytes that are read of it:
	// the package path is at its beginning.
	buildInfoMagic = "\xff Go buildinf:"
	maxBuildInfo   = 64 << 10
	// maxSections is the number of sections that are read. Go's linker writes fewer than 40.
	maxSections = 1000
)

// isLauncher reports whether the program of the process is Podstream's launcher. The build has written that into the program.
func (k *kubelet) isLauncher() bool { return hasPath(filepath.Join(k.dir, "exe"), launcherPath) }

// hasPath reports whether a file is a Go program whose main package has this path. Package debug/buildinfo reads this too, and
// debug/elf the sections, but each of them would make podctl 0.3 MB larger: they decompress, and read other systems' formats.
func hasPath(name, path string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	var header elf.Header64
	if !readAt(file, 0, &header) || string(header.Ident[:len(elf.ELFMAG)]) != elf.ELFMAG || elf.Class(header.Ident[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return false
	}
	for i := range min(int64(header.Shnum), maxSections) {
		var section elf.Section64
		if !readAt(file, int64(header.Shoff)+i*int64(header.Shentsize), &section) { //nolint:gosec // A negative offset is an error.
			return false
		}
		if elf.SectionType(section.Type) != elf.SHT_PROGBITS {
			continue
		}
		info := make([]byte, min(section.Size, maxBuildInfo))
		n, _ := file.ReadAt(info, int64(section.Off)) //nolint:gosec // As above.
		if bytes.HasPrefix(info[:n], []byte(buildInfoMagic)) {
			// The modules are text in it, with a line "path\tPACKAGE". runtime/debug.BuildInfo documents it.
			return bytes.Contains(info[:n], []byte("path\t"+path+"\n"))
		}
	}
	return false
}

// readAt reads a value at an offset, and reports whether it is there. Podstream runs on machines with little-endian numbers.
func readAt(file io.ReaderAt, offset int64, into any) bool {
	return binary.Read(io.NewSectionReader(file, offset, int64(binary.Size(into))), binary.LittleEndian, into) == nil
}
