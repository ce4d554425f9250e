package door

import (
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/failpoint"
)

// handoverName is the name of the file in its directory.
const handoverName = "podctl-web.html"

// HandoverConfig configures a Handover.
type HandoverConfig struct {
	// Parent is the directory in which the Handover makes its own. It must be the process's user's or root's, and other users
	// must not be able to rename what is in it.
	Parent string
	// Owner is the user that may read the file. Negative means the process's own.
	Owner int
}

// Handover passes the page's address to the user: in a file that only the user may read, and that leads a browser to the
// address. The address has a ticket, so that it must not be in a command line, which all users can read.
type Handover struct {
	cfg  HandoverConfig
	path string
	dir  *os.Root
}

// NewHandover makes the directory of the file.
func NewHandover(cfg HandoverConfig) (*Handover, error) {
	if err := checkParent(cfg.Parent); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(cfg.Parent, "podctl-web-")
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	h := &Handover{cfg: cfg, path: path, dir: dir}
	if failpoint.Active(failpoint.WebFileMode) {
		err = os.Chmod(path, 0o755) //nolint:gosec // It is the fault.
	}
	if err == nil && cfg.Owner >= 0 {
		err = dir.Chown(".", cfg.Owner, -1)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// checkParent returns an error if another user could put a file of their own in the place of the Handover's.
func checkParent(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("the directory for the link, %s: %w", path, err)
	}
	// The owner can rename what is in it, whatever its mode is.
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory for the link, %s: it belongs to user %d, who can replace files in it", path, st.Uid)
	}
	const othersWrite, sticky = 0o022, unix.S_ISVTX
	if st.Mode&othersWrite != 0 && st.Mode&sticky == 0 {
		return fmt.Errorf("the directory for the link, %s: other users can replace files in it (mode %04o)", path, st.Mode&0o7777)
	}
	return nil
}

// Path returns the path of the file.
func (h *Handover) Path() string { return filepath.Join(h.path, handoverName) }

// Write replaces the file by one that leads to the address.
func (h *Handover) Write(address string) error {
	if err := h.Remove(); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if failpoint.Active(failpoint.WebFileMode) {
		mode = 0o644
	}
	file, err := h.dir.OpenFile(handoverName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write the link: %w", err)
	}
	if h.cfg.Owner >= 0 {
		err = file.Chown(h.cfg.Owner, -1)
	}
	if err == nil {
		_, err = file.WriteString(redirection(address))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the link: %w", errors.Join(err, h.Remove()))
	}
	return nil
}

// Remove removes the file, if there is one.
func (h *Handover) Remove() error {
	if err := h.dir.Remove(handoverName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the link: %w", err)
	}
	return nil
}

// Close removes the file and its directory.
func (h *Handover) Close() error {
	err := errors.Join(h.Remove(), h.dir.Close())
	// If its owner has put another file there, or a link in its place, it stays: only an empty directory is removed.
	if removeErr := unix.Rmdir(h.path); removeErr != nil && !errors.Is(removeErr, unix.ENOENT) {
		err = errors.Join(err, fmt.Errorf("remove %s: %w", h.path, removeErr))
	}
	return err
}

// redirection is a page that leads to the address. A fragment is sent to no server, and the page drops it.
func redirection(address string) string {
	address = html.EscapeString(address)
	return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=` + address + `">
<title>podctl web</title>
<p><a href="` + address + `">Continue to podctl web</a>. This link is valid once, for a minute.
</html>
`
}
