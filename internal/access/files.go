package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/podstream/podstream/internal/openfile"
)

// maxFile is larger than any list of certificates or clients.
const maxFile = 1 << 20

// fileGroup is a set of files that are valid only together, such as a certificate and its key. They are compared by
// content, so a switched symbolic link, a rename and a write in place have the same effect.
type fileGroup struct {
	paths []string
	// use applies the contents, or returns why they can't be used.
	use func(contents [][]byte) error
	log *slog.Logger

	current, candidate digest
	// judged: the candidate was tried and isn't good.
	judged bool
	// problem is the last logged error; empty if the files are good.
	problem string
}

// digest identifies contents without keeping a key in memory.
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

// reload reads the files again and applies new contents. They must be the same at two readings: a file that is being
// written in place can look complete too early, and a truncated entry may grant more than the whole one.
func (g *fileGroup) reload() {
	contents, sum, err := g.read()
	switch {
	case err != nil:
		g.candidate, g.judged = digest{}, false
		g.logProblem(err)
		return
	case sum == g.current:
		g.candidate, g.judged = digest{}, false
		g.recover()
		return
	case sum != g.candidate:
		g.candidate, g.judged = sum, false
		return
	case g.judged:
		return
	}
	if err := g.use(contents); err != nil {
		g.judged = true
		g.logProblem(err)
		return
	}
	g.current, g.candidate, g.problem = sum, digest{}, ""
	g.log.Info("changed files are in use", "files", g.paths)
}

// logProblem logs each problem once.
func (g *fileGroup) logProblem(err error) {
	if err.Error() != g.problem {
		g.problem = err.Error()
		g.log.Error("changed files can't be used; the last good version stays in use", "files", g.paths, "error", err)
	}
}

func (g *fileGroup) recover() {
	if g.problem != "" {
		g.problem = ""
		g.log.Info("files are the last good version again", "files", g.paths)
	}
}

func (g *fileGroup) read() (contents [][]byte, sum digest, err error) {
	hash := sha256.New()
	for _, path := range g.paths {
		data, err := readFile(path)
		if err != nil {
			return nil, digest{}, err
		}
		// The lengths keep different groups of contents from having one digest.
		_ = binary.Write(hash, binary.LittleEndian, int64(len(data)))
		_, _ = hash.Write(data)
		contents = append(contents, data)
	}
	return contents, digest(hash.Sum(nil)), nil
}

func readFile(path string) ([]byte, error) {
	// A file that blocks its reader, such as a pipe without a writer, must not delay the expiry of certificates.
	data, err := openfile.Read(context.Background(), path, maxFile)
	var size *openfile.SizeError
	switch {
	case errors.As(err, &size):
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	case err == nil && len(bytes.TrimSpace(data)) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return data, err
}
