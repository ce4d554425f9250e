package plugins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/openfile"
)

// maxPath is the maximum length of a path in bytes, as the kernel's.
const maxPath = 4096

// Endpoint is the socket of a plugin's service: a path beneath a directory out of which no link may lead.
type Endpoint struct {
	dir, name string
}

// NewEndpoint returns the endpoint at the path, which must lie beneath one of the directories: all are names of the same one.
func NewEndpoint(path string, dirs ...string) (Endpoint, error) {
	if !printable(path, maxPath) || !filepath.IsAbs(path) {
		return Endpoint{}, fmt.Errorf("the endpoint %s isn't an absolute path", quoted(path))
	}
	for _, dir := range dirs {
		name, err := filepath.Rel(dir, filepath.Clean(path))
		if err == nil && name != "." && filepath.IsLocal(name) {
			return Endpoint{dir, name}, nil
		}
	}
	return Endpoint{}, fmt.Errorf("the endpoint %s isn't beneath %s", quoted(path), dirs[0])
}

// String returns the path.
func (e Endpoint) String() string { return filepath.Join(e.dir, e.name) }

// Open opens the socket's file for Dial, after checking that it is root's and beneath its directory. The caller closes it.
func (e Endpoint) Open() (*openfile.Socket, error) {
	socket, err := openfile.OpenLinkedSocket(e.dir, e.name)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(socket, e.String()); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return socket, nil
}

// checkOwner returns an error unless the socket is of the user that this process has, which is root on a node.
func checkOwner(socket *openfile.Socket, path string) error {
	if owner := socket.Owner(); int(owner) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user %d; only sockets of the user %d are used", path, owner, os.Geteuid())
	}
	return nil
}

// printable reports whether a text from a plugin has at least one and at most that many bytes, and no control characters.
func printable(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// maxQuoted is the maximum length of a plugin's text in errors, in bytes.
const maxQuoted = 1024

// quoted returns a text from a plugin for errors and logs.
func quoted(text string) string { return fmt.Sprintf("%q", cut(text, 128)) }

// cut returns the text, or its beginning, as valid UTF-8.
func cut(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

var errReplaced = errors.New("the socket's file was replaced")
