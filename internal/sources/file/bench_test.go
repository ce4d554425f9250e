package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/manifest"
)

// benchFiles is the number of other manifests beside the one that changes.
const benchFiles = 100

// benchDir returns a directory of manifests, and a function that renames the next version of one of them into
// place. The function returns the time of the rename.
func benchDir(b *testing.B) (dir string, change func() time.Time) {
	dir = b.TempDir()
	for i := range benchFiles {
		write(b, filepath.Join(dir, fmt.Sprintf("%03d.yaml", i)), pod(fmt.Sprint("p", i), "v1"))
	}
	path, temp := filepath.Join(dir, "050.yaml"), filepath.Join(dir, ".temp")
	version := 1
	return dir, func() time.Time {
		version++
		write(b, temp, pod("p50", fmt.Sprint("v", version)))
		start := time.Now()
		must(b, os.Rename(temp, path))
		return start
	}
}

// BenchmarkRenameToSet measures the time from a rename into the directory to the Set that shows it: the
// ns/rename. Compare it with BenchmarkBareInotifyReadParse in the same run. The ns/op include the writing of
// the file.
func BenchmarkRenameToSet(b *testing.B) {
	dir, change := benchDir(b)
	r := run(b, Config{Path: dir})
	r.next()
	var sum time.Duration
	for b.Loop() {
		start := change()
		r.next()
		sum += time.Since(start)
	}
	b.ReportMetric(float64(sum.Nanoseconds())/float64(b.N), "ns/rename")
}

// BenchmarkBareInotifyReadParse measures the minimum: inotify, read the file, parse it; no settling, no
// goroutines, no Set.
func BenchmarkBareInotifyReadParse(b *testing.B) {
	dir, change := benchDir(b)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	must(b, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO)
	must(b, err)
	path := filepath.Join(dir, "050.yaml")
	buf := make([]byte, 4096)
	var sum time.Duration
	for b.Loop() {
		start := change()
		_, err := unix.Read(fd, buf)
		must(b, err)
		data, err := os.ReadFile(path)
		must(b, err)
		if o := manifest.Parse(data, manifest.Options{Origin: path, Node: "node"}); o.Held {
			b.Fatal(o.Findings)
		}
		sum += time.Since(start)
	}
	b.ReportMetric(float64(sum.Nanoseconds())/float64(b.N), "ns/rename")
}
