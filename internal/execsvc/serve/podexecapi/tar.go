package podexecapi

import (
	"crypto/rand"
	"path"
	"strings"
	"sync"
)

// The commands of tar. Each has only options that the tars of GNU, busybox and libarchive have.

// The exit codes of a shell, or of a runtime, that can't run a program or doesn't find it.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

func noSuchProgram(code int) bool { return code == exitNotExecutable || code == exitNotFound }

// createTar returns the command that writes an archive of a file in a directory. No argument that the caller chooses
// begins with "-", so tar takes none as an option, nor with "@", which some take as another archive.
func createTar(dir, name string) []string {
	if name != "." {
		name = "./" + name
	}
	return []string{"tar", "-c", "-f", "-", "-C", dir, name}
}

// extractTar returns the command that extracts an archive in a directory. As with kubectl, the files get the present
// time.
func extractTar(dir string) []string { return []string{"tar", "-x", "-m", "-f", "-", "-C", dir} }

// splitPath returns the directory of a path, and its last element: "." if there is none, or if the path ends with "/",
// so that a link to a directory is followed then.
func splitPath(p string) (dir, name string) {
	if strings.HasSuffix(p, "/") {
		return rooted(path.Clean(p)), "."
	}
	clean := path.Clean(p)
	if name = path.Base(clean); name == "/" || name == "." || name == ".." {
		return rooted(clean), "."
	}
	return rooted(path.Dir(clean)), name
}

// rooted returns the path such that it doesn't begin with "-".
func rooted(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return "./" + p
}

// maxMark is the longest text that tarMark returns.
const maxMark = 3 * markBits

// markBits is the number of random bits in a mark.
const markBits = 64

// tarMark returns random elements that change nothing at the end of a directory's path: each is ".", after one slash or
// two. By them the command of a copy can be told from any other one in the container.
func tarMark() string {
	var bits [markBits / 8]byte
	_, _ = rand.Read(bits[:]) // It never fails.
	var mark strings.Builder
	for i := range markBits {
		if bits[i/8]>>(i%8)&1 == 1 {
			mark.WriteByte('/')
		}
		mark.WriteString("/.")
	}
	return mark.String()
}

// maxSaid is how much of tar's messages is kept: the last ones say why it failed.
const maxSaid = 1 << 10

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-maxSaid):]...)
	t.text = append(t.text[:0], t.text[max(0, len(t.text)-maxSaid):]...)
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
