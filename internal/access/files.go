package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxFile is far more than any certificate or list of clients needs.
const maxFile = 1 << 20

// fileGroup is files that are good only together, such as a certificate and its key. They are compared by content: a symbolic
// link that is switched, a rename and a write in place all look alike.
type fileGroup struct {
	paths []string
	// use takes the contents over, or says why they can't be used.
	use func(contents [][]byte) error
	log *slog.Logger

	current, candidate digest
	// judged: the candidate was tried and isn't good.
	judged bool
	// problem is what was logged last; empty if the files are well.
	problem string
}

// digest tells contents apart without keeping a key in memory.
type digest [sha256.Size]byte

// load reads the files for the first time.
func (g *fileGroup) load() error {
	contents, sum, err := g.read()
	if err != nil {
		return err
	}
	g.current = sum
	return g.use(contents)
}

// reload reads the files again, and tells whether it took over new contents. What has changed must be the same at two readings:
// a file that is being written in place can look whole before its time, and a truncated entry may grant more than the whole one.
func (g *fileGroup) reload() bool {
	contents, sum, err := g.read()
	switch {
	case err != nil:
		g.candidate, g.judged = digest{}, false
		g.complain(err)
		return false
	case sum == g.current:
		g.candidate, g.judged = digest{}, false
		g.recover()
		return false
	case sum != g.candidate:
		g.candidate, g.judged = sum, false
		return false
	case g.judged:
		return false
	}
	if err := g.use(contents); err != nil {
		g.judged = true
		g.complain(err)
		return false
	}
	g.current, g.candidate, g.problem = sum, digest{}, ""
	g.log.Info("changed files are in use", "files", g.paths)
	return true
}

// complain logs each problem once.
func (g *fileGroup) complain(err error) {
	if err.Error() != g.problem {
		g.problem = err.Error()
		g.log.Error("changed files can't be used; what was read before stays in use", "files", g.paths, "error", err)
	}
}

func (g *fileGroup) recover() {
	if g.problem != "" {
		g.problem = ""
		g.log.Info("files are again as they were when they were last good", "files", g.paths)
	}
}

func (g *fileGroup) read() (contents [][]byte, sum digest, err error) {
	hash := sha256.New()
	for _, path := range g.paths {
		data, err := readFile(path)
		if err != nil {
			return nil, digest{}, err
		}
		// With the lengths, no two groups of contents look the same.
		_ = binary.Write(hash, binary.LittleEndian, int64(len(data)))
		_, _ = hash.Write(data)
		contents = append(contents, data)
	}
	return contents, digest(hash.Sum(nil)), nil
}

func readFile(path string) ([]byte, error) {
	// To open a pipe that nobody writes to would wait for a writer otherwise, and the expiry of certificates with it.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s isn't a regular file", path)
	}
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.LimitReader(f, maxFile+1)); err != nil {
		return nil, err
	}
	if data.Len() > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	if strings.TrimSpace(data.String()) == "" {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return data.Bytes(), nil
}
