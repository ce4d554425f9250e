package nodecert

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fingerprint identifies the files at the paths: it changes if a file is replaced or written to, or if a link on its
// path changes. A path may be empty.
func fingerprint(paths ...string) string {
	var out strings.Builder
	for _, path := range paths {
		var s unix.Stat_t
		if path == "" || unix.Stat(path, &s) != nil {
			out.WriteString("-;")
			continue
		}
		fmt.Fprintf(&out, "%d %d %d %v;", s.Dev, s.Ino, s.Size, s.Ctim)
	}
	return out.String()
}

// exists reports whether the path exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
