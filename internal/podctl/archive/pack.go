package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Options configure Pack.
type Options struct {
	// Name is the first element of each entry's name.
	Name string
	// NoPreserve gives files to root, and takes write permission from group and others. Otherwise they keep owner and
	// permissions.
	NoPreserve bool
	// Skipped is called for each file that isn't packed. reason continues the sentence that begins with the name.
	Skipped func(name, reason string)
}

// Pack writes an archive of a file, or of a directory with what is below it. Regular files and directories are packed,
// and of links those to regular files below the source, as such files. The path itself may lead through links. No file
// has setuid or setgid bits.
func Pack(w io.Writer, source string, o Options) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	p := &packer{tar: tar.NewWriter(w), options: o}
	if info.IsDir() {
		p.root, err = os.OpenRoot(source)
	} else {
		// A link is what its target is: the user has named it.
		if source, err = filepath.EvalSymlinks(source); err == nil {
			p.root, err = os.OpenRoot(filepath.Dir(source))
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = p.root.Close() }()
	if info.IsDir() {
		err = p.dir(".", o.Name)
	} else {
		err = p.file(filepath.Base(source), o.Name)
	}
	// An archive that failed must not look complete.
	if err != nil {
		return err
	}
	return p.tar.Close()
}

// packer packs what is below root.
type packer struct {
	tar     *tar.Writer
	root    *os.Root
	options Options
}

// dir packs the directory at a path below root under a name, and what is below it.
func (p *packer) dir(at, name string) error {
	dir, err := p.root.Open(at)
	if err != nil {
		return err
	}
	info, err := dir.Stat()
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s isn't a directory any more", at)
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = dir.ReadDir(-1)
	}
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	h := p.header(info, name+"/")
	h.Typeflag = tar.TypeDir
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %s: %w", at, err)
	}
	for _, e := range entries {
		below, called := filepath.Join(at, e.Name()), path.Join(name, e.Name())
		switch {
		case e.IsDir():
			err = p.dir(below, called)
		case e.Type().IsRegular():
			err = p.file(below, called)
		case e.Type()&fs.ModeSymlink != 0:
			err = p.link(below, called)
		default:
			p.options.Skipped(below, "is neither a file nor a directory")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link packs the regular file that a link below root leads to, if that is below root too.
func (p *packer) link(at, name string) error {
	switch info, err := p.root.Stat(at); {
	case err == nil && info.Mode().IsRegular():
		return p.file(at, name)
	case err == nil:
		p.options.Skipped(at, "is a symbolic link to something else than a file")
	default:
		p.options.Skipped(at, "is a symbolic link to nothing below the source")
	}
	return nil
}

// file packs the regular file at a path below root under a name.
func (p *packer) file(at, name string) error {
	// Without O_NONBLOCK, a FIFO that has taken the file's place would block.
	file, err := p.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s isn't a regular file", at)
	}
	h := p.header(info, name)
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %s: %w", at, err)
	}
	if n, err := io.CopyN(p.tar, file, info.Size()); errors.Is(err, io.EOF) {
		return fmt.Errorf("pack %s: it has shrunk from %d to %d bytes meanwhile", at, info.Size(), n)
	} else if err != nil {
		return fmt.Errorf("pack %s: %w", at, err)
	}
	return nil
}

// header returns the header of a file. Names of users aren't in it, because a container may have others.
func (p *packer) header(info fs.FileInfo, name string) *tar.Header {
	h := &tar.Header{
		Name: strings.TrimPrefix(name, "./"), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(),
		// Each tar reads long names in this format; the one of busybox skips those of the newer one.
		Format: tar.FormatGNU,
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		h.Uid, h.Gid = int(stat.Uid), int(stat.Gid)
	}
	if p.options.NoPreserve {
		const othersWrite = 0o022
		h.Uid, h.Gid, h.Mode = 0, 0, h.Mode&^othersWrite
	}
	return h
}
