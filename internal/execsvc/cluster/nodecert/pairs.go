package nodecert

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// The files are those of the kubelet's certificate store, so that either agent finds the certificate of the other one:
// each pair is in PREFIX-TIME.pem, and PREFIX-current.pem is a link to the newest one. PREFIX-updated.pem is the next
// link until it is renamed.

// currentPath returns the file that always has the current certificate and its key.
func (i *issuer) currentPath() string { return i.pairPath("current") }

func (i *issuer) pairPath(name string) string { return filepath.Join(i.dir, i.prefix+"-"+name+".pem") }

// current returns the certificate in the files, nil if there is none. An unreadable one is an error.
func (i *issuer) current() (*tls.Certificate, error) {
	if err := i.finish(); err != nil {
		return nil, err
	}
	for _, pair := range []struct{ cert, key string }{
		{i.currentPath(), i.currentPath()},
		{i.certFile, i.keyFile},
		{filepath.Join(i.dir, i.prefix+".crt"), filepath.Join(i.dir, i.prefix+".key")},
	} {
		there, err := bothExist(pair.cert, pair.key)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		c, err := tls.LoadX509KeyPair(pair.cert, pair.key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate and key in %s and %s: %w", pair.cert, pair.key, err)
		}
		return &c, nil
	}
	return nil, nil
}

// finish renames the next link, if a kubelet was killed before it did so.
func (i *issuer) finish() error {
	if there, err := bothExist(i.currentPath(), i.currentPath()); there || err != nil {
		return err
	}
	next := i.pairPath("updated")
	if there, err := isLink(next); !there || err != nil {
		return err
	}
	return os.Rename(next, i.currentPath())
}

// save writes a pair, and makes it the current one.
func (i *issuer) save(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(i.pairPath(time.Now().Format("2006-01-02-15-04-05")))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(i.dir, 0o755); err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(path, bytes.Join([][]byte{bytes.TrimSpace(cert), bytes.TrimSpace(key), nil}, []byte("\n")), 0o600); err != nil {
		return nil, err
	}
	// A file in place of a link would be an administrator's.
	next := i.pairPath("updated")
	for _, link := range []string{i.currentPath(), next} {
		if _, err := isLink(link); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.Symlink(path, next); err != nil {
		return nil, err
	}
	return &pair, os.Rename(next, i.currentPath())
}

// isLink reports whether the path exists. It must be a symbolic link.
func isLink(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink == 0:
		return false, fmt.Errorf("%s isn't a symbolic link", path)
	}
	return true, nil
}

// bothExist reports whether both files exist. A path may be empty.
func bothExist(cert, key string) (bool, error) {
	for _, path := range []string{cert, key} {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
